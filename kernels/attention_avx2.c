/* Attention over cached keys and values with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* Eight half floats. */
QSF_TEMPLATE __m256 halves8_avx2(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* s[r][0..n) for R heads, n <= 4; rows past n repeat the last one, so that nothing after it is
 * read. */
QSF_TEMPLATE void scores4_avx2(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                               size_t head_dim, float scale, int R)
{
    const uint16_t *row[4];
    __m256 acc[3][4];
    for (size_t p = 0; p < 4; p++) row[p] = k + QSF_MIN(p, n - 1) * head_dim;
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
            const __m256 v = halves8_avx2(row[p] + c);
            QSF_UNROLL
            for (int r = 0; r < R; r++) acc[r][p] = _mm256_fmadd_ps(a[r], v, acc[r][p]);
        }
    }
    const __m128 d = _mm_set1_ps(scale);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        __m128 sum = sums4_avx2(acc[r]);
        if (c < head_dim) {
            float tail[4] = { 0 };
            QSF_UNROLL
            for (int p = 0; p < 4; p++)
                for (size_t i = c; i < head_dim; i++)
                    tail[p] += q[(size_t)r * head_dim + i] * qsf_f16_to_f32(row[p][i]);
            sum = _mm_add_ps(sum, _mm_loadu_ps(tail));
        }
        sum = _mm_mul_ps(sum, d);
        if (n == 4) _mm_storeu_ps(s + (size_t)r * lds, sum);
        else _mm_maskstore_ps(s + (size_t)r * lds, _mm256_castsi256_si128(first_avx2(n)), sum);
    }
}
static void attention_scores_f16_avx2(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                                      size_t head_dim, size_t rep, float scale)
{
    for (size_t i = 0; i < n; i += 4) {
        const uint16_t *row = k + i * head_dim;
        const size_t here = QSF_MIN(n - i, (size_t)4);
        size_t r = 0;
        for (; r + 3 <= rep; r += 3)
            scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 3);
        if (rep - r == 2) scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 2);
        if (rep - r == 1) scores4_avx2(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 1);
    }
}

/* Scores of eight positions (half of a vector of the tiles) for R vectors: |k| times q with k's
 * sign fits what vpmaddubsw can hold. */
QSF_TEMPLATE void scores8_q8_avx2(float *s, size_t lds, const int8_t *q, const float *qd, const int8_t *k,
                                  const float *kd, size_t n, size_t dim, float scale, int R)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc[4];
    QSF_UNROLL
    for (int r = 0; r < R; r++) acc[r] = _mm256_setzero_si256();
    for (size_t d = 0; d < dim; d += 4, k += 64) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)k), a = _mm256_abs_epi8(v);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            int32_t four;
            memcpy(&four, q + (size_t)r * dim + d, 4);
            const __m256i signs = _mm256_sign_epi8(_mm256_set1_epi32(four), v);
            acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(_mm256_maddubs_epi16(a, signs), ones));
        }
    }
    const __m256i part = first_avx2(n);
    const __m256 scales = _mm256_maskload_ps(kd, part);
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        _mm256_maskstore_ps(s + (size_t)r * lds, part, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r]),
                            _mm256_mul_ps(scales, _mm256_set1_ps(qd[r] * scale))));
}
static void attention_scores_q8_avx2(float *s, size_t lds, const int8_t *q, const float *qd,
                                     const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                     size_t dim, size_t rep, float scale, const int8_t *ahead)
{
    (void)qs;
    for (size_t i = 0; i < n; i += 8) {
        const int8_t *at = k + i / 16 * (16 * dim) + i % 16 * 4;
        const size_t here = QSF_MIN(n - i, (size_t)8);
        size_t r = 0;
        if (ahead) qsf_kv_bring(ahead + i * dim, 8 * dim);
        for (; r + 4 <= rep; r += 4)
            scores8_q8_avx2(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 4);
        if (rep - r == 3)
            scores8_q8_avx2(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 3);
        if (rep - r == 2)
            scores8_q8_avx2(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 2);
        if (rep - r == 1)
            scores8_q8_avx2(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 1);
    }
}

