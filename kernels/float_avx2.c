/* Float weights times float rows, and the integer dot product, with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_f32_avx2(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t cols, int R, int T)
{
    __m256 acc[8][3];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = _mm256_setzero_ps();
    for (size_t c = 0; c < cols; c += 8) {
        const bool whole = c + 8 <= cols;
        const __m256i part = whole ? _mm256_setzero_si256() : first_avx2(cols - c);
        __m256 v[3];
        QSF_UNROLL
        for (int t = 0; t < T; t++) v[t] = whole ? _mm256_loadu_ps(x + (size_t)t * ldx + c) : _mm256_maskload_ps(x + (size_t)t * ldx + c, part);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const float *row = w + (size_t)r * cols + c;
            const __m256 a = whole ? _mm256_loadu_ps(row) : _mm256_maskload_ps(row, part);
            QSF_UNROLL
            for (int t = 0; t < T; t++) acc[r][t] = _mm256_fmadd_ps(a, v[t], acc[r][t]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) y[(size_t)t * ldy + (size_t)r] = sum_lanes_avx2(acc[r][t]);
}

static void matmul_f32_avx2(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n, size_t rows, size_t cols)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, w += 4 * cols) {
        const float *in = x;
        float *out = y + r;
        size_t t = 0;
        for (; t + 3 <= n; t += 3, in += 3 * ldx, out += 3 * ldy) block_f32_avx2(out, ldy, w, in, ldx, cols, 4, 3);
        if (n - t == 2) block_f32_avx2(out, ldy, w, in, ldx, cols, 4, 2);
        if (n - t == 1) block_f32_avx2(out, ldy, w, in, ldx, cols, 4, 1);
    }
    for (; r < rows; r++, w += cols)
        for (size_t t = 0; t < n; t++) block_f32_avx2(y + t * ldy + r, ldy, w, x + t * ldx, ldx, cols, 1, 1);
}

static int32_t dot_i8_avx2(const int8_t *a, const int8_t *b, size_t n)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(a + i)), y = _mm256_loadu_si256((const __m256i *)(const void *)(b + i));
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)), _mm256_cvtepi8_epi16(_mm256_castsi256_si128(y))));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(x, 1)), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(y, 1))));
    }
    const __m256i s = _mm256_add_epi32(s0, s1);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    uint32_t sum = (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
    for (; i < n; i++) sum += (uint32_t)(a[i] * b[i]);
    return (int32_t)sum;
}

void qsf_float_avx2(qsf_kernels *k)
{
    k->matmul_f32 = matmul_f32_avx2;
    k->dot_i8 = dot_i8_avx2;
}

QSF_TARGET_END
#endif
