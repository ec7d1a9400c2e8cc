/* What feed-forwards share: the way from their hidden state to their output.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward.h"
#include "layers/lora.h"

qsf_matrix_in qsf_feed_forward_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
}

static qsf_matrix_in feed_forward_hidden(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->gate, p->b->ld_ff, p->layer->n_ff, 0, p->batch->n);
}

/* The norm of hidden rows, if the model has one; then they are ready for the matrix. */
static void ready_hidden(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = feed_forward_hidden(p);
    const float *weight = p->w->v[QSF_K_FFN_SUB_NORM];
    const qsf_range rows = qsf_pass_mine(job, piece);
    for (size_t r = rows.begin; weight && r < rows.end; r++) {
        float *x = p->b->gate + r * p->b->ld_ff;
        qsf_pass_norm(p, p->layer->norm, x, x, weight, NULL, p->layer->n_ff);
    }
    qsf_rows_ready(p, (const uint8_t[]){ QSF_K_FFN_DOWN }, 1, &in, rows, thread);
}

static void narrow(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = feed_forward_hidden(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_FFN_DOWN], p->w->v[QSF_K_FFN_DOWN_BIAS], &in, p->b->tmp,
                        p->b->ld_embd, qsf_pass_mine(job, piece), thread);
}

void qsf_feed_forward_down(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *down = &p->w->m[QSF_K_FFN_DOWN];
    if (p->w->v[QSF_K_FFN_SUB_NORM] || qsf_rows_need(p, QSF_K_FFN_DOWN))
        qsf_pass_run(job, QSF_OP_FFN_CODES, p->batch->n, ready_hidden);
    qsf_pass_watch(p, QSF_K_FFN_DOWN, p->b->gate, p->b->ld_ff, p->layer->n_ff, 0, p->batch->n);
    qsf_pass_run(job, QSF_OP_FFN_DOWN, qsf_matrix_tiles(down), narrow);
}
