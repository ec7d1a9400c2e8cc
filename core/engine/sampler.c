/* From logits to a token: penalties, temperature, top-k, top-p, min-p, one draw.
 * SPDX-License-Identifier: MIT */
#include "engine/sampler.h"

#include "base/pieces.h"
#include "base/sized.h"

typedef struct candidate { float p; int32_t id; } candidate;

struct qsf_sampler {
    const qsf_platform *platform;
    qsf_sampler_options o;
    uint32_t   n_vocab;
    float     *logits;        /* [n_vocab] after penalties, where there are some */
    candidate *heap;          /* [n_vocab] */
    int32_t   *last;          /* [repeat_last_n] ring of accepted tokens */
    uint32_t   n_last, at;
    uint64_t   rng;
};

void qsf_sampler_defaults_of(qsf_sampler_options *o, size_t size)
{
    static const qsf_sampler_options d = { .size = sizeof d, .temperature = 0.7f, .top_k = 40, .top_p = 0.9f,
                                           .repeat_penalty = 1, .repeat_last_n = 64 };
    qsf_sized_defaults(o, size, &d, sizeof d);
}

enum { SAMPLER_PIECES = 3 };

static void sampler_pieces(qsf_sampler *s, qsf_piece list[SAMPLER_PIECES])
{
    list[0] = QSF_PIECE(s->logits, s->n_vocab, "sampler");
    list[1] = QSF_PIECE(s->heap, s->n_vocab, "sampler");
    list[2] = QSF_PIECE(s->last, s->o.repeat_last_n, "sampler");
}

uint64_t qsf_sampler_bytes(uint32_t n_vocab)
{
    qsf_sampler s = { .n_vocab = n_vocab };
    qsf_piece list[SAMPLER_PIECES];
    qsf_sampler_defaults(&s.o);
    sampler_pieces(&s, list);
    return sizeof s + qsf_pieces_bytes(list, SAMPLER_PIECES);
}

qsf_status qsf_sampler_for(const qsf_platform *p, uint32_t n_vocab, const qsf_sampler_options *opts,
                           qsf_sampler **out, qsf_error *err)
{
    *out = NULL;
    qsf_sampler *s = qsf_alloc(p, sizeof *s, "sampler", err);
    if (!s) return QSF_E_MEMORY;
    s->platform = p;
    qsf_sampler_defaults(&s->o);
    const qsf_status st = QSF_TAKE(&s->o, opts, qsf_sampler_options, err);
    if (st) {
        qsf_sampler_free(s);
        return st;
    }
    s->n_vocab = n_vocab;
    if (s->o.repeat_last_n > 1u << 20) {
        qsf_sampler_free(s);
        return qsf_fail(err, QSF_E_ARGUMENT, "repeat-last-n %u; at most 1048576 are possible",
                        (unsigned)opts->repeat_last_n);
    }
    qsf_piece list[SAMPLER_PIECES];
    sampler_pieces(s, list);
    if (qsf_pieces_alloc(p, list, SAMPLER_PIECES, err)) {
        qsf_sampler_free(s);
        return QSF_E_MEMORY;
    }
    s->rng = s->o.seed ? s->o.seed : qsf_now(p) ^ 0x9e3779b97f4a7c15u;
    *out = s;
    return QSF_OK;
}

qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *opts, qsf_sampler **out,
                           qsf_error *err)
{
    return qsf_sampler_for(m->platform, m->source->hp.n_vocab, opts, out, err);
}

void qsf_sampler_free(qsf_sampler *s)
{
    if (!s) return;
    qsf_piece list[SAMPLER_PIECES];
    sampler_pieces(s, list);
    qsf_pieces_free(s->platform, list, SAMPLER_PIECES);
    qsf_dealloc(s->platform, s, sizeof *s);
}

void qsf_sampler_reset(qsf_sampler *s) { s->n_last = s->at = 0; }

void qsf_sampler_accept(qsf_sampler *s, int32_t token)
{
    if (s->o.repeat_last_n == 0 || token < 0 || (uint32_t)token >= s->n_vocab) return;
    s->last[s->at] = token;
    s->at = (s->at + 1) % s->o.repeat_last_n;
    if (s->n_last < s->o.repeat_last_n) s->n_last++;
}

/* splitmix64 (Steele, Lea and Flood 2014) to [0, 1). */
static float sampler_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (float)((z ^ z >> 31) >> 40) * 0x1p-24f;
}

