/* What a context has done in all; the public part is qsf_context_get_kernel and
 * qsf_context_get_operation.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOTALS_H
#define QSF_TOTALS_H

#include "engine/context.h"

/* A turn has chosen a token, since `begin`: for the records. */
void qsf_context_sampled(const qsf_context *c, uint64_t begin);

#endif
