/* Attention over cached keys and values with AVX2: four positions times up to three query heads at once.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* Eight cached values, half floats or bytes, from column c on. */
QSF_TEMPLATE __m256 kv8_avx2(const void *p, size_t c, bool f16)
{
    if (f16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)p + c)));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)((const int8_t *)p + c))));
}
QSF_TEMPLATE float kv1_avx2(const void *p, size_t c, bool f16)
{
    return f16 ? qsf_f16_to_f32(((const uint16_t *)p)[c]) : (float)((const int8_t *)p)[c];
}
QSF_TEMPLATE const void *kv_row_avx2(const void *p, size_t i, size_t head_dim, bool f16)
{
    return (const uint8_t *)p + i * head_dim * (f16 ? 2 : 1);
}
/* The lanes' sums of four vectors. */
QSF_TEMPLATE __m128 sums4_avx2(const __m256 v[4])
{
    const __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* s[r][0..n) for R heads, n <= 4; rows past n repeat the last, so that nothing behind it is read. */
QSF_TEMPLATE void scores4_avx2(float *s, size_t lds, const float *q, const void *k, const float *kd, size_t n, size_t head_dim,
                               float scale, int R, bool f16)
{
    const void *row[4];
    __m256 acc[3][4];
    for (size_t p = 0; p < 4; p++) row[p] = kv_row_avx2(k, QSF_MIN(p, n - 1), head_dim, f16);
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int p = 0; p < 4; p++) acc[r][p] = _mm256_setzero_ps();
    size_t c = 0;
    for (; c + 8 <= head_dim; c += 8) {
        __m256 a[3];
        QSF_UNROLL
        for (int r = 0; r < R; r++) a[r] = _mm256_loadu_ps(q + (size_t)r * head_dim + c);
        QSF_UNROLL
        for (int p = 0; p < 4; p++) {
            const __m256 v = kv8_avx2(row[p], c, f16);
            QSF_UNROLL
            for (int r = 0; r < R; r++) acc[r][p] = _mm256_fmadd_ps(a[r], v, acc[r][p]);
        }
    }
    __m128 d = _mm_set1_ps(scale);
    if (!f16) d = _mm_mul_ps(d, n == 4 ? _mm_loadu_ps(kd) : _mm_maskload_ps(kd, _mm256_castsi256_si128(first_avx2(n))));
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        __m128 sum = sums4_avx2(acc[r]);
        if (c < head_dim) {
            float tail[4] = { 0 };
            QSF_UNROLL
            for (int p = 0; p < 4; p++)
                for (size_t i = c; i < head_dim; i++) tail[p] += q[(size_t)r * head_dim + i] * kv1_avx2(row[p], i, f16);
            sum = _mm_add_ps(sum, _mm_loadu_ps(tail));
        }
        sum = _mm_mul_ps(sum, d);
        if (n == 4) _mm_storeu_ps(s + (size_t)r * lds, sum);
        else _mm_maskstore_ps(s + (size_t)r * lds, _mm256_castsi256_si128(first_avx2(n)), sum);
    }
}
QSF_TEMPLATE void scores_avx2(float *s, size_t lds, const float *q, const void *k, const float *kd, size_t n, size_t head_dim,
                              size_t rep, float scale, bool f16)
{
    for (size_t i = 0; i < n; i += 4) {
        const void *row = kv_row_avx2(k, i, head_dim, f16);
        const size_t here = QSF_MIN(n - i, (size_t)4);
        const float *d = f16 ? NULL : kd + i;
        size_t r = 0;
        for (; r + 3 <= rep; r += 3) scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, d, here, head_dim, scale, 3, f16);
        if (rep - r == 2) scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, d, here, head_dim, scale, 2, f16);
        if (rep - r == 1) scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, d, here, head_dim, scale, 1, f16);
    }
}
static void attention_scores_f16_avx2(float *s, size_t lds, const float *q, const uint16_t *k, size_t n, size_t head_dim,
                                      size_t rep, float scale)
{
    scores_avx2(s, lds, q, k, NULL, n, head_dim, rep, scale, true);
}
static void attention_scores_q8_avx2(float *s, size_t lds, const float *q, const int8_t *k, const float *kd, size_t n,
                                     size_t head_dim, size_t rep, float scale)
{
    scores_avx2(s, lds, q, k, kd, n, head_dim, rep, scale, false);
}

static float attention_softmax_inplace_avx2(float *s, size_t n, float *m, float *l)
{
    __m256 top8 = _mm256_set1_ps(*m);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) top8 = _mm256_max_ps(_mm256_loadu_ps(s + i), top8);     /* NaN as first operand is passed over */
    float top = max_lanes_avx2(top8);
    for (; i < n; i++) top = s[i] > top ? s[i] : top;
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 0;
    }
    const float factor = *m == -INFINITY ? 0 : *m == top ? 1 : expf(*m - top);
    const __m256 t = _mm256_set1_ps(top);
    __m256 sum = _mm256_setzero_ps();
    for (i = 0; i + 8 <= n; i += 8) {
        const __m256 e = exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s + i), t));
        _mm256_storeu_ps(s + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    if (i < n) {
        const __m256i part = first_avx2(n - i);
        const __m256 e = exp_avx2(_mm256_sub_ps(_mm256_maskload_ps(s + i, part), t));
        _mm256_maskstore_ps(s + i, part, e);
        sum = _mm256_add_ps(sum, _mm256_and_ps(e, _mm256_castsi256_ps(part)));
    }
    *m = top;
    *l = *l * factor + sum_lanes_avx2(sum);
    return factor;
}

