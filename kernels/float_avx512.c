/* Float and half float weights times float rows with AVX-512.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

/* 16 weights, or the first of them, selected by `part`. */
QSF_TEMPLATE __m512 weights_avx512(const uint8_t *w, qsf_float type, bool whole, __mmask16 part)
{
    if (type == QSF_FLOAT_32) return whole ? _mm512_loadu_ps(w) : _mm512_maskz_loadu_ps(part, w);
    const __m256i h = whole ? _mm256_loadu_si256((const __m256i *)(const void *)w)
        : _mm256_maskz_loadu_epi16(part, w);
    if (type == QSF_FLOAT_16) return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* acc[r][t] += 16 columns of R rows of weights and T rows of x, or the first of them, selected by
 * `part`. */
QSF_TEMPLATE void step_avx512(__m512 acc[4][6], qsf_float type, const uint8_t *w, size_t row, const float *x,
                              size_t ldx, int R, int T, bool whole, __mmask16 part)
{
    __m512 a[4];
    QSF_UNROLL
    for (int r = 0; r < R; r++) a[r] = weights_avx512(w + (size_t)r * row, type, whole, part);
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const __m512 v = whole ? _mm512_loadu_ps(x + (size_t)t * ldx) : _mm512_maskz_loadu_ps(part,
                x + (size_t)t * ldx);
        QSF_UNROLL
        for (int r = 0; r < R; r++) acc[r][t] = _mm512_fmadd_ps(a[r], v, acc[r][t]);
    }
}

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_avx512(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                               size_t ldx, size_t cols, int R, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2, row = cols * each;
    __m512 acc[4][6];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = _mm512_setzero_ps();
    size_t c = 0;
    for (; c + 16 <= cols; c += 16) step_avx512(acc, type, w + c * each, row, x + c, ldx, R, T, true, 0xffff);
    if (c < cols) step_avx512(acc, type, w + c * each, row, x + c, ldx, R, T, false, first_avx512(cols - c));
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const __m128 sums = sums4_avx512(acc[0][t], acc[R / 4][t], acc[R / 2][t], acc[R - 1][t]);
        if (R == 4) _mm_storeu_ps(y + (size_t)t * ldy, sums);
        else y[(size_t)t * ldy] = _mm_cvtss_f32(sums);
    }
}

QSF_TEMPLATE void rows_avx512(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                              size_t ldx, size_t n, size_t cols, int R)
{
    size_t t = 0;
    for (; t + 6 <= n; t += 6) block_avx512(y + t * ldy, ldy, type, w, x + t * ldx, ldx, cols, R, 6);
    for (; t + 2 <= n; t += 2) block_avx512(y + t * ldy, ldy, type, w, x + t * ldx, ldx, cols, R, 2);
    if (t < n) block_avx512(y + t * ldy, ldy, type, w, x + t * ldx, ldx, cols, R, 1);
}

QSF_TEMPLATE void matmul_avx512(float *y, size_t ldy, qsf_float type, const void *w, const float *x,
                                size_t ldx, size_t n, size_t rows, size_t cols)
{
    const size_t row = cols * (type == QSF_FLOAT_32 ? 4 : 2);
    const uint8_t *p = w;
    size_t r = 0;
    for (; n <= QSF_FLOAT_FEW && r < rows; r++, p += row) {
        if (n >= 2) block_avx512(y + r, ldy, type, p, x, ldx, cols, 1, 2);
        if (n != 2) block_avx512(y + (n - 1) * ldy + r, ldy, type, p, x + (n - 1) * ldx, ldx, cols, 1, 1);
    }
    for (; r + 4 <= rows; r += 4, p += 4 * row) rows_avx512(y + r, ldy, type, p, x, ldx, n, cols, 4);
    for (; r < rows; r++, p += row) rows_avx512(y + r, ldy, type, p, x, ldx, n, cols, 1);
}

static void matmul_f32_avx512(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                              size_t rows, size_t cols)
{
    matmul_avx512(y, ldy, QSF_FLOAT_32, w, x, ldx, n, rows, cols);
}
static void matmul_f16_avx512(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                              size_t rows, size_t cols, float *scratch)
{
    (void)scratch;
    matmul_avx512(y, ldy, QSF_FLOAT_16, w, x, ldx, n, rows, cols);
}
static void matmul_bf16_avx512(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                               size_t rows, size_t cols, float *scratch)
{
    for (size_t m = 0; m < n; m += 16) {
        const size_t some = QSF_MIN(n - m, (size_t)16);
        for (size_t t = 0; t < some; t++) qsf_round_bf16(scratch + t * cols, x + (m + t) * ldx, cols);
        matmul_avx512(y + m * ldy, ldy, QSF_FLOAT_B16, w, scratch, cols, some, rows, cols);
    }
}

void qsf_float_avx512(qsf_kernels *k)
{
    k->matmul_f32 = matmul_f32_avx512;
    k->matmul_f16 = matmul_f16_avx512;
    k->matmul_bf16 = matmul_bf16_avx512;
}

QSF_TARGET_END
#endif
