/* Float and half float weights times float rows, and the integer dot product, with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* 8 weights, or the first n < 8 of them, selected by `part`. */
QSF_TEMPLATE __m256 weights_avx2(const uint8_t *w, qsf_float type, bool whole, size_t n, __m256i part)
{
    if (type == QSF_FLOAT_32)
        return whole ? _mm256_loadu_ps((const float *)(const void *)w)
            : _mm256_maskload_ps((const float *)(const void *)w, part);
    __m128i h;
    if (whole) h = _mm_loadu_si128((const __m128i *)(const void *)w);
    else {
        uint16_t tail[8] = { 0 };
        memcpy(tail, w, 2 * n);
        h = _mm_loadu_si128((const __m128i *)(const void *)tail);
    }
    return type == QSF_FLOAT_16 ? _mm256_cvtph_ps(h)
        : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Columns whose products one accumulator sums.  These sums are added in the columns' order,
 * whatever other rows are in the batch, so that a row's result does not depend on its batch. */
enum { SEGMENT_AVX2 = 64 };

/* acc[r][t] += 8 columns, or the first n < 8 of them, of R rows of weights, `step` bytes apart, and
 * T rows of x, which for each r begin x_step further. */
QSF_TEMPLATE void step_avx2(__m256 acc[4][3], qsf_float type, const uint8_t *w, size_t step, const float *x,
                            size_t x_step, size_t ldx, int R, int T, bool whole, size_t n)
{
    const __m256i part = whole ? _mm256_setzero_si256() : first_avx2(n);
    __m256 v[3];
    QSF_UNROLL
    for (int r = 0; r < R; r++, x += x_step) {
        const __m256 a = weights_avx2(w + (size_t)r * step, type, whole, n, part);
        if (r == 0 || x_step)
            QSF_UNROLL
            for (int t = 0; t < T; t++)
                v[t] = whole ? _mm256_loadu_ps(x + (size_t)t * ldx)
                    : _mm256_maskload_ps(x + (size_t)t * ldx, part);
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = _mm256_fmadd_ps(a, v[t], acc[r][t]);
    }
}

/* acc[r][t]: sums of n <= SEGMENT_AVX2 columns. */
QSF_TEMPLATE void segment_avx2(__m256 acc[4][3], qsf_float type, const uint8_t *w, size_t step,
                               const float *x, size_t x_step, size_t ldx, size_t n, int R, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2;
    size_t c = 0;
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = _mm256_setzero_ps();
    for (; c + 8 <= n; c += 8) step_avx2(acc, type, w + c * each, step, x + c, x_step, ldx, R, T, true, 8);
    if (c < n) step_avx2(acc, type, w + c * each, step, x + c, x_step, ldx, R, T, false, n - c);
}

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_avx2(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                             size_t ldx, size_t cols, int R, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2;
    __m256 acc[4][3], sum[4][3];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[r][t] = _mm256_setzero_ps();
    for (size_t c = 0; c < cols; c += SEGMENT_AVX2) {
        segment_avx2(acc, type, w + c * each, cols * each, x + c, 0, ldx,
                     QSF_MIN(cols - c, (size_t)SEGMENT_AVX2), R, T);
        QSF_UNROLL
        for (int r = 0; r < R; r++)
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[r][t] = _mm256_add_ps(sum[r][t], acc[r][t]);
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) y[(size_t)t * ldy + (size_t)r] = sum_lanes_avx2(sum[r][t]);
}

/* One row of weights and T rows of x: four segments side by side, as rows are in a block. */
QSF_TEMPLATE void one_row_avx2(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                               size_t ldx, size_t cols, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2, segment = SEGMENT_AVX2;
    __m256 acc[4][3], sum[2];
    size_t c = 0;
    QSF_UNROLL
    for (int t = 0; t < T; t++) sum[t] = _mm256_setzero_ps();
    for (; c + 4 * segment <= cols; c += 4 * segment) {
        segment_avx2(acc, type, w + c * each, segment * each, x + c, segment, ldx, segment, 4, T);
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[t] = _mm256_add_ps(sum[t], acc[i][t]);
    }
    for (; c < cols; c += segment) {
        segment_avx2(acc, type, w + c * each, 0, x + c, 0, ldx, QSF_MIN(cols - c, segment), 1, T);
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t] = _mm256_add_ps(sum[t], acc[0][t]);
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) y[(size_t)t * ldy] = sum_lanes_avx2(sum[t]);
}

