/* The KV cache's tables and storage.
 * SPDX-License-Identifier: MIT */
#include "layers/kv.h"
#include "layers/kv_codes.h"
#include "layers/kv_float.h"

static const struct kv_type {
    const char *name;
    const qsf_kv_ops *ops;
    unsigned k_bits, v_bits, float_bytes;
} kv_types[] = {
    [QSF_KV_F16] = { "f16", &qsf_kv_f16_ops, 0, 0, 2 },
    [QSF_KV_Q8] = { "q8", &qsf_kv_code_ops, 8, 8, 0 },
    [QSF_KV_F32] = { "f32", &qsf_kv_f32_ops, 0, 0, 4 },
    [QSF_KV_Q4] = { "q4", &qsf_kv_code_ops, 4, 4, 0 },
    [QSF_KV_Q2] = { "q2", &qsf_kv_code_ops, 2, 2, 0 },
    [QSF_KV_Q8V4] = { "q8v4", &qsf_kv_code_ops, 8, 4, 0 },
    [QSF_KV_Q4V2] = { "q4v2", &qsf_kv_code_ops, 4, 2, 0 },
};

const char *qsf_kv_name(qsf_kv_type type) { return kv_types[type].name; }

static size_t kv_code_bytes(qsf_kv_type type, unsigned bits, uint32_t head_dim)
{
    const size_t floats = (size_t)head_dim * kv_types[type].float_bytes;
    return QSF_KV_BLOCK * (bits ? qsf_kv_dim(head_dim) * bits / 8 : floats);
}
static size_t kv_scale_bytes(unsigned bits)
{
    return QSF_KV_BLOCK * (bits == 8 ? sizeof(float) : bits ? sizeof(uint16_t) : 0);
}

void qsf_kv_layout_init(qsf_kv_layout *l, qsf_kv_type type, uint32_t n_layers, uint32_t n_kv_heads,
                        uint32_t head_dim)
{
    const unsigned kb = kv_types[type].k_bits, vb = kv_types[type].v_bits;
    *l = (qsf_kv_layout){ .ops = kv_types[type].ops, .type = type, .k_bits = kb, .v_bits = vb,
                          .n_layers = n_layers, .n_kv_heads = n_kv_heads, .head_dim = head_dim };
    l->v_at = kv_code_bytes(type, kb, head_dim);
    l->kd_at = l->v_at + kv_code_bytes(type, vb, head_dim);
    l->vd_at = l->kd_at + kv_scale_bytes(kb);
    l->record = (size_t)qsf_round_up(l->vd_at + kv_scale_bytes(vb), 64);
}

uint32_t qsf_kv_blocks_for(uint32_t n_ctx, uint32_t n_seqs)
{
    return (uint32_t)qsf_ceil_div(n_ctx, QSF_KV_BLOCK) + n_seqs - 1;
}

uint32_t qsf_kv_blocks_of(const qsf_context_options *o)
{
    if (!o->kv_window) return qsf_kv_blocks_for(o->n_ctx, o->n_seqs);
    const uint64_t seq = qsf_ceil_div(o->kv_sinks, QSF_KV_BLOCK) + qsf_ceil_div(o->kv_window, QSF_KV_BLOCK) +
                         qsf_ceil_div(o->kv_heavy, QSF_KV_BLOCK) + 1;
    return (uint32_t)(o->n_seqs * (seq + 1) + qsf_ceil_div(o->n_batch, QSF_KV_BLOCK));
}

static uint64_t kv_data_bytes(const qsf_kv_layout *l, uint32_t n_blocks)
{
    return (uint64_t)l->n_layers * n_blocks * l->n_kv_heads * l->record;
}
static uint64_t kv_table_words(uint32_t n_blocks, uint32_t n_seqs)
{
    return (uint64_t)n_blocks * (2 + 3 * (uint64_t)n_seqs);
}

