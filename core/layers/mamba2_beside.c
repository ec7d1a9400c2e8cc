/* Falcon-H1's mixer: Mamba-2 and attention read the same normed rows, and their outputs are added.
 * SPDX-License-Identifier: MIT */
#include "layers/mamba2_beside.h"
#include "layers/attention.h"
#include "layers/mamba2.h"
#include "layers/matrix.h"

static float *beside_row(const qsf_pass *p, size_t r) { return p->b->mix + r * p->b->ld_mix; }

/* Mamba-2's output goes to the buffer of its input. */
static void keep_first(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++)
        memcpy(beside_row(p, r), p->b->tmp + r * p->b->ld_embd, p->hp->n_embd * sizeof(float));
}

static void add_first(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->tmp + r * p->b->ld_embd;
        p->k->vec_add(y, y, beside_row(p, r), p->hp->n_embd);
    }
}

void qsf_mamba2_beside_list(const qsf_layer *l, qsf_program *g)
{
    qsf_mamba2_list(l, g);
    QSF_ADD(g, .op = QSF_OP_MIX_CODES, .work = QSF_WORK_COPY, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_MIX) }, .fn = keep_first);
    qsf_program_row *again = &g->rows[g->n];
    qsf_attention_list(l, g);
    again->watch = 0;           /* Mamba-2 has shown the same rows */
    QSF_ADD(g, .op = QSF_OP_MIX_CODES, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_TMP) }, .fn = add_first);
}
