/* From logits to candidates, fewer and fewer of them, and the draw of one.
 * SPDX-License-Identifier: MIT
 *
 * Candidates are ranked by probability, then by lower id.  What is left is always a run of ranks:
 * from the best down to some rank, or (typical-p, XTC) without some of the best. */
#include "engine/sampler_own.h"

#define SAMPLER_LN2 0.693147181f

/* splitmix64 (Steele, Lea and Flood 2014) to [0, 1). */
static float sampler_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) * 0x1p-24f;
}

/* ---- passing over the vocabulary ----
 * Few of its logits matter.  They are looked for a block at a time, with a loop that
 * compilers make vectors of. */
enum { SAMPLER_BLOCK = 16 };
static bool block_over(const float *x, float least)
{
    int over = 0;
    for (int i = 0; i < SAMPLER_BLOCK; i++) over |= x[i] > least;
    return over != 0;
}
/* From i on, the first that begins a block with something over least, or the last block. */
static uint32_t next_block(const float *x, uint32_t i, uint32_t n, float least)
{
    while (n - i >= SAMPLER_BLOCK && !block_over(x + i, least)) i += SAMPLER_BLOCK;
    return i;
}

uint32_t qsf_sampler_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    while (best + 1 < n && x[best] != x[best]) best++;
    for (uint32_t i = next_block(x, 0, n, x[best]); i < n; i = next_block(x, i, n, x[best])) {
        const uint32_t end = QSF_MIN(n, i + SAMPLER_BLOCK);
        for (; i < end; i++) if (x[i] > x[best]) best = i;
    }
    return best;
}

/* A max-heap by p, then by lower id, so that equal logits give the same order everywhere. */
static bool heap_before(candidate a, candidate b) { return a.p > b.p || (a.p == b.p && a.id < b.id); }
static void heap_sift(candidate *h, uint32_t n, uint32_t i)
{
    const candidate x = h[i];
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap_before(h[child + 1], h[child])) child++;
        if (!heap_before(h[child], x)) break;
        h[i] = h[child];
    }
    h[i] = x;
}
static void heap_make(candidate *h, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) heap_sift(h, n, i);
}

/* Moves the first to the place behind the shrunken heap; returns its p. */
static float heap_pop(candidate *h, uint32_t *n)
{
    const candidate x = h[0];
    h[0] = h[--*n];
    heap_sift(h, *n, 0);
    h[*n] = x;
    return x.p;
}

/* The k-th largest, by way of a heap of the k largest so far:
 * turned around, so that the least of them is first. */
static float sampler_kth(candidate *h, const float *x, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) h[i] = (candidate){ INFINITY, 0 };
    for (uint32_t i = next_block(x, 0, n, -h[0].p); i < n; i = next_block(x, i, n, -h[0].p)) {
        const uint32_t end = QSF_MIN(n, i + SAMPLER_BLOCK);
        for (; i < end; i++) {
            if (!(x[i] > -h[0].p)) continue;
            h[0].p = -x[i];
            heap_sift(h, k, 0);
        }
    }
    return -h[0].p;
}

/* ---- temperature, min-p ---- */

void qsf_pick_sigma(sampler_pick *k)
{
    const float *x = k->x, top = x[k->best];
    double sum = 0, squares = 0, n = 0;
    for (uint32_t i = 0; i < k->s->n_vocab; i++) {
        if (!(x[i] > -INFINITY)) continue;
        const double below = (double)(x[i] - top);
        sum += below;
        squares += below * below;
        n++;
    }
    const double mean = sum / n, variance = QSF_MAX(squares / n - mean * mean, 0);
    const float least = top - k->s->o.top_n_sigma * (float)sqrt(variance);
    if (least <= top) k->least = least;             /* not where a logit is infinite */
}

/* No logit up to this one can be chosen.  It lies lower than it had to by more than the rounding of
 * what follows (a hundredth of the temperature, a millionth of the logit), so that who is chosen is
 * as if there were no such bound. */
static float sampler_bound(const sampler_pick *k, uint32_t top_k, float min_p)
{
    const float *x = k->x, t = k->temperature, top = x[k->best];
    const uint32_t n = k->s->n_vocab;
    float bound = k->least - 1e-6f * fabsf(k->least);
    if (top_k && top_k < n / 8) {
        const float kth = sampler_kth(k->s->heap, x, n, top_k);
        float below = top - 110 * t - 1e-6f * fabsf(top);       /* behind it expf gives 0 */
        if ((kth - top) / t > -80) below = kth - 1e-2f * t - 1e-6f * fabsf(kth);
        bound = QSF_MAX(bound, below);
    }
    if (min_p > 1e-30f) {
        const float least = top + (logf(min_p) - 1e-2f) * t - 1e-6f * fabsf(top);
        bound = QSF_MAX(bound, least);
    }
    return bound;
}