uint64_t qsf_kv_bytes(const qsf_kv_layout *l, uint32_t n_blocks, uint32_t n_seqs)
{
    const uint64_t tables = kv_table_words(n_blocks, n_seqs) * sizeof(uint32_t) + n_seqs * sizeof(qsf_kv_seq);
    return kv_data_bytes(l, n_blocks) + tables;
}

qsf_status qsf_kv_init(qsf_kv *kv, const qsf_platform *p, const qsf_kv_layout *l, uint32_t n_blocks,
                       uint32_t n_seqs, qsf_error *err)
{
    *kv = (qsf_kv){ .platform = p, .layout = *l, .n_blocks = n_blocks, .n_seqs = n_seqs };
    kv->data_bytes = kv_data_bytes(l, n_blocks);
    kv->free = qsf_alloc_array(p, kv_table_words(n_blocks, n_seqs), sizeof(uint32_t), "KV block tables", err);
    if (!kv->free) return QSF_E_MEMORY;
    if (!(kv->seqs = qsf_alloc_array(p, n_seqs, sizeof(qsf_kv_seq), "sequences", err))) return QSF_E_MEMORY;
    if (!(kv->data = qsf_alloc(p, kv->data_bytes, "KV cache", err))) return QSF_E_MEMORY;
    kv->refs = kv->free + n_blocks;
    for (uint32_t s = 0; s < n_seqs; s++) {
        kv->seqs[s].blocks = kv->refs + n_blocks + 3 * (size_t)s * n_blocks;
        kv->seqs[s].places = kv->seqs[s].blocks + n_blocks;
        kv->seqs[s].attention = (float *)(void *)(kv->seqs[s].places + n_blocks);
    }
    for (uint32_t b = 0; b < n_blocks; b++) kv->free[b] = n_blocks - 1 - b;
    kv->n_free = n_blocks;
    return QSF_OK;
}

void qsf_kv_done(qsf_kv *kv)
{
    if (!kv->platform) return;
    qsf_dealloc(kv->platform, kv->data, kv->data_bytes);
    qsf_dealloc(kv->platform, kv->seqs, kv->n_seqs * sizeof(qsf_kv_seq));
    qsf_dealloc(kv->platform, kv->free, kv_table_words(kv->n_blocks, kv->n_seqs) * sizeof(uint32_t));
    *kv = (qsf_kv){ 0 };
}

static uint32_t kv_take(qsf_kv *kv)
{
    const uint32_t b = kv->free[--kv->n_free];
    kv->refs[b] = 1;
    return b;
}
static void kv_drop(qsf_kv *kv, uint32_t b)
{
    assert(kv->refs[b] > 0);
    if (--kv->refs[b] == 0) kv->free[kv->n_free++] = b;
}

qsf_status qsf_kv_grow(qsf_kv *kv, uint32_t s, uint32_t n)
{
    qsf_kv_seq *q = &kv->seqs[s];
    const uint32_t have = (uint32_t)qsf_ceil_div(q->length, QSF_KV_BLOCK);
    const uint32_t want = (uint32_t)qsf_ceil_div((uint64_t)q->length + n, QSF_KV_BLOCK);
    const bool copy = n && q->length % QSF_KV_BLOCK && kv->refs[q->blocks[q->n - 1]] > 1;
    if (want - have + copy > kv->n_free) return QSF_E_FULL;
    if (copy) {
        const uint32_t from = q->blocks[q->n - 1], to = kv_take(kv);
        for (uint32_t l = 0; l < kv->layout.n_layers; l++)
            memcpy(qsf_kv_record(kv, l, to, 0), qsf_kv_record(kv, l, from, 0),
                   kv->layout.n_kv_heads * kv->layout.record);
        kv_drop(kv, from);
        q->blocks[q->n - 1] = to;
    }
    for (uint32_t b = have; b < want; b++) {
        q->places[q->n] = b;
        q->attention[q->n] = 0;
        q->blocks[q->n++] = kv_take(kv);
    }
    q->length += n;
    return QSF_OK;
}

