/* Attention over cached keys and values in plain C: scores, online softmax, weighted sum, mask.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

static void attention_scores_f16_scalar(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                                        size_t head_dim, size_t rep, float scale)
{
    for (size_t r = 0; r < rep; r++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t c = 0; c < head_dim; c++)
                sum += (double)q[r * head_dim + c] * qsf_f16_to_f32(k[i * head_dim + c]);
            s[r * lds + i] = (float)sum * scale;
        }
}

static void attention_scores_q8_scalar(float *s, size_t lds, const int8_t *q, const float *qd,
                                       const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                       size_t dim, size_t rep, float scale, const int8_t *ahead)
{
    (void)ahead;
    (void)qs;
    for (size_t r = 0; r < rep; r++)
        for (size_t i = 0; i < n; i++) {
            int32_t sum = 0;
            for (size_t d = 0; d < dim; d += 4) {
                const int8_t *four = k + qsf_kv_k_at(i, d, dim), *to = q + r * dim + d;
                for (size_t b = 0; b < 4; b++) sum += to[b] * four[b];
            }
            s[r * lds + i] = (float)sum * (kd[i] * (qd[r] * scale));
        }
}

/* Milakov & Gimelshein 2018, arXiv:1805.02867. */
static float softmax_row_scalar(float *s, size_t n, float *m, float *l)
{
    float top = *m;
    for (size_t i = 0; i < n; i++) top = s[i] > top ? s[i] : top;
    if (top == -INFINITY) {                                     /* only masked positions so far */
        memset(s, 0, n * sizeof *s);
        return 0;
    }
    const float factor = *m == -INFINITY ? 0 : expf(*m - top);
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += s[i] = expf(s[i] - top);
    *m = top;
    *l = *l * factor + (float)sum;
    return factor;
}
static void attention_softmax_inplace_scalar(float *s, size_t lds, size_t n, size_t rep,
                                             float *factor, float *m, float *l)
{
    for (size_t r = 0; r < rep; r++) factor[r] = softmax_row_scalar(s + r * lds, n, &m[r], &l[r]);
}

static void attention_weighted_sum_f16_scalar(float *o, const float *factor, const float *s, size_t lds,
                                              const uint16_t *v, size_t n, size_t head_dim, size_t rep)
{
    for (size_t r = 0; r < rep; r++)
        for (size_t c = 0; c < head_dim; c++) {
            float *out = o + r * head_dim + c;
            double sum = factor[r] == 0 ? 0 : (double)*out * factor[r];
            for (size_t i = 0; i < n; i++)
                sum += (double)s[r * lds + i] * qsf_f16_to_f32(v[i * head_dim + c]);
            *out = (float)sum;
        }
}

static void attention_weighted_sum_f32_scalar(float *o, const float *factor, const float *s, size_t lds,
                                              const float *v, size_t n, size_t head_dim, size_t rep)
{
    for (size_t i = 0; i < rep * head_dim; i++) {
        const size_t r = i / head_dim;
        double sum = factor[r] == 0 ? 0 : (double)o[i] * factor[r];
        for (size_t at = 0; at < n; at++) sum += (double)s[r * lds + at] * v[at * head_dim + i % head_dim];
        o[i] = (float)sum;
    }
}

/* Softmax weights times the values' scales as codes. */
static void weights_q8_scalar(uint8_t *p, float *pd, const float *s, size_t lds, const float *vd,
                                        size_t n, size_t rep)
{
    for (size_t r = 0; r < rep; r++, p += QSF_KV_BLOCK, s += lds) {
        float top = 0;
        for (size_t i = 0; i < n; i++) top = s[i] * vd[i] > top ? s[i] * vd[i] : top;
        const float to_code = top >= QSF_KV_LEAST ? 255 / top : 0;
        for (size_t i = 0; i < n; i++) p[i] = (uint8_t)lrintf(s[i] * vd[i] * to_code);
        memset(p + n, 0, QSF_KV_BLOCK - n);
        pd[r] = to_code > 0 ? top / 255 : 0;
    }
}

static void attention_softmax_q8_scalar(uint8_t *p, float *pd, float *s, size_t lds, const float *vd,
                                     size_t n, size_t rep, float *factor, float *m, float *l)
{
    attention_softmax_inplace_scalar(s, lds, n, rep, factor, m, l);
    weights_q8_scalar(p, pd, s, lds, vd, n, rep);
}

static void attention_weighted_sum_q8_scalar(float *o, const float *factor, const uint8_t *p, const float *pd,
                                             const int8_t *v, size_t head_dim, size_t rep,
                                             const int8_t *ahead)
{
    (void)ahead;
    for (size_t r = 0; r < rep; r++)
        for (size_t d = 0; d < head_dim; d++) {
            float *out = o + r * head_dim + d;
            int32_t sum = 0;
            for (size_t i = 0; i < QSF_KV_BLOCK; i += 4) {
                const int8_t *four = v + qsf_kv_v_at(i, d);
                for (size_t b = 0; b < 4; b++) sum += p[r * QSF_KV_BLOCK + i + b] * four[b];
            }
            *out = (float)sum * pd[r] + (factor[r] == 0 ? 0 : *out * factor[r]);
        }
}

static void causal_mask_apply_scalar(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t pos = (uint64_t)first + i;
        if (pos > current || (window && pos + window <= current)) s[i] = -INFINITY;
    }
}

void qsf_attention_scalar(qsf_kernels *k)
{
    k->attention_scores_f16 = attention_scores_f16_scalar;
    k->attention_scores_q8 = attention_scores_q8_scalar;
    k->attention_softmax_inplace = attention_softmax_inplace_scalar;
    k->attention_weighted_sum_f16 = attention_weighted_sum_f16_scalar;
    k->attention_weighted_sum_f32 = attention_weighted_sum_f32_scalar;
    k->attention_softmax_q8 = attention_softmax_q8_scalar;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_scalar;
    k->causal_mask_apply = causal_mask_apply_scalar;
}
