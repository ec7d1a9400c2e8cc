/* Which blocks of the KV cache draw attention, for eviction by heavy hitters (H2O, Zhang et
 * al. 2023, arXiv:2306.14048).
 * SPDX-License-Identifier: MIT
 *
 * A block's heat is the softmax weight that its positions had, over all rows, heads and
 * layers so far.  The online softmax knows a block's share only at its end: until then the
 * sum of each step and the maximum that it was counted from are kept.  Threads count apart
 * and are added up after each batch. */
#include "context.h"

/* Shares are added as whole numbers, of which 2^24 are a weight of 1: their sum does not depend on
 * which thread counted which. */
#define HEAT_ONE 16777216.0f

/* A thread's memory: heat [n_seqs][n_blocks] in 64 bits, then of the group under way the steps'
 * sums and maxima [vectors][n_blocks] in floats. */
static size_t heat_vectors(const qsf_hparams *hp)
{
    return (size_t)QSF_ATTENTION_ROWS * (hp->n_heads / hp->n_kv_heads);
}

size_t qsf_heat_floats(const qsf_hparams *hp, const qsf_context_options *o)
{
    return o->kv_heavy
        ? (size_t)qsf_round_up(2 * (o->n_seqs + (uint64_t)heat_vectors(hp)) * qsf_kv_blocks_of(o), 16) : 0;
}

static float *heat_own(const qsf_context *c, uint32_t thread)
{
    return c->b.heat + thread * qsf_heat_floats(c->hp, &c->o);
}

qsf_heat qsf_heat_begin(const qsf_context *c, uint32_t thread, uint32_t seq, size_t vectors)
{
    if (!c->o.kv_heavy) return (qsf_heat){ 0 };
    qsf_heat h = { .n_blocks = c->kv.n_blocks, .entries = c->kv.seqs[seq].n, .vectors = vectors };
    float *own = heat_own(c, thread);
    h.of = (uint64_t *)(void *)own + (size_t)seq * h.n_blocks;
    h.sums = own + 2 * (size_t)c->o.n_seqs * h.n_blocks;
    h.tops = h.sums + heat_vectors(c->hp) * h.n_blocks;
    for (size_t v = 0; v < vectors; v++) memset(h.sums + v * h.n_blocks, 0, h.entries * sizeof(float));
    return h;
}

void qsf_heat_note(const qsf_heat *h, size_t v, uint32_t e, float l, float factor, float top, float sum)
{
    const size_t at = v * h->n_blocks + e;
    h->sums[at] = QSF_MAX(sum - l * factor, 0);
    h->tops[at] = top;
}

void qsf_heat_end(const qsf_heat *h, const float *m, const float *l)
{
    for (size_t v = 0; v < h->vectors; v++) {
        const float *sums = h->sums + v * h->n_blocks, *tops = h->tops + v * h->n_blocks;
        for (uint32_t e = 0; e < h->entries; e++)
            if (sums[e] > 0) h->of[e] += (uint64_t)(HEAT_ONE * sums[e] * expf(tops[e] - m[v]) / l[v]);
    }
}

void qsf_heat_collect(qsf_context *c, bool keep)
{
    if (!c->o.kv_heavy) return;
    const size_t n_blocks = c->kv.n_blocks, thread = qsf_heat_floats(c->hp, &c->o) / 2;
    uint64_t *const first = (uint64_t *)(void *)c->b.heat;
    for (uint32_t s = 0; s < c->o.n_seqs; s++)
        for (uint32_t e = 0; keep && e < c->kv.seqs[s].n; e++) {
            uint64_t heat = 0;
            for (uint32_t t = 0; t < c->o.n_threads; t++) heat += first[t * thread + s * n_blocks + e];
            c->kv.seqs[s].heat[e] += (float)heat / HEAT_ONE;
        }
    for (uint32_t t = 0; t < c->o.n_threads; t++)
        memset(first + t * thread, 0, c->o.n_seqs * n_blocks * sizeof *first);
}

#undef HEAT_ONE