uint32_t qsf_kv_room(const qsf_kv *kv, uint32_t s)
{
    const qsf_kv_seq *q = &kv->seqs[s];
    const uint32_t used = q->length % QSF_KV_BLOCK;
    if (!used) return kv->n_free * QSF_KV_BLOCK;
    if (kv->refs[q->blocks[q->n - 1]] == 1) return QSF_KV_BLOCK - used + kv->n_free * QSF_KV_BLOCK;
    /* One takes the copy. */
    return kv->n_free ? QSF_KV_BLOCK - used + (kv->n_free - 1) * QSF_KV_BLOCK : 0;
}

/* How many positions from the first on are there without a gap. */
static uint32_t kv_prefix(const qsf_kv_seq *q)
{
    uint32_t i = 0;
    if (qsf_kv_whole(q)) return q->length;
    while (i < q->n && q->places[i] == i) i++;
    return i * QSF_KV_BLOCK;
}

bool qsf_kv_can_cut(const qsf_kv *kv, uint32_t s, uint32_t length)
{
    const qsf_kv_seq *q = &kv->seqs[s];
    return length <= q->length && (length >= q->safe || length <= kv_prefix(q));
}

void qsf_kv_truncate(qsf_kv *kv, uint32_t s, uint32_t length)
{
    qsf_kv_seq *q = &kv->seqs[s];
    assert(qsf_kv_can_cut(kv, s, length));
    const uint32_t keep = (uint32_t)qsf_ceil_div(length, QSF_KV_BLOCK);
    while (q->n && q->places[q->n - 1] >= keep) kv_drop(kv, q->blocks[--q->n]);
    q->length = length;
    if (qsf_kv_whole(q)) q->safe = 0;
}

void qsf_kv_share(qsf_kv *kv, uint32_t dst, uint32_t src, uint32_t length)
{
    if (dst == src) {
        qsf_kv_truncate(kv, dst, length);
        return;
    }
    assert(qsf_kv_can_cut(kv, src, length));
    qsf_kv_truncate(kv, dst, 0);
    const uint32_t end = (uint32_t)qsf_ceil_div(length, QSF_KV_BLOCK);
    const qsf_kv_seq *from = &kv->seqs[src];
    qsf_kv_seq *to = &kv->seqs[dst];
    for (; to->n < from->n && from->places[to->n] < end; to->n++) {
        to->places[to->n] = from->places[to->n];
        to->attention[to->n] = from->attention[to->n];
        kv->refs[to->blocks[to->n] = from->blocks[to->n]]++;
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

void qsf_kv_slide(qsf_kv *kv, uint32_t s, uint32_t window, uint32_t sinks, uint32_t heavy)
{
    qsf_kv_seq *q = &kv->seqs[s];
    const uint32_t begin = (uint32_t)qsf_ceil_div(sinks, QSF_KV_BLOCK);
    const uint32_t seen = q->length + 1 > window ? q->length + 1 - window : 0;
    /* The first block that the next token sees. */
    const uint32_t end = seen / QSF_KV_BLOCK;
    for (uint32_t n;;) {
        const uint32_t i = kv_least(q, begin, end, &n), rest = q->n - 1 - i;
        if (n <= qsf_ceil_div(heavy, QSF_KV_BLOCK)) return;
        kv_drop(kv, q->blocks[i]);
        memmove(q->blocks + i, q->blocks + i + 1, rest * sizeof *q->blocks);
        memmove(q->places + i, q->places + i + 1, rest * sizeof *q->places);
        memmove(q->attention + i, q->attention + i + 1, rest * sizeof *q->attention);
        q->n--;
        q->safe = end * QSF_KV_BLOCK + window - 1;
    }
}

void qsf_kv_store(const qsf_kv *kv, const qsf_kernels *kn, uint32_t layer, uint32_t s, uint32_t pos,
                  uint32_t head,
                  const float *k, const float *v)
{
    const qsf_kv_seq *q = &kv->seqs[s];
    uint8_t *record = qsf_kv_record(kv, layer, q->blocks[qsf_kv_entry(q, pos)], head);
    kv->layout.ops->store(&kv->layout, kn, record, pos % QSF_KV_BLOCK, k, v);
}
