/* Pooled hidden states of an input.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HIDDEN_H
#define QSF_HIDDEN_H

#include "engine/context.h"

/* Which rows a pooling takes: what is ranked is a mean or one token. */
qsf_pooling qsf_pooling_rows(const qsf_hparams *hp, qsf_pooling how);
/* Brings x to the length 1; zeros stay what they are. */
void qsf_hidden_unit(float *x, size_t n);
/* As qsf_hidden_pool, but of any length in the end. */
bool qsf_hidden_sum(const qsf_context *c, size_t first, size_t rows, size_t at, size_t n, qsf_pooling how,
                    float *out);

#endif
