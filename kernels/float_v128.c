/* Float weights times float rows, and the integer dot product, over vectors of 128 bits: SSE4.2 and NEON.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

enum { ROWS_X_V128 = V128_REGISTERS / 8 };         /* rows of x at once: with four of w they take half of the registers */

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_f32_v128(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t cols, int R, int T)
{
    v4f acc[4][ROWS_X_V128];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = v4_set1(0);
    for (size_t c = 0; c < cols; c += 4) {
        const bool whole = c + 4 <= cols;
        v4f v[ROWS_X_V128];
        QSF_UNROLL
        for (int t = 0; t < T; t++) v[t] = whole ? v4_load(x + (size_t)t * ldx + c) : v4_load_part(x + (size_t)t * ldx + c, cols - c);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const float *row = w + (size_t)r * cols + c;
            const v4f a = whole ? v4_load(row) : v4_load_part(row, cols - c);
            QSF_UNROLL
            for (int t = 0; t < T; t++) acc[r][t] = v4_fma(a, v[t], acc[r][t]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) y[(size_t)t * ldy + (size_t)r] = v4_sum(acc[r][t]);
}

static void matmul_f32_v128(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n, size_t rows, size_t cols)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, w += 4 * cols) {
        size_t t = 0;
        for (; t + ROWS_X_V128 <= n; t += ROWS_X_V128) block_f32_v128(y + t * ldy + r, ldy, w, x + t * ldx, ldx, cols, 4, ROWS_X_V128);
        for (; t < n; t++) block_f32_v128(y + t * ldy + r, ldy, w, x + t * ldx, ldx, cols, 4, 1);
    }
    for (; r < rows; r++, w += cols)
        for (size_t t = 0; t < n; t++) block_f32_v128(y + t * ldy + r, ldy, w, x + t * ldx, ldx, cols, 1, 1);
}

static int32_t dot_i8_v128(const int8_t *a, const int8_t *b, size_t n)
{
    v4i s0 = { 0, 0, 0, 0 }, s1 = s0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        s0 = v16_dot(s0, a + i, b + i);
        s1 = v16_dot(s1, a + i + 16, b + i + 16);
    }
    uint32_t sum = 0;       /* wraps instead of overflowing */
    for (int j = 0; j < 4; j++) sum += (uint32_t)s0[j] + (uint32_t)s1[j];
    for (; i < n; i++) sum += (uint32_t)(a[i] * b[i]);
    return (int32_t)sum;
}

void qsf_float_v128(qsf_kernels *k)
{
    k->matmul_f32 = matmul_f32_v128;
    k->dot_i8 = dot_i8_v128;
}

QSF_V128_END
#endif
