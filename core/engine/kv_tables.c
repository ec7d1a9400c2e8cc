/* The KV cache's block tables.
 * SPDX-License-Identifier: MIT */
#include "engine/kv_tables.h"

static uint64_t table_words(uint32_t n_blocks, uint32_t n_seqs)
{
    return (uint64_t)n_blocks * (2 + 3 * (uint64_t)n_seqs);
}

uint64_t qsf_kv_tables_bytes(uint32_t n_blocks, uint32_t n_seqs)
{
    return table_words(n_blocks, n_seqs) * sizeof(uint32_t) + n_seqs * sizeof(qsf_kv_seq);
}

qsf_status qsf_kv_tables_init(qsf_kv_tables *t, const qsf_platform *p, uint32_t n_blocks, uint32_t n_seqs,
                              qsf_error *err)
{
    *t = (qsf_kv_tables){ .platform = p, .n_blocks = n_blocks, .n_seqs = n_seqs };
    t->free = qsf_alloc_array(p, table_words(n_blocks, n_seqs), sizeof(uint32_t), "KV block tables", err);
    if (!t->free) return QSF_E_MEMORY;
    if (!(t->seqs = qsf_alloc_array(p, n_seqs, sizeof(qsf_kv_seq), "sequences", err))) return QSF_E_MEMORY;
    t->refs = t->free + n_blocks;
    for (uint32_t s = 0; s < n_seqs; s++) {
        t->seqs[s].blocks = t->refs + n_blocks + 3 * (size_t)s * n_blocks;
        t->seqs[s].places = t->seqs[s].blocks + n_blocks;
        t->seqs[s].attention = (float *)(void *)(t->seqs[s].places + n_blocks);
    }
    for (uint32_t b = 0; b < n_blocks; b++) t->free[b] = n_blocks - 1 - b;
    t->n_free = n_blocks;
    return QSF_OK;
}

void qsf_kv_tables_done(qsf_kv_tables *t)
{
    if (!t->platform) return;
    qsf_dealloc(t->platform, t->seqs, t->n_seqs * sizeof(qsf_kv_seq));
    qsf_dealloc(t->platform, t->free, table_words(t->n_blocks, t->n_seqs) * sizeof(uint32_t));
    *t = (qsf_kv_tables){ 0 };
}

static uint32_t kv_take(qsf_kv_tables *t)
{
    const uint32_t b = t->free[--t->n_free];
    t->refs[b] = 1;
    return b;
}
static void kv_drop(qsf_kv_tables *t, uint32_t b)
{
    assert(t->refs[b] > 0);
    if (--t->refs[b] == 0) t->free[t->n_free++] = b;
}

qsf_status qsf_kv_grow(qsf_kv_tables *t, uint32_t s, uint32_t n)
{
    qsf_kv_seq *q = &t->seqs[s];
    const uint32_t have = (uint32_t)qsf_ceil_div(q->length, QSF_KV_BLOCK);
    const uint32_t want = (uint32_t)qsf_ceil_div((uint64_t)q->length + n, QSF_KV_BLOCK);
    const bool copy = n && q->length % QSF_KV_BLOCK && t->refs[q->blocks[q->n - 1]] > 1;
    if (want - have + copy > t->n_free) return QSF_E_FULL;
    if (copy) {
        const uint32_t from = q->blocks[q->n - 1], to = kv_take(t);
        t->copy(t->user, to, from);
        kv_drop(t, from);
        q->blocks[q->n - 1] = to;
    }
    for (uint32_t b = have; b < want; b++) {
        q->places[q->n] = b;
        q->attention[q->n] = 0;
        q->blocks[q->n++] = kv_take(t);
    }
    q->length += n;
    return QSF_OK;
}

