/* What feed-forwards share: the way from their hidden state to their output.
 * SPDX-License-Identifier: MIT */
#include "engine/feed_forward.h"

qsf_matrix_in qsf_feed_forward_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
}

static qsf_matrix_in feed_forward_hidden(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->gate, p->b->ld_ff, p->layer->n_ff, 0, p->batch->n);
}

static void quantize_hidden(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = feed_forward_hidden(job->p);
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
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
    if (qsf_matrix_takes_codes(p, down)) qsf_pass_run(job, p->batch->n, quantize_hidden, &p->stats->ns_other);
    qsf_pass_run(job, qsf_matrix_tiles(down), narrow, &p->stats->ns_matmul);
}
