/* From logits to a token: penalties, temperature, top-k, top-p, min-p, one draw.
 * SPDX-License-Identifier: MIT */
#include "model/model.h"

typedef struct candidate { float p; int32_t id; } candidate;

struct qsf_sampler {
    const qsf_platform *platform;
    qsf_sampler_options o;
    uint32_t   n_vocab;
    float     *logits;        /* [n_vocab] after penalties */
    candidate *heap;          /* [n_vocab] */
    int32_t   *last;          /* [repeat_last_n] ring of accepted tokens */
    uint32_t   n_last, at;
    uint64_t   rng;
};

void qsf_sampler_defaults(qsf_sampler_options *o)
{
    *o = (qsf_sampler_options){ .size = sizeof *o, .temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .repeat_penalty = 1, .repeat_last_n = 64 };
}

uint64_t qsf_sampler_bytes(uint32_t n_vocab)
{
    return sizeof(qsf_sampler) + (uint64_t)n_vocab * (sizeof(float) + sizeof(candidate)) + 64 * sizeof(int32_t);
}

qsf_status qsf_sampler_for(const qsf_platform *p, uint32_t n_vocab, const qsf_sampler_options *opts,
                           qsf_sampler **out, qsf_error *err)
{
    *out = NULL;
    qsf_sampler *s = qsf_alloc(p, sizeof *s, "sampler", err);
    if (!s) return QSF_E_MEMORY;
    s->platform = p;
    qsf_sampler_defaults(&s->o);
    QSF_OPTIONS_COPY(&s->o, opts);
    s->n_vocab = n_vocab;
    if (s->o.repeat_last_n > 1u << 20) {
        qsf_sampler_free(s);
        return qsf_fail(err, QSF_E_ARGUMENT, "repeat-last-n %u; at most 1048576 are possible", (unsigned)opts->repeat_last_n);
    }
    s->logits = qsf_alloc_array(p, s->n_vocab, sizeof(float), "sampler", err);
    s->heap = s->logits ? qsf_alloc_array(p, s->n_vocab, sizeof(candidate), "sampler", err) : NULL;
    s->last = s->heap ? qsf_alloc_array(p, s->o.repeat_last_n, sizeof(int32_t), "sampler", err) : NULL;
    if (!s->last) {
        qsf_sampler_free(s);
        return QSF_E_MEMORY;
    }
    s->rng = s->o.seed ? s->o.seed : qsf_now(p) ^ 0x9e3779b97f4a7c15u;
    *out = s;
    return QSF_OK;
}

qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *opts, qsf_sampler **out, qsf_error *err)
{
    return qsf_sampler_for(m->platform, m->source->hp.n_vocab, opts, out, err);
}

void qsf_sampler_free(qsf_sampler *s)
{
    if (!s) return;
    qsf_dealloc(s->platform, s->last, s->o.repeat_last_n * sizeof(int32_t));
    qsf_dealloc(s->platform, s->heap, s->n_vocab * sizeof(candidate));
    qsf_dealloc(s->platform, s->logits, s->n_vocab * sizeof(float));
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

static void sampler_penalize(qsf_sampler *s)
{
    if (s->o.repeat_penalty == 1 && s->o.frequency_penalty == 0 && s->o.presence_penalty == 0) return;
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
}

static int32_t sampler_argmax(const float *x, uint32_t n)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || x[best] != x[best]) best = (int32_t)i;
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

int32_t qsf_sampler_pick(qsf_sampler *s, const float *logits)
{
    const uint32_t n = s->n_vocab;
    memcpy(s->logits, logits, n * sizeof(float));
    sampler_penalize(s);
    const int32_t best = sampler_argmax(s->logits, n);
    if (!(s->o.temperature > 0)) return best;

    const float top = s->logits[best];
    float sum = 0;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float p = expf((s->logits[i] - top) / s->o.temperature);
        if (!(p > 0) || p < s->o.min_p) continue;   /* p is relative to the best, as min-p is */
        s->heap[left++] = (candidate){ p, (int32_t)i };
        sum += p;
    }
    if (left == 0) return best;
    for (uint32_t i = left / 2; i-- > 0;) heap_sift(s->heap, left, i);

    /* Popped candidates gather behind the heap, best last.  top-p is a share of what top-k leaves. */
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