enum { POSITIONS_AVX2 = 64 };      /* of one pass of the weighted sum */

/* o[r][c..c+8*V) of R heads; p[r] weights of n positions. */
QSF_TEMPLATE void weighted_cols_avx2(float *o, const float *factor, const float *const p[4], const void *v, size_t n, size_t head_dim,
                                     size_t c, int R, int V, bool f16)
{
    __m256 acc[4][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < V; j++) {
            const __m256 f = _mm256_set1_ps(factor[r]);
            acc[r][j] = factor[r] == 0 ? _mm256_setzero_ps() : _mm256_mul_ps(f, _mm256_loadu_ps(o + (size_t)r * head_dim + c + 8 * (size_t)j));
        }
    for (size_t i = 0; i < n; i++) {
        const void *row = kv_row_avx2(v, i, head_dim, f16);
        __m256 x[2];
        QSF_UNROLL
        for (int j = 0; j < V; j++) x[j] = kv8_avx2(row, c + 8 * (size_t)j, f16);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m256 w = _mm256_broadcast_ss(p[r] + i);
            QSF_UNROLL
            for (int j = 0; j < V; j++) acc[r][j] = _mm256_fmadd_ps(w, x[j], acc[r][j]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < V; j++) _mm256_storeu_ps(o + (size_t)r * head_dim + c + 8 * (size_t)j, acc[r][j]);
}
QSF_TEMPLATE void weighted_heads_avx2(float *o, const float *factor, const float *const p[4], const void *v, size_t n, size_t head_dim,
                                      int R, bool f16)
{
    size_t c = 0;
    for (; c + 16 <= head_dim; c += 16) weighted_cols_avx2(o, factor, p, v, n, head_dim, c, R, 2, f16);
    for (; c + 8 <= head_dim; c += 8) weighted_cols_avx2(o, factor, p, v, n, head_dim, c, R, 1, f16);
    for (; c < head_dim; c++)
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            float *out = o + (size_t)r * head_dim + c, sum = factor[r] == 0 ? 0 : *out * factor[r];
            for (size_t i = 0; i < n; i++) sum += p[r][i] * kv1_avx2(kv_row_avx2(v, i, head_dim, f16), c, f16);
            *out = sum;
        }
}
QSF_TEMPLATE void weighted_avx2(float *o, const float *factor, const float *s, size_t lds, const void *v, const float *vd, size_t n,
                                size_t head_dim, size_t rep, bool f16)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    for (size_t r = 0; r < rep; r += 4)
        for (size_t i = 0; i < n || i == 0; i += POSITIONS_AVX2) {
            const size_t here = QSF_MIN(n - i, (size_t)POSITIONS_AVX2), heads = QSF_MIN(rep - r, (size_t)4);
            float scaled[4][POSITIONS_AVX2];
            const float *p[4] = { NULL, NULL, NULL, NULL }, *f = i ? ones : factor + r;
            for (size_t h = 0; h < heads; h++) {
                p[h] = s + (r + h) * lds + i;
                if (f16) continue;
                for (size_t j = 0; j < here; j++) scaled[h][j] = p[h][j] * vd[i + j];
                p[h] = scaled[h];
            }
            float *out = o + r * head_dim;
            const void *from = kv_row_avx2(v, i, head_dim, f16);
            if (heads == 4) weighted_heads_avx2(out, f, p, from, here, head_dim, 4, f16);
            else if (heads == 3) weighted_heads_avx2(out, f, p, from, here, head_dim, 3, f16);
            else if (heads == 2) weighted_heads_avx2(out, f, p, from, here, head_dim, 2, f16);
            else weighted_heads_avx2(out, f, p, from, here, head_dim, 1, f16);
        }
}
static void attention_weighted_sum_f16_avx2(float *o, const float *factor, const float *s, size_t lds, const uint16_t *v, size_t n,
                                            size_t head_dim, size_t rep)
{
    weighted_avx2(o, factor, s, lds, v, NULL, n, head_dim, rep, true);
}
static void attention_weighted_sum_q8_avx2(float *o, const float *factor, const float *s, size_t lds, const int8_t *v,
                                           const float *vd, size_t n, size_t head_dim, size_t rep)
{
    weighted_avx2(o, factor, s, lds, v, vd, n, head_dim, rep, false);
}

/* What stays is one run of positions, so only the ends are written. */
static void causal_mask_apply_avx2(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    const uint64_t low = window && window <= current ? (uint64_t)current - window + 1 : 0, end = (uint64_t)current + 1;
    size_t from = low > first ? (size_t)QSF_MIN((uint64_t)n, low - first) : 0;
    size_t to = end > first ? (size_t)QSF_MIN((uint64_t)n, end - first) : 0;
    for (size_t i = 0; i < from; i++) s[i] = -INFINITY;
    for (size_t i = to; i < n; i++) s[i] = -INFINITY;
}

void qsf_attention_avx2(qsf_kernels *k)
{
    k->attention_scores_f16 = attention_scores_f16_avx2;
    k->attention_scores_q8 = attention_scores_q8_avx2;
    k->attention_softmax_inplace = attention_softmax_inplace_avx2;
    k->attention_weighted_sum_f16 = attention_weighted_sum_f16_avx2;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_avx2;
    k->causal_mask_apply = causal_mask_apply_avx2;
}

QSF_TARGET_END
#endif