static float softmax_row_avx2(float *s, size_t n, float *m, float *l)
{
    __m256 top8 = _mm256_set1_ps(*m);
    size_t i = 0;
    /* NaN as first operand is passed over */
    for (; i + 8 <= n; i += 8) top8 = _mm256_max_ps(_mm256_loadu_ps(s + i), top8);
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
static void attention_softmax_inplace_avx2(float *s, size_t lds, size_t n, size_t rep,
                                           float *factor, float *m, float *l)
{
    for (size_t r = 0; r < rep; r++) factor[r] = softmax_row_avx2(s + r * lds, n, &m[r], &l[r]);
}

/* Eight values from number `at` on, and one. */
QSF_TEMPLATE __m256 eight_values_avx2(const void *v, bool half, size_t at)
{
    return half ? halves8_avx2((const uint16_t *)v + at) : _mm256_loadu_ps((const float *)v + at);
}
QSF_TEMPLATE float one_value_avx2(const void *v, bool half, size_t at)
{
    return half ? qsf_f16_to_f32(((const uint16_t *)v)[at]) : ((const float *)v)[at];
}

/* o[r][c..c+8*V) of R vectors; p[r] weights of n positions. */
QSF_TEMPLATE void weighted_cols_avx2(float *o, const float *factor, const float *p, size_t ldp, const void *v,
                                     bool half, size_t n, size_t head_dim, size_t c, int R, int V)
{
    __m256 acc[4][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < V; j++) {
            const __m256 f = _mm256_set1_ps(factor[r]);
            acc[r][j] = factor[r] == 0 ? _mm256_setzero_ps()
                : _mm256_mul_ps(f, _mm256_loadu_ps(o + (size_t)r * head_dim + c + 8 * (size_t)j));
        }
    for (size_t i = 0; i < n; i++) {
        __m256 x[2];
        QSF_UNROLL
        for (int j = 0; j < V; j++) x[j] = eight_values_avx2(v, half, i * head_dim + c + 8 * (size_t)j);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m256 w = _mm256_broadcast_ss(p + (size_t)r * ldp + i);
            QSF_UNROLL
            for (int j = 0; j < V; j++) acc[r][j] = _mm256_fmadd_ps(w, x[j], acc[r][j]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < V; j++) _mm256_storeu_ps(o + (size_t)r * head_dim + c + 8 * (size_t)j, acc[r][j]);
}
QSF_TEMPLATE void weighted_vectors_avx2(float *o, const float *factor, const float *p, size_t ldp,
                                        const void *v, bool half, size_t n, size_t head_dim, int R)
{
    size_t c = 0;
    for (; c + 16 <= head_dim; c += 16) weighted_cols_avx2(o, factor, p, ldp, v, half, n, head_dim, c, R, 2);
    for (; c + 8 <= head_dim; c += 8) weighted_cols_avx2(o, factor, p, ldp, v, half, n, head_dim, c, R, 1);
    for (; c < head_dim; c++)
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            float *out = o + (size_t)r * head_dim + c, sum = factor[r] == 0 ? 0 : *out * factor[r];
            for (size_t i = 0; i < n; i++)
                sum += p[(size_t)r * ldp + i] * one_value_avx2(v, half, i * head_dim + c);
            *out = sum;
        }
}
static void attention_weighted_sum_f16_avx2(float *o, const float *factor, const float *s, size_t lds,
                                            const uint16_t *v, size_t n, size_t head_dim, size_t rep)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 4);
    if (rep - r == 3)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 3);
    if (rep - r == 2)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 2);
    if (rep - r == 1)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 1);
}
static void attention_weighted_sum_f32_avx2(float *o, const float *factor, const float *s, size_t lds,
                                            const float *v, size_t n, size_t head_dim, size_t rep)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, false, n, head_dim, 4);
    for (; r < rep; r++)
        weighted_vectors_avx2(o + r * head_dim, factor + r, s + r * lds, lds, v, false, n, head_dim, 1);
}

