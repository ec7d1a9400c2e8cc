/* Attention over 8-bit blocks with AVX-512 VNNI: one 32-bit lane is a position (scores) or a column
 * (weighted sum), and vpdpbusd takes four columns or positions at once, as in the weights' tiles.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

QSF_TEMPLATE __m512i dword_avx512(const void *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
}

/* All 32 positions for R vectors, n of them stored.  Keys become unsigned by adding 128, which the
 * sums of the queries take off again. */
QSF_TEMPLATE void scores_any_avx512(float *s, size_t lds, const int8_t *q, const float *qd, const int32_t *qs,
                                    const int8_t *k, const float *kd, size_t n, size_t dim,
                                    float scale, int R)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const size_t half = 16 * dim;
    __m512i acc[8][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_set1_epi32(-128 * qs[r]);
    for (size_t d = 0; d < dim; d += 4, k += 64) {
        const __m512i a = _mm512_xor_si512(_mm512_loadu_si512(k), sign),
            b = _mm512_xor_si512(_mm512_loadu_si512(k + half), sign);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512i four = dword_avx512(q + (size_t)r * dim + d);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], a, four);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], b, four);
        }
    }
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __mmask16 part = first_avx512(n > 16 * (size_t)i ? n - 16 * (size_t)i : 0);
        const __m512 scales = _mm512_maskz_loadu_ps(part, kd + 16 * i);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512 f = _mm512_mul_ps(scales, _mm512_set1_ps(qd[r] * scale));
            _mm512_mask_storeu_ps(s + (size_t)r * lds + 16 * i, part,
                                  _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), f));
        }
    }
}
static void attention_scores_q8_avx512(float *s, size_t lds, const int8_t *q, const float *qd,
                                       const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                       size_t dim, size_t rep, float scale)
{
    size_t r = 0;
    for (; r + 8 <= rep; r += 8)
        scores_any_avx512(s + r * lds, lds, q + r * dim, qd + r, qs + r, k, kd, n, dim, scale, 8);
    for (; r + 3 <= rep; r += 3)
        scores_any_avx512(s + r * lds, lds, q + r * dim, qd + r, qs + r, k, kd, n, dim, scale, 3);
    for (; r < rep; r++)
        scores_any_avx512(s + r * lds, lds, q + r * dim, qd + r, qs + r, k, kd, n, dim, scale, 1);
}

static float attention_softmax_inplace_avx512(float *s, size_t n, float *m, float *l)
{
    __m512 top16 = _mm512_set1_ps(*m);
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 part = first_avx512(n - i);
        /* NaN as first operand is passed over */
        top16 = _mm512_mask_max_ps(top16, part, _mm512_maskz_loadu_ps(part, s + i), top16);
    }
    const float top = _mm512_reduce_max_ps(top16);
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 0;
    }
    const __m512 t = _mm512_set1_ps(top);
    const float factor = *m == -INFINITY ? 0 : *m == top ? 1
        : _mm512_cvtss_f32(exp_avx512(_mm512_sub_ps(_mm512_set1_ps(*m), t)));
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 part = first_avx512(n - i);
        const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(part, s + i), t));
        _mm512_mask_storeu_ps(s + i, part, e);
        sum = _mm512_mask_add_ps(sum, part, sum, e);
    }
    *m = top;
    *l = *l * factor + _mm512_reduce_add_ps(sum);
    return factor;
}

static void attention_weights_q8_avx512(uint8_t *p, float *pd, const float *s, size_t lds, const float *vd,
                                        size_t n, size_t rep)
{
    const __mmask16 low = first_avx512(n), high = first_avx512(n > 16 ? n - 16 : 0);
    const __m512 d0 = _mm512_maskz_loadu_ps(low, vd), d1 = _mm512_maskz_loadu_ps(high, vd + 16);
    for (size_t r = 0; r < rep; r++, p += QSF_KV_BLOCK, s += lds) {
        const __m512 a = _mm512_mul_ps(_mm512_maskz_loadu_ps(low, s), d0),
            b = _mm512_mul_ps(_mm512_maskz_loadu_ps(high, s + 16), d1);
        const float top = _mm512_reduce_max_ps(_mm512_max_ps(a, b)),
            to_code = top >= QSF_KV_LEAST ? 255 / top : 0;
        const __m512 f = _mm512_set1_ps(to_code);
        _mm_storeu_si128((__m128i *)(void *)p,
                         _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, f))));
        _mm_storeu_si128((__m128i *)(void *)(p + 16),
                         _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, f))));
        pd[r] = to_code > 0 ? top / 255 : 0;
    }
}

/* C times 16 columns of R vectors, the last 16 with part of them stored. */
QSF_TEMPLATE void weighted_any_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                      const int8_t *v, size_t head_dim, __mmask16 part, int R, int C)
{
    __m512i acc[4][4];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int c = 0; c < C; c++) acc[r][c] = _mm512_setzero_si512();
    for (size_t j = 0; j < QSF_KV_BLOCK / 4; j++, v += 64) {
        __m512i x[4];
        QSF_UNROLL
        for (int c = 0; c < C; c++) x[c] = _mm512_loadu_si512(v + (size_t)c * 16 * QSF_KV_BLOCK);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512i w = dword_avx512(p + (size_t)r * QSF_KV_BLOCK + 4 * j);
            QSF_UNROLL
            for (int c = 0; c < C; c++) acc[r][c] = _mm512_dpbusd_epi32(acc[r][c], w, x[c]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int c = 0; c < C; c++) {
            const __mmask16 m = c + 1 == C ? part : (__mmask16)0xffff;
            float *out = o + (size_t)r * head_dim + 16 * c;
            const __m512 old = factor[r] == 0 ? _mm512_setzero_ps()
                : _mm512_mul_ps(_mm512_maskz_loadu_ps(m, out), _mm512_set1_ps(factor[r]));
            _mm512_mask_storeu_ps(out, m, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][c]),
                                                          _mm512_set1_ps(pd[r]), old));
        }
}
QSF_TEMPLATE void weighted_cols_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                       const int8_t *v, size_t head_dim, size_t rep, __mmask16 part, int C)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4)
        weighted_any_avx512(o + r * head_dim, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, head_dim,
                            part, 4, C);
    for (; r < rep; r++)
        weighted_any_avx512(o + r * head_dim, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, head_dim,
                            part, 1, C);
}
static void attention_weighted_sum_q8_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                             const int8_t *v, size_t head_dim, size_t rep)
{
    size_t d = 0;
    for (; d + 64 <= head_dim; d += 64)
        weighted_cols_avx512(o + d, factor, p, pd, v + d * QSF_KV_BLOCK, head_dim, rep, 0xffff, 4);
    for (; d < head_dim; d += 16)
        weighted_cols_avx512(o + d, factor, p, pd, v + d * QSF_KV_BLOCK, head_dim, rep,
                             first_avx512(head_dim - d), 1);
}

void qsf_attention_avx512(qsf_kernels *k)
{
    k->attention_scores_q8 = attention_scores_q8_avx512;
    k->attention_softmax_inplace = attention_softmax_inplace_avx512;
    k->attention_weights_q8 = attention_weights_q8_avx512;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_avx512;
}

QSF_TARGET_END
#endif
