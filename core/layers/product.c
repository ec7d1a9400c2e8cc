/* Products of all rows of a batch.
 * SPDX-License-Identifier: MIT */
#include "layers/product.h"

qsf_matrix_in qsf_view_in(const qsf_pass *p, const qsf_view *v)
{
    size_t ld;
    const float *x = qsf_buffer_of(p->b, v->buffer, &ld);
    return qsf_matrix_input(p, x + v->first, ld, v->cols, 0, p->batch->n);
}

void qsf_product_row(const qsf_pass *p, const qsf_task *t)
{
    const qsf_program_row *row = t->row;
    const qsf_matrix_in in = qsf_view_in(p, &row->in);
    const qsf_range mine = { t->begin, t->end };
    size_t at = 0;
    for (uint32_t i = 0; i < row->n; i++) {
        const qsf_matrix *m = &p->w->m[row->kinds[i]];
        const size_t tiles = qsf_matrix_tiles(m);
        if (!tiles) continue;
        size_t ld;
        float *y = qsf_buffer_of(p->b, row->to[i].buffer, &ld) + row->to[i].first;
        qsf_matrix_multiply(p, m, row->bias[i] ? p->w->v[row->bias[i]] : NULL, &in, y, ld,
                            qsf_range_cut(mine, at, tiles), t->thread);
        at += tiles;
    }
}