/* Fills the heap with what can be chosen; p is relative to the best, as min-p is. */
void qsf_pick_gather(sampler_pick *k)
{
    qsf_sampler *s = k->s;
    const float *x = k->x, top = x[k->best];
    const uint32_t n = s->n_vocab;
    const bool plain = s->o.mirostat == 0;
    const float min_p = plain ? s->o.min_p : 0;
    if (plain && s->o.dynatemp_range > 0) k->temperature = 1;   /* the real one follows */
    const float bound = sampler_bound(k, plain ? s->o.top_k : 0, min_p);
    uint32_t left = 0;
    float sum = 0;
    for (uint32_t i = next_block(x, 0, n, bound); i < n; i = next_block(x, i, n, bound)) {
        const uint32_t end = QSF_MIN(n, i + SAMPLER_BLOCK);
        for (; i < end; i++) {
            if (!(x[i] > bound) || x[i] < k->least) continue;
            const float p = expf((x[i] - top) / k->temperature);
            if (!(p > 0) || p < min_p) continue;
            s->heap[left++] = (candidate){ p, (int32_t)i };
            sum += p;
        }
    }
    heap_make(s->heap, left);
    k->n = k->rest = k->to = left;
    k->sum = sum;
}

/* ---- ranks ---- */

static candidate *pick_rank(sampler_pick *k, uint32_t rank)
{
    while (k->n - k->rest <= rank) heap_pop(k->s->heap, &k->rest);
    return &k->s->heap[k->n - 1 - rank];
}

static void pick_keep(sampler_pick *k, uint32_t from, uint32_t to)
{
    k->from = from;
    k->to = to;
    k->sum = 0;
    for (uint32_t i = from; i < to; i++) k->sum += pick_rank(k, i)->p;
}

/* The entropy of what is left, in natural units. */
static float pick_entropy(sampler_pick *k)
{
    float entropy = 0;
    for (uint32_t i = k->from; i < k->to; i++) {
        const float p = pick_rank(k, i)->p / k->sum;
        if (p > 0) entropy -= p * logf(p);
    }
    return entropy;
}

void qsf_pick_top_k(sampler_pick *k) { pick_keep(k, 0, QSF_MIN(k->s->o.top_k, k->to)); }

/* How far the information of a rank is from the entropy. */
static float pick_oddity(sampler_pick *k, uint32_t rank, float entropy)
{
    return fabsf(logf(pick_rank(k, rank)->p / k->sum) + entropy);
}

/* Information grows with the rank, so the ranks whose information is next to the entropy are
 * neighbours: from the first of them the run grows at the end that is nearer to it. */
void qsf_pick_typical(sampler_pick *k)
{
    if (k->to <= k->from) return;
    const float entropy = pick_entropy(k);
    uint32_t from = k->from, to;
    while (from + 1 < k->to && pick_oddity(k, from + 1, entropy) < pick_oddity(k, from, entropy)) from++;
    to = from + 1;
    for (float sum = pick_rank(k, from)->p; sum <= k->s->o.typical_p * k->sum;) {
        const bool better = from > k->from, worse = to < k->to;
        if (!better && !worse) break;
        if (better && (!worse || pick_oddity(k, from - 1, entropy) <= pick_oddity(k, to, entropy)))
            sum += pick_rank(k, --from)->p;
        else
            sum += pick_rank(k, to++)->p;
    }
    pick_keep(k, from, to);
}

/* A share of what is left so far. */
void qsf_pick_top_p(sampler_pick *k)
{
    const float most = k->s->o.top_p * k->sum;
    uint32_t to = k->from;
    float sum = 0;
    while (to < k->to && (to == k->from || sum < most)) sum += pick_rank(k, to++)->p;
    k->to = to;
    k->sum = sum;
}

void qsf_pick_xtc(sampler_pick *k)
{
    const float least = k->s->o.xtc_threshold * k->sum;
    uint32_t from = k->from;
    if (k->to < k->from + 2 || !(sampler_draw(&k->s->rng) < k->s->o.xtc_probability)) return;
    while (from + 1 < k->to && pick_rank(k, from + 1)->p >= least) from++;
    if (from > k->from) pick_keep(k, from, k->to);
}

void qsf_pick_dynamic(sampler_pick *k)
{
    const qsf_sampler_options *o = &k->s->o;
    const uint32_t n = k->to - k->from;
    if (n < 2) return;
    const float low = QSF_MAX(o->temperature - o->dynatemp_range, 0);
    const float high = o->temperature + o->dynatemp_range;
    const float share = pick_entropy(k) / logf((float)n);
    const float power = share > 0 ? expf(o->dynatemp_exponent * logf(share)) : 0;
    const float t = low + (high - low) * power, top = k->x[pick_rank(k, k->from)->id];
    for (uint32_t i = k->from; i < k->to; i++) {
        candidate *c = pick_rank(k, i);
        c->p = i == k->from ? 1 : t > 0 ? expf((k->x[c->id] - top) / t) : 0;
    }
    pick_keep(k, k->from, k->to);
}