QSF_TEMPLATE void matmul_any_float_avx2(float *y, size_t ldy, qsf_float type, const void *weights,
                                        const float *x, size_t ldx, size_t n, size_t rows, size_t cols)
{
    const size_t row = cols * (type == QSF_FLOAT_32 ? 4 : 2);
    const uint8_t *w = weights;
    size_t r = 0;
    for (; n <= QSF_FLOAT_FEW && r < rows; r++, w += row) {
        if (n >= 2) one_row_avx2(y + r, ldy, type, w, x, ldx, cols, 2);
        if (n != 2) one_row_avx2(y + (n - 1) * ldy + r, ldy, type, w, x + (n - 1) * ldx, ldx, cols, 1);
    }
    for (; r + 4 <= rows; r += 4, w += 4 * row) {
        const float *in = x;
        float *out = y + r;
        size_t t = 0;
        for (; t + 3 <= n; t += 3, in += 3 * ldx, out += 3 * ldy)
            block_avx2(out, ldy, type, w, in, ldx, cols, 4, 3);
        if (n - t == 2) block_avx2(out, ldy, type, w, in, ldx, cols, 4, 2);
        if (n - t == 1) block_avx2(out, ldy, type, w, in, ldx, cols, 4, 1);
    }
    for (; r < rows; r++, w += row)
        for (size_t t = 0; t < n; t++)
            block_avx2(y + t * ldy + r, ldy, type, w, x + t * ldx, ldx, cols, 1, 1);
}

static void matmul_f32_avx2(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                            size_t rows, size_t cols)
{
    matmul_any_float_avx2(y, ldy, QSF_FLOAT_32, w, x, ldx, n, rows, cols);
}
QSF_TEMPLATE void floats_avx2(float *out, const uint16_t *w, size_t n, qsf_float type)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, weights_avx2((const uint8_t *)(w + i), type, true, 8,
                                               _mm256_setzero_si256()));
    if (i < n)
        _mm256_maskstore_ps(out + i, first_avx2(n - i), weights_avx2((const uint8_t *)(w + i), type, false,
                            n - i, _mm256_setzero_si256()));
}
static void widen_f16_avx2(float *out, const uint16_t *w, size_t n) { floats_avx2(out, w, n, QSF_FLOAT_16); }
static void widen_bf16_avx2(float *out, const uint16_t *w, size_t n)
{
    floats_avx2(out, w, n, QSF_FLOAT_B16);
}

static void matmul_f16_avx2(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                            size_t rows, size_t cols, float *scratch)
{
    if (n > QSF_FLOAT_FEW)
        qsf_matmul_strips(y, ldy, false, w, x, ldx, n, rows, cols, scratch, widen_f16_avx2, matmul_f32_avx2);
    else matmul_any_float_avx2(y, ldy, QSF_FLOAT_16, w, x, ldx, n, rows, cols);
}
static void matmul_bf16_avx2(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                             size_t rows, size_t cols, float *scratch)
{
    if (n > QSF_FLOAT_FEW) {
        qsf_matmul_strips(y, ldy, true, w, x, ldx, n, rows, cols, scratch, widen_bf16_avx2, matmul_f32_avx2);
        return;
    }
    for (size_t t = 0; t < n; t++) qsf_round_bf16(scratch + t * cols, x + t * ldx, cols);
    matmul_any_float_avx2(y, ldy, QSF_FLOAT_B16, w, scratch, cols, n, rows, cols);
}

void qsf_float_avx2(qsf_kernels *k)
{
    k->matmul_f32 = matmul_f32_avx2;
    k->matmul_f16 = matmul_f16_avx2;
    k->matmul_bf16 = matmul_bf16_avx2;
}

QSF_TARGET_END
#endif
