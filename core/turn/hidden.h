/* Hidden states of a text, pooled.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HIDDEN_H
#define QSF_HIDDEN_H

#include "engine/context.h"

/* As qsf_hidden_pool, but of any length in the end. */
bool qsf_hidden_sum(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n, qsf_pooling how,
                    float *out);

#endif