/* ---- Mirostat ---- */

/* How many of the best tokens have the wanted surprise on average, by Zipf's law with the exponent
 * that the best hundred have. */
static float mirostat_count(sampler_pick *k)
{
    enum { FIRST = 100 };
    float both = 0, squares = 0;
    for (uint32_t i = 0; i + 1 < QSF_MIN(FIRST, k->to); i++) {
        const float t = logf((float)(i + 2) / (float)(i + 1));
        both += t * logf(pick_rank(k, i)->p / pick_rank(k, i + 1)->p);
        squares += t * t;
    }
    const float zipf = both / squares, more = zipf - 1;
    const float rest = 1 - expf(-more * logf((float)k->s->n_vocab));
    const float count = more * expf(k->s->mirostat_mu * SAMPLER_LN2) / rest;
    return expf(logf(count) / zipf);
}

static float mirostat_surprise(sampler_pick *k, uint32_t rank)
{
    return -logf(pick_rank(k, rank)->p / k->sum) / SAMPLER_LN2;
}

void qsf_pick_mirostat(sampler_pick *k)
{
    uint32_t to = 1;
    if (k->s->o.mirostat == 1) {
        const float count = mirostat_count(k);
        to = count >= 1 ? count < (float)k->to ? (uint32_t)count : k->to : 1;
    } else {
        while (to < k->to && mirostat_surprise(k, to) <= k->s->mirostat_mu) to++;
    }
    pick_keep(k, 0, QSF_MIN(to, k->to));
}

/* ---- the draw ---- */

int32_t qsf_pick_draw(sampler_pick *k)
{
    qsf_sampler *s = k->s;
    if (k->from >= k->to) return (int32_t)k->best;
    float u = sampler_draw(&s->rng) * k->sum;
    uint32_t rank = k->from;
    while ((u -= pick_rank(k, rank)->p) >= 0 && rank + 1 < k->to) rank++;
    if (s->o.mirostat) s->mirostat_mu -= s->o.mirostat_eta * (mirostat_surprise(k, rank) - s->o.mirostat_tau);
    return pick_rank(k, rank)->id;
}

/* ---- log probabilities ---- */

/* exp(x) to a millionth, for x <= 0; 0, nearly, below -87 and for NaN.  Compilers make vectors of
 * it, which they do not of expf. */
static inline float exp_below(float x)
{
    const float two = x * 1.44269504f, t = two > -126 ? two : -126;
    const int32_t whole = (int32_t)(t - 0.5f);          /* the nearest: t is not above 0 */
    const float f = t - (float)whole;
    const float power = 1 + f * (0.69314718f + f * (0.24022651f + f * (0.05550411f + f * (0.00961813f +
                            f * (0.00133336f + f * 0.00015469f)))));
    return power * qsf_f32_from_bits((uint32_t)(whole + 127) << 23);
}

uint32_t qsf_logprobs(const float *logits, uint32_t n_vocab, int32_t chosen, qsf_logprob *out, uint32_t n)
{
    const float top = logits[qsf_sampler_argmax(logits, n_vocab)];
    qsf_logprob *best = out + 1;
    uint32_t found = 0;
    float sum = 0, least = -INFINITY;
    for (uint32_t i = 0; i < n_vocab; i += SAMPLER_BLOCK) {     /* few floats in a row: little is lost */
        float p[SAMPLER_BLOCK] = { 0 }, part = 0;
        const uint32_t m = QSF_MIN(SAMPLER_BLOCK, n_vocab - i);
        if (m == SAMPLER_BLOCK)
            for (uint32_t j = 0; j < SAMPLER_BLOCK; j++) p[j] = exp_below(logits[i + j] - top);
        else
            for (uint32_t j = 0; j < m; j++) p[j] = exp_below(logits[i + j] - top);
        for (uint32_t j = 0; j < SAMPLER_BLOCK; j++) part += p[j];
        sum += part;
    }
    const float all = top + logf(sum);
    for (uint32_t i = n ? next_block(logits, 0, n_vocab, least) : n_vocab; i < n_vocab;
         i = next_block(logits, i, n_vocab, least))
        for (const uint32_t end = QSF_MIN(n_vocab, i + SAMPLER_BLOCK); i < end; i++) {
            if (!(logits[i] > least)) continue;
            uint32_t at = found < n ? found++ : n - 1;
            for (; at && best[at - 1].logprob < logits[i]; at--) best[at] = best[at - 1];
            best[at] = (qsf_logprob){ (int32_t)i, logits[i] };
            if (found == n) least = best[n - 1].logprob;
        }
    for (uint32_t i = 0; i < found; i++) best[i].logprob -= all;
    out[0] = (qsf_logprob){ chosen, chosen < 0 ? -INFINITY : logits[chosen] - all };
    return 1 + found;
}

#undef SAMPLER_LN2
