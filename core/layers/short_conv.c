/* LFM2's mixer: b, c, x -> convolution of b * x over a few positions, times c -> output.
 * SPDX-License-Identifier: MIT */
#include "layers/short_conv.h"
#include "layers/mixer.h"

/* These channels of all rows. */
static void convolve_channels(const qsf_pass *p, const qsf_task *t)
{
    const qsf_range mine = qsf_mixer_mine(t);
    const size_t n = p->hp->n_embd, len = mine.end - mine.begin, ld = p->b->ld_q;
    const float *b = p->b->mix + mine.begin;
    float *y = p->b->att + mine.begin;
    for (size_t r = 0; r < p->batch->n; r++)
        p->k->vec_mul(y + r * ld, b + r * p->b->ld_mix, b + r * p->b->ld_mix + 2 * n, len);
    qsf_mixer_convolve(p, p->b->att, ld, mine, false);
    for (size_t r = 0; r < p->batch->n; r++)
        p->k->vec_mul(y + r * ld, y + r * ld, b + r * p->b->ld_mix + n, len);
}

void qsf_short_conv_list(const qsf_layer *l, qsf_program *g)
{
    qsf_mixer_list_in(g);
    qsf_mixer_list_columns(g, QSF_WORK_CONVOLVE, qsf_mixer_result(l), convolve_channels);
    qsf_mixer_list_out(l, g);
}
