/* The KV cache's storage.
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

uint64_t qsf_kv_bytes(const qsf_kv_layout *l, uint32_t n_layers, uint32_t n_blocks)
{
    return (uint64_t)n_layers * n_blocks * l->n_kv_heads * l->record;
}

static uint64_t kv_bytes_of(const qsf_kv *kv)
{
    return qsf_kv_bytes(&kv->layout, kv->n_layers, kv->n_blocks);
}

qsf_status qsf_kv_init(qsf_kv *kv, const qsf_platform *p, const qsf_kv_layout *l, uint32_t n_layers,
                       uint32_t n_blocks, qsf_error *err)
{
    *kv = (qsf_kv){ .platform = p, .layout = *l, .n_blocks = n_blocks, .n_layers = n_layers };
    kv->data = qsf_alloc(p, kv_bytes_of(kv), "KV cache", err);
    return kv->data ? QSF_OK : QSF_E_MEMORY;
}

void qsf_kv_done(qsf_kv *kv)
{
    if (!kv->platform) return;
    qsf_dealloc(kv->platform, kv->data, kv_bytes_of(kv));
    *kv = (qsf_kv){ 0 };
}

qsf_status qsf_kv_need(qsf_kv *kv, const qsf_platform *p, uint32_t layer, qsf_error *err)
{
    qsf_kv all;
    if (layer < kv->n_layers) return QSF_OK;
    const qsf_status st = qsf_kv_init(&all, p, &kv->layout, kv->layout.n_layers, kv->n_blocks, err);
    if (st) return st;
    memcpy(all.data, kv->data, (size_t)kv_bytes_of(kv));
    qsf_kv_done(kv);
    *kv = all;
    return QSF_OK;
}

void qsf_kv_copy(const qsf_kv *kv, uint32_t to, uint32_t from)
{
    for (uint32_t l = 0; l < kv->n_layers; l++)
        memcpy(qsf_kv_record(kv, l, to, 0), qsf_kv_record(kv, l, from, 0),
               kv->layout.n_kv_heads * kv->layout.record);
}

void qsf_kv_store(const qsf_kv *kv, const qsf_kernels *kn, uint32_t layer, const qsf_kv_seq *q, uint32_t pos,
                  uint32_t head, const float *k, const float *v)
{
    uint8_t *record = qsf_kv_record(kv, layer, q->blocks[qsf_kv_entry(q, pos)], head);
    kv->layout.ops->store(&kv->layout, kn, record, pos % QSF_KV_BLOCK, k, v);
}
