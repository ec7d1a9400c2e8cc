/* Which blocks of the KV cache draw attention, for eviction by heavy hitters (H2O, Zhang et al.
 * 2023, arXiv:2306.14048).
 * SPDX-License-Identifier: MIT
 *
 * What a block has drawn is the softmax weight that its positions had, over all rows, heads and
 * layers so far.  The online softmax knows a block's share only at its end: until then the sum of
 * each step and the maximum that it was counted from are kept.  Threads count apart and are added
 * up after each batch. */
#include "layers/kv_attention.h"
#include "layers/batch.h"

/* Shares are added as whole numbers, of which 2^24 are a weight of 1: their sum does not depend on
 * which thread counted which. */
#define ATTENTION_ONE 16777216.0f

static size_t counted_vectors(const qsf_source *s) { return (size_t)QSF_ATTENTION_ROWS * s->most.share; }

size_t qsf_kv_attention_floats(const qsf_source *s, const qsf_context_options *o)
{
    const uint64_t each = 2 * (o->n_seqs + (uint64_t)counted_vectors(s));
    return o->kv_heavy ? (size_t)qsf_round_up(each * qsf_kv_blocks_of(o), 16) : 0;
}

void qsf_kv_attention_init(qsf_kv_attention *a, float *own, const qsf_source *s,
                           const qsf_context_options *o)
{
    *a = (qsf_kv_attention){ .own = o->kv_heavy ? own : NULL, .floats = qsf_kv_attention_floats(s, o),
                             .most = counted_vectors(s),
                             .n_threads = o->n_threads, .n_seqs = o->n_seqs,
                                 .n_blocks = qsf_kv_blocks_of(o) };
}

qsf_kv_counts qsf_kv_attention_begin(const qsf_kv_attention *a, const qsf_kv_seq *seq, uint32_t s,
                                     size_t vectors, uint32_t thread)
{
    if (!a->own) return (qsf_kv_counts){ 0 };
    qsf_kv_counts n = { .n_blocks = a->n_blocks, .entries = seq->n, .vectors = vectors };
    float *own = a->own + thread * a->floats;
    n.of = (uint64_t *)(void *)own + (size_t)s * a->n_blocks;
    n.sums = own + 2 * (size_t)a->n_seqs * a->n_blocks;
    n.tops = n.sums + a->most * a->n_blocks;
    for (size_t v = 0; v < vectors; v++) memset(n.sums + v * n.n_blocks, 0, n.entries * sizeof(float));
    return n;
}

void qsf_kv_attention_note(const qsf_kv_counts *n, size_t v, uint32_t e, float l, float factor, float top,
                           float sum)
{
    const size_t at = v * n->n_blocks + e;
    n->sums[at] = QSF_MAX(sum - l * factor, 0);
    n->tops[at] = top;
}

void qsf_kv_attention_end(const qsf_kv_counts *n, const float *m, const float *l)
{
    for (size_t v = 0; v < n->vectors; v++) {
        const float *sums = n->sums + v * n->n_blocks, *tops = n->tops + v * n->n_blocks;
        for (uint32_t e = 0; e < n->entries; e++)
            if (sums[e] > 0) n->of[e] += (uint64_t)(ATTENTION_ONE * sums[e] * expf(tops[e] - m[v]) / l[v]);
    }
}

void qsf_kv_attention_collect(const qsf_kv_attention *a, qsf_kv_seq *seqs, bool keep)
{
    if (!a->own) return;
    const size_t thread = a->floats / 2;
    uint64_t *const first = (uint64_t *)(void *)a->own;
    for (uint32_t s = 0; s < a->n_seqs; s++)
        for (uint32_t e = 0; keep && e < seqs[s].n; e++) {
            uint64_t drawn = 0;
            for (uint32_t t = 0; t < a->n_threads; t++) drawn += first[t * thread + s * a->n_blocks + e];
            seqs[s].attention[e] += (float)drawn / ATTENTION_ONE;
        }
    for (uint32_t t = 0; t < a->n_threads; t++)
        memset(first + t * thread, 0, (size_t)a->n_seqs * a->n_blocks * sizeof *first);
}

#undef ATTENTION_ONE