/* The logits after penalties. */
static const float *sampler_penalize(qsf_sampler *s, const float *logits)
{
    if (s->o.repeat_penalty == 1 && s->o.frequency_penalty == 0 && s->o.presence_penalty == 0) return logits;
    memcpy(s->logits, logits, s->n_vocab * sizeof(float));
    for (uint32_t i = 0; i < s->n_last; i++) {
        const int32_t id = s->last[i];
        uint32_t count = 0, seen = 0;
        for (uint32_t j = 0; j < s->n_last; j++) {
            if (s->last[j] != id) continue;
            count++;
            seen += j < i;
        }
        if (seen) continue;                         /* each token once, with its count */
        float *x = &s->logits[id];
        *x = *x > 0 ? *x / s->o.repeat_penalty : *x * s->o.repeat_penalty;
        *x -= (float)count * s->o.frequency_penalty + s->o.presence_penalty;
    }
    return s->logits;
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

/* The first of equals; NaN never wins. */
static uint32_t sampler_argmax(const float *x, uint32_t n)
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

/* No logit up to this one can be chosen.  It lies lower than it had to by more than the rounding of
 * what follows (a hundredth of the temperature, a millionth of the logit), so that who is chosen is
 * as if there were no such bound. */
static float sampler_bound(qsf_sampler *s, const float *x, float top)
{
    const float t = s->o.temperature;
    float bound = -INFINITY;
    if (s->o.top_k && s->o.top_k < s->n_vocab / 8) {
        const float kth = sampler_kth(s->heap, x, s->n_vocab, s->o.top_k);
        if ((kth - top) / t > -80) bound = kth - 1e-2f * t - 1e-6f * fabsf(kth);
        else bound = top - 110 * t - 1e-6f * fabsf(top);        /* behind it expf gives 0 */
    }
    if (s->o.min_p > 1e-30f) {
        const float least = top + (logf(s->o.min_p) - 1e-2f) * t - 1e-6f * fabsf(top);
        bound = QSF_MAX(bound, least);
    }
    return bound;
}

/* Fills the heap with what can be chosen; p is relative to the best, as min-p is.
 * Returns how many there are. */
static uint32_t sampler_gather(qsf_sampler *s, const float *x, float top, float *sum)
{
    const uint32_t n = s->n_vocab;
    const float bound = sampler_bound(s, x, top);
    uint32_t left = 0;
    *sum = 0;
    for (uint32_t i = next_block(x, 0, n, bound); i < n; i = next_block(x, i, n, bound)) {
        const uint32_t end = QSF_MIN(n, i + SAMPLER_BLOCK);
        for (; i < end; i++) {
            if (!(x[i] > bound)) continue;
            const float p = expf((x[i] - top) / s->o.temperature);
            if (!(p > 0) || p < s->o.min_p) continue;
            s->heap[left++] = (candidate){ p, (int32_t)i };
            *sum += p;
        }
    }
    for (uint32_t i = left / 2; i-- > 0;) heap_sift(s->heap, left, i);
    return left;
}

int32_t qsf_sampler_pick(qsf_sampler *s, const float *logits)
{
    const float *x = sampler_penalize(s, logits);
    const uint32_t best = sampler_argmax(x, s->n_vocab);
    if (!(s->o.temperature > 0)) return (int32_t)best;

    float sum;
    const uint32_t left = sampler_gather(s, x, x[best], &sum);
    if (left == 0) return (int32_t)best;

    /* Popped candidates gather behind the heap, best last.
     * top-p is a share of what top-k leaves. */
    const uint32_t limit = s->o.top_k ? QSF_MIN(s->o.top_k, left) : left;
    uint32_t rest = left;
    if (s->o.top_k) {
        sum = 0;
        while (left - rest < limit) sum += heap_pop(s->heap, &rest);
    }
    float cut = 0, u = sampler_draw(&s->rng);
    uint32_t chosen = 0;
    while (chosen < limit && (chosen == 0 || cut < s->o.top_p * sum)) {
        if (left - rest == chosen) heap_pop(s->heap, &rest);
        cut += s->heap[left - 1 - chosen++].p;
    }
    u *= cut;
    for (uint32_t i = 0; i < chosen; i++) {
        u -= s->heap[left - 1 - i].p;
        if (u < 0) return s->heap[left - 1 - i].id;
    }
    return s->heap[left - chosen].id;
}
