/* bf16 weights times float rows with AVX-512 BF16: vdpbf16ps multiplies pairs of columns.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#if defined(__clang__) ? __clang_major__ >= 9 : __GNUC__ >= 10
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

/* rows of x that share one reading of the weights: as bf16 they fill the scratch */
enum { TOKENS_AVX512BF16 = 32 };

/* A row of x as bf16, padded with zeros up to ld, which is a multiple of 32. */
static void narrow_avx512bf16(uint16_t *to, size_t ld, const float *x, size_t cols)
{
    for (size_t c = 0; c < ld; c += 32) {
        const size_t n = cols - c;
        const __m512 low = _mm512_maskz_loadu_ps(first_avx512(n), x + c);
        const __m512 high = n > 16 ? _mm512_maskz_loadu_ps(first_avx512(n - 16), x + c + 16)
            : _mm512_setzero_ps();
        _mm512_storeu_si512(to + c, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_avx512bf16(float *y, size_t ldy, const uint16_t *w, const uint16_t *x, size_t ld,
                                   size_t cols, int R, int T)
{
    __m512 acc[4][6];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = _mm512_setzero_ps();
    for (size_t c = 0; c < cols; c += 32) {
        const bool whole = c + 32 <= cols;
        const __mmask32 part = whole ? 0xffffffff : (1u << (cols - c)) - 1;
        __m512i a[4];
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const uint16_t *row = w + (size_t)r * cols + c;
            a[r] = whole ? _mm512_loadu_si512(row) : _mm512_maskz_loadu_epi16(part, row);
        }
        QSF_UNROLL
        for (int t = 0; t < T; t++) {
            const __m512i v = _mm512_loadu_si512(x + (size_t)t * ld + c);
            QSF_UNROLL
            for (int r = 0; r < R; r++) acc[r][t] = _mm512_dpbf16_ps(acc[r][t], (__m512bh)a[r], (__m512bh)v);
        }
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) {
        const __m128 sums = sums4_avx512(acc[0][t], acc[R / 4][t], acc[R / 2][t], acc[R - 1][t]);
        if (R == 4) _mm_storeu_ps(y + (size_t)t * ldy, sums);
        else y[(size_t)t * ldy] = _mm_cvtss_f32(sums);
    }
}

QSF_TEMPLATE void rows_avx512bf16(float *y, size_t ldy, const uint16_t *w, const uint16_t *x, size_t ld,
                                  size_t n, size_t cols, int R)
{
    size_t t = 0;
    for (; t + 6 <= n; t += 6) block_avx512bf16(y + t * ldy, ldy, w, x + t * ld, ld, cols, R, 6);
    for (; t + 2 <= n; t += 2) block_avx512bf16(y + t * ldy, ldy, w, x + t * ld, ld, cols, R, 2);
    if (t < n) block_avx512bf16(y + t * ldy, ldy, w, x + t * ld, ld, cols, R, 1);
}

static void matmul_bf16_avx512bf16(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx,
                                   size_t n, size_t rows, size_t cols, float *scratch)
{
    const size_t ld = (cols + 31) / 32 * 32;
    uint16_t *narrow = (uint16_t *)(void *)scratch;
    for (size_t m = 0; m < n; m += TOKENS_AVX512BF16) {
        const size_t some = QSF_MIN(n - m, (size_t)TOKENS_AVX512BF16);
        for (size_t t = 0; t < some; t++) narrow_avx512bf16(narrow + t * ld, ld, x + (m + t) * ldx, cols);
        float *to = y + m * ldy;
        size_t r = 0;
        for (; n <= QSF_FLOAT_FEW && r < rows; r++) {
            if (n >= 2) block_avx512bf16(to + r, ldy, w + r * cols, narrow, ld, cols, 1, 2);
            if (n != 2)
                block_avx512bf16(to + (n - 1) * ldy + r, ldy, w + r * cols, narrow + (n - 1) * ld, ld,
                                 cols, 1, 1);
        }
        for (; r + 4 <= rows; r += 4) rows_avx512bf16(to + r, ldy, w + r * cols, narrow, ld, some, cols, 4);
        for (; r < rows; r++) rows_avx512bf16(to + r, ldy, w + r * cols, narrow, ld, some, cols, 1);
    }
}

void qsf_float_avx512bf16(qsf_kernels *k) { k->matmul_bf16 = matmul_bf16_avx512bf16; }

QSF_TARGET_END
#else
/* a compiler that does not know it: AVX-512 stays */
void qsf_float_avx512bf16(qsf_kernels *k) { (void)k; }
#endif
#endif
