/* Which experts a row takes, and with which weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ROUTER_H
#define QSF_ROUTER_H

#include "layers/pass.h"

/* Columns of a row with n_experts experts: its logits, then scratch of twice as many. */
static inline uint32_t qsf_router_columns(uint32_t n_experts)
{
    return (uint32_t)qsf_round_up(3 * n_experts, QSF_TILE_ROWS);
}

/* row: [qsf_router_columns] the router's logits, then scratch.  bias: [n_experts] added to what is
 * chosen by, but not to weights; or NULL.  chosen[n_used]: ascending; weights[n_used]: theirs. */
void qsf_router_choose(const qsf_layer *l, float *row, const float *bias, uint32_t *chosen, float *weights);

/* Sorts the batch's slots, each a row in one of its experts, by expert; returns how many experts
 * have any. */
uint32_t qsf_router_sort(const qsf_pass *p);

#endif
