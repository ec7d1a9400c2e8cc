/* The draw, and log probabilities.
 * SPDX-License-Identifier: MIT
 *
 * A random number below the total weight falls into a block of candidates, and there on one of
 * them: the draw needs no order, and the weights of one block only. */
#include "turn/sampler_own.h"

/* splitmix64 (Steele, Lea and Flood 2014). */
double qsf_sampler_random(qsf_sampler *s)
{
    uint64_t z = s->rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

double qsf_pick_surprise(const sampler_pick *k, float w)
{
    return -log((double)w / k->sum) / 0.69314718055994531;      /* ln 2 */
}

/* The block that u, below the total weight, falls into; *inside: the position within it, from 0 to
 * 1.  Because sums round, u may lie past the last block. */
static uint32_t draw_block(const sampler_pick *k, double u, double *inside)
{
    const uint32_t blocks = (uint32_t)qsf_ceil_div(k->n, QSF_SAMPLE_BLOCK);
    uint32_t last = 0;
    *inside = 1;
    for (uint32_t b = 0; b < blocks; b++) {
        const double sum = (double)k->s->sums[b];
        if (!(sum > 0)) continue;
        last = b;
        if (u < sum) {
            *inside = u / sum;
            break;
        }
        u -= sum;
    }
    return last;
}

static uint32_t draw_weight(const float *w, uint32_t n, double share)
{
    double sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)w[i];
    double u = share * sum;
    for (uint32_t i = 0; i < n; i++) {
        if (!(w[i] > 0)) continue;
        last = i;
        if (u < (double)w[i]) break;
        u -= (double)w[i];
    }
    return last;
}

int32_t qsf_pick_draw(sampler_pick *k)
{
    qsf_sampler *s = k->s;
    if (!(k->sum > 0)) return (int32_t)k->best;
    float room[QSF_SAMPLE_BLOCK], sum;
    double share;
    const uint32_t from = draw_block(k, qsf_sampler_random(s) * k->sum, &share) * QSF_SAMPLE_BLOCK;
    const uint32_t n = QSF_MIN(QSF_SAMPLE_BLOCK, k->n - from);
    if (!k->w) s->k.exp_weights(room, &sum, k->x + from, n, &k->e);
    const float *w = k->w ? k->w + from : room;
    const uint32_t at = draw_weight(w, n, share);
    if (s->o.mirostat) {
        const double over = qsf_pick_surprise(k, w[at]) - (double)s->o.mirostat_tau;
        s->mirostat_mu -= s->o.mirostat_eta * (float)over;
    }
    return k->id ? k->id[from + at] : (int32_t)(from + at);
}

/* ---- log probabilities ---- */

/* The n largest logits, best first. */
static uint32_t best_of_logits(const qsf_kernels *k, const float *logits, uint32_t n_vocab, qsf_logprob *best,
                               uint32_t n)
{
    uint32_t at[QSF_SAMPLE_BLOCK], found = 0;
    float least = -INFINITY;
    for (uint32_t i = 0; n && i < n_vocab; i += QSF_SAMPLE_BLOCK) {
        const size_t here = k->weights_within(at, logits + i, QSF_MIN(QSF_SAMPLE_BLOCK, n_vocab - i), least,
                                              INFINITY);
        for (size_t j = 0; j < here; j++) {
            const float x = logits[i + at[j]];
            if (!(x > least)) continue;
            uint32_t to = found < n ? found++ : n - 1;
            for (; to && best[to - 1].logprob < x; to--) best[to] = best[to - 1];
            best[to] = (qsf_logprob){ (int32_t)(i + at[j]), x };
            if (found == n) least = best[n - 1].logprob;
        }
    }
    return found;
}

uint32_t qsf_logprobs(const qsf_kernels *k, const float *logits, uint32_t n_vocab, int32_t chosen,
                      qsf_logprob *out, uint32_t n)
{
    const qsf_exp_weights e = { .top = logits[k->largest_logit(logits, n_vocab)], .scale = 1,
                                .least = -INFINITY };
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i += QSF_SAMPLE_BLOCK) {
        float part;
        k->exp_weights(NULL, &part, logits + i, QSF_MIN(QSF_SAMPLE_BLOCK, n_vocab - i), &e);
        sum += (double)part;
    }
    const float all = e.top + (float)log(sum);
    const uint32_t found = best_of_logits(k, logits, n_vocab, out + 1, n);
    for (uint32_t i = 1; i <= found; i++) out[i].logprob -= all;
    out[0] = (qsf_logprob){ chosen, chosen < 0 ? -INFINITY : logits[chosen] - all };
    return 1 + found;
}
