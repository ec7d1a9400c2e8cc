/* Keys and values as floats.
 * SPDX-License-Identifier: MIT */
#include "layers/kv_float.h"

static void kv_begin_float(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w)
{
    (void)l;
    (void)kn;
    (void)w;        /* queries are used unchanged */
}

static void kv_softmax_float(const qsf_kernels *kn, const qsf_kv_work *w, size_t first, size_t vectors,
                             size_t n, float *m, float *l)
{
    kn->attention_softmax_inplace(w->s + first * QSF_KV_BLOCK, QSF_KV_BLOCK, n, vectors, w->factor + first,
                                  m + first, l + first);
}

/* ---- 16 bits ---- */

static void kv_store_f16(const qsf_kv_layout *l, const qsf_kernels *kn, uint8_t *record, size_t i,
                         const float *k, const float *v)
{
    kn->fp32_to_fp16_array((uint16_t *)(void *)record + i * l->head_dim, k, l->head_dim);
    kn->fp32_to_fp16_array((uint16_t *)(void *)(record + l->v_at) + i * l->head_dim, v, l->head_dim);
}

static void kv_scores_f16(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w,
                          const uint8_t *record, size_t n)
{
    const uint16_t *k = (const uint16_t *)(const void *)record;
    kn->attention_scores_f16(w->s, QSF_KV_BLOCK, w->q, k, n, l->head_dim, w->vectors, w->scale);
}

static void kv_sum_f16(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w, const uint8_t *record,
                       size_t n)
{
    const uint16_t *v = (const uint16_t *)(const void *)(record + l->v_at);
    kn->attention_weighted_sum_f16(w->o, w->factor, w->s, QSF_KV_BLOCK, v, n, l->head_dim, w->vectors);
}

const qsf_kv_ops qsf_kv_f16_ops = { kv_store_f16, kv_begin_float, kv_scores_f16, kv_softmax_float,
                                    kv_sum_f16 };

/* ---- 32 bits ---- */

static void kv_store_f32(const qsf_kv_layout *l, const qsf_kernels *kn, uint8_t *record, size_t i,
                         const float *k, const float *v)
{
    (void)kn;
    memcpy((float *)(void *)record + i * l->head_dim, k, l->head_dim * sizeof(float));
    memcpy((float *)(void *)(record + l->v_at) + i * l->head_dim, v, l->head_dim * sizeof(float));
}

static void kv_scores_f32(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w,
                          const uint8_t *record, size_t n)
{
    const size_t hd = l->head_dim;
    kn->matmul_f32(w->s, QSF_KV_BLOCK, (const float *)(const void *)record, w->q, hd, w->vectors, n, hd);
    for (size_t i = 0; i < w->vectors; i++) kn->vec_scale(w->s + i * QSF_KV_BLOCK, w->scale, n);
}

static void kv_sum_f32(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w, const uint8_t *record,
                       size_t n)
{
    const float *v = (const float *)(const void *)(record + l->v_at);
    kn->attention_weighted_sum_f32(w->o, w->factor, w->s, QSF_KV_BLOCK, v, n, l->head_dim, w->vectors);
}

const qsf_kv_ops qsf_kv_f32_ops = { kv_store_f32, kv_begin_float, kv_scores_f32, kv_softmax_float,
                                    kv_sum_f32 };
