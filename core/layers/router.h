/* Which experts a row takes, and with which weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ROUTER_H
#define QSF_ROUTER_H

#include "layers/pass.h"

/* Floats of scratch for a row with n_experts experts, including its logits. */
static inline size_t qsf_router_floats(uint32_t n_experts) { return 3 * (size_t)n_experts; }

/* row: [qsf_router_floats] the router's logits, then scratch.  bias: [n_experts] added to what is
 * chosen by, but not to weights; or NULL.  chosen[n_used]: ascending; weights[n_used]: theirs. */
void qsf_router_choose(const qsf_layer *l, float *row, const float *bias, uint32_t *chosen, float *weights);

/* Sorts the batch's slots, each a row in one of its experts, by expert; returns how many experts
 * have any. */
uint32_t qsf_router_sort(const qsf_pass *p);

#endif