uint32_t qsf_kv_room(const qsf_kv_tables *t, uint32_t s)
{
    const qsf_kv_seq *q = &t->seqs[s];
    const uint32_t used = q->length % QSF_KV_BLOCK;
    if (!used) return t->n_free * QSF_KV_BLOCK;
    if (t->refs[q->blocks[q->n - 1]] == 1) return QSF_KV_BLOCK - used + t->n_free * QSF_KV_BLOCK;
    /* One takes the copy. */
    return t->n_free ? QSF_KV_BLOCK - used + (t->n_free - 1) * QSF_KV_BLOCK : 0;
}

/* How many positions from the first on are there without a gap. */
static uint32_t kv_prefix(const qsf_kv_seq *q)
{
    uint32_t i = 0;
    if (qsf_kv_whole(q)) return q->length;
    while (i < q->n && q->places[i] == i) i++;
    return i * QSF_KV_BLOCK;
}

bool qsf_kv_can_cut(const qsf_kv_tables *t, uint32_t s, uint32_t length)
{
    const qsf_kv_seq *q = &t->seqs[s];
    return length <= q->length && (length >= q->safe || length <= kv_prefix(q));
}

void qsf_kv_truncate(qsf_kv_tables *t, uint32_t s, uint32_t length)
{
    qsf_kv_seq *q = &t->seqs[s];
    assert(qsf_kv_can_cut(t, s, length));
    const uint32_t keep = (uint32_t)qsf_ceil_div(length, QSF_KV_BLOCK);
    while (q->n && q->places[q->n - 1] >= keep) kv_drop(t, q->blocks[--q->n]);
    q->length = length;
    if (qsf_kv_whole(q)) q->safe = 0;
}

void qsf_kv_share(qsf_kv_tables *t, uint32_t dst, uint32_t src, uint32_t length)
{
    if (dst == src) {
        qsf_kv_truncate(t, dst, length);
        return;
    }
    assert(qsf_kv_can_cut(t, src, length));
    qsf_kv_truncate(t, dst, 0);
    const uint32_t end = (uint32_t)qsf_ceil_div(length, QSF_KV_BLOCK);
    const qsf_kv_seq *from = &t->seqs[src];
    qsf_kv_seq *to = &t->seqs[dst];
    for (; to->n < from->n && from->places[to->n] < end; to->n++) {
        to->places[to->n] = from->places[to->n];
        to->attention[to->n] = from->attention[to->n];
        t->refs[to->blocks[to->n] = from->blocks[to->n]]++;
    }
    to->length = length;
    to->safe = qsf_kv_whole(to) ? 0 : from->safe;
}

/* Of the blocks at places [begin, end) the one that has drawn least attention, and how many there
 * are. */
static uint32_t kv_least(const qsf_kv_seq *q, uint32_t begin, uint32_t end, uint32_t *n)
{
    uint32_t least = 0;
    *n = 0;
    for (uint32_t i = 0; i < q->n; i++) {
        if (q->places[i] < begin || q->places[i] >= end) continue;
        if (!(*n)++ || q->attention[i] < q->attention[least]) least = i;
    }
    return least;
}

void qsf_kv_slide(qsf_kv_tables *t, uint32_t s, uint32_t window, uint32_t sinks, uint32_t heavy)
{
    qsf_kv_seq *q = &t->seqs[s];
    const uint32_t begin = (uint32_t)qsf_ceil_div(sinks, QSF_KV_BLOCK);
    const uint32_t seen = q->length + 1 > window ? q->length + 1 - window : 0;
    /* The first block that the next token sees. */
    const uint32_t end = seen / QSF_KV_BLOCK;
    for (uint32_t n;;) {
        const uint32_t i = kv_least(q, begin, end, &n), rest = q->n - 1 - i;
        if (n <= qsf_ceil_div(heavy, QSF_KV_BLOCK)) return;
        kv_drop(t, q->blocks[i]);
        memmove(q->blocks + i, q->blocks + i + 1, rest * sizeof *q->blocks);
        memmove(q->places + i, q->places + i + 1, rest * sizeof *q->places);
        memmove(q->attention + i, q->attention + i + 1, rest * sizeof *q->attention);
        q->n--;
        q->safe = end * QSF_KV_BLOCK + window - 1;
    }
}
