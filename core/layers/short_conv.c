/* LFM2's mixer: b, c, x -> convolution of b * x over a few positions, times c -> output.
 * SPDX-License-Identifier: MIT */
#include "layers/short_conv.h"
#include "layers/mixer.h"

/* These channels of all rows. */
static void convolve_channels(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range mine = qsf_mixer_mine(job, piece, p->hp->n_embd);
    const size_t n = p->hp->n_embd, len = mine.end - mine.begin, ld = p->b->ld_q;
    const float *b = p->b->mix + mine.begin;
    float *y = p->b->att + mine.begin;
    (void)thread;
    for (size_t r = 0; r < p->batch->n; r++)
        p->k->vec_mul(y + r * ld, b + r * p->b->ld_mix, b + r * p->b->ld_mix + 2 * n, len);
    qsf_mixer_convolve(p, p->b->att, ld, mine, false);
    for (size_t r = 0; r < p->batch->n; r++)
        p->k->vec_mul(y + r * ld, y + r * ld, b + r * p->b->ld_mix + n, len);
}

void qsf_short_conv_run(qsf_pass_job *job)
{
    qsf_mixer_in(job);
    qsf_pass_run(job, QSF_OP_MIX, qsf_mixer_items(job->p->hp->n_embd), convolve_channels);
    qsf_mixer_out(job);
}
