/* Groups of a batch's rows.
 * SPDX-License-Identifier: MIT */
#include "layers/batch.h"

enum { GROUPS_COMPARED = 64 };      /* beyond that, nothing would be gained by knowing */

void qsf_batch_group(qsf_batch *b)
{
    b->n_groups = 0;
    for (uint32_t r = 0; r < b->n; r++) {
        qsf_row_group *g = b->n_groups ? &b->groups[b->n_groups - 1] : NULL;
        if (g && g->n < QSF_ATTENTION_ROWS && b->rows[g->first].seq == b->rows[r].seq) g->n++;
        else b->groups[b->n_groups++] = (qsf_row_group){ r, 1 };
    }
    b->groups_apart = b->n_groups <= GROUPS_COMPARED;
    for (uint32_t i = 1; i < b->n_groups && b->groups_apart; i++)
        for (uint32_t j = 0; j < i; j++)
            b->groups_apart &= b->rows[b->groups[i].first].seq != b->rows[b->groups[j].first].seq;
}