/* Softmax weights times the values' scales as codes. */
static void weights_q8_avx2(uint8_t *p, float *pd, const float *s, size_t lds, const float *vd,
                                      size_t n, size_t rep)
{
    __m256 scales[4], w[4];
    __m256i part[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        part[i] = first_avx2(n > 8 * (size_t)i ? QSF_MIN(n - 8 * (size_t)i, (size_t)8) : 0);
        scales[i] = _mm256_maskload_ps(vd + 8 * i, part[i]);
    }
    for (size_t r = 0; r < rep; r++, p += QSF_KV_BLOCK, s += lds) {
        QSF_UNROLL
        for (int i = 0; i < 4; i++) w[i] = _mm256_mul_ps(_mm256_maskload_ps(s + 8 * i, part[i]), scales[i]);
        const float top = max_lanes_avx2(_mm256_max_ps(_mm256_max_ps(w[0], w[1]), _mm256_max_ps(w[2], w[3])));
        const float to_code = top >= QSF_KV_LEAST ? 255 / top : 0;
        __m256i c[4];
        QSF_UNROLL
        for (int i = 0; i < 4; i++) c[i] = _mm256_cvtps_epi32(_mm256_mul_ps(w[i], _mm256_set1_ps(to_code)));
        const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(c[0], c[1]),
                                                  _mm256_packus_epi32(c[2], c[3]));
        _mm256_storeu_si256((__m256i *)(void *)p,
                            _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
        pd[r] = to_code > 0 ? top / 255 : 0;
    }
}

static void attention_softmax_q8_avx2(uint8_t *p, float *pd, float *s, size_t lds, const float *vd,
                                     size_t n, size_t rep, float *factor, float *m, float *l)
{
    attention_softmax_inplace_avx2(s, lds, n, rep, factor, m, l);
    weights_q8_avx2(p, pd, s, lds, vd, n, rep);
}

/* Sixteen columns of R vectors, n of them stored: values widened to 16 bits once,
 * vpmaddwd leaves two sums a column. */
QSF_TEMPLATE void weighted16_q8_avx2(float *o, const float *factor, const uint8_t *p, const float *pd,
                                     const int8_t *v, size_t n, size_t head_dim, int R)
{
    __m256i acc[2][4];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int i = 0; i < 4; i++) acc[r][i] = _mm256_setzero_si256();
    for (size_t j = 0; j < QSF_KV_BLOCK / 4; j++, v += 64) {
        __m256i w[2];
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            int32_t four;
            memcpy(&four, p + (size_t)r * QSF_KV_BLOCK + 4 * j, 4);
            w[r] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)));
        }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) {
            const __m256i x =
                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(v + 16 * i)));
            QSF_UNROLL
            for (int r = 0; r < R; r++) acc[r][i] = _mm256_add_epi32(acc[r][i], _mm256_madd_epi16(x, w[r]));
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m256i part = first_avx2(n > 8 * (size_t)i ? QSF_MIN(n - 8 * (size_t)i, (size_t)8) : 0);
            const __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[r][2 * i], acc[r][2 * i + 1]),
                                                         0xd8);
            float *out = o + (size_t)r * head_dim + 8 * i;
            const __m256 old = factor[r] == 0 ? _mm256_setzero_ps()
                : _mm256_mul_ps(_mm256_maskload_ps(out, part), _mm256_set1_ps(factor[r]));
            _mm256_maskstore_ps(out, part, _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                                                           _mm256_set1_ps(pd[r]), old));
        }
}
static void attention_weighted_sum_q8_avx2(float *o, const float *factor, const uint8_t *p, const float *pd,
                                           const int8_t *v, size_t head_dim, size_t rep, const int8_t *ahead)
{
    if (ahead) qsf_kv_bring(ahead + qsf_kv_dim(head_dim) * QSF_KV_BLOCK, QSF_KV_SCALES);
    for (size_t d = 0; d < head_dim; d += 16, v += 16 * QSF_KV_BLOCK) {
        const size_t here = QSF_MIN(head_dim - d, (size_t)16);
        size_t r = 0;
        if (ahead) qsf_kv_bring(ahead + d * QSF_KV_BLOCK, 16 * QSF_KV_BLOCK);
        for (; r + 2 <= rep; r += 2)
            weighted16_q8_avx2(o + r * head_dim + d, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, here,
                               head_dim, 2);
        if (r < rep)
            weighted16_q8_avx2(o + r * head_dim + d, factor + r, p + r * QSF_KV_BLOCK, pd + r, v, here,
                               head_dim, 1);
    }
}

/* What stays is one run of positions, so only the ends are written. */
static void causal_mask_apply_avx2(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    const uint64_t low = window && window <= current ? (uint64_t)current - window + 1 : 0,
        end = (uint64_t)current + 1;
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
    k->attention_weighted_sum_f32 = attention_weighted_sum_f32_avx2;
    k->attention_softmax_q8 = attention_softmax_q8_avx2;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_avx2;
    k->causal_mask_apply = causal_mask_apply_avx2;
}

QSF_TARGET_END
#endif
