/* Float and half float weights times float rows, and the integer dot product, over vectors of 128
 * bits: SSE4.2 and NEON.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* rows of x at once: with four of w they take half of the registers */
enum { ROWS_X_V128 = V128_REGISTERS / 8 };

/* 8 weights as floats. */
QSF_TEMPLATE void weights_v128(v4f out[2], const uint8_t *w, qsf_float type)
{
    if (type == QSF_FLOAT_16) v8_halves(out, w);
    else if (type == QSF_FLOAT_B16) v8_bf16(out, w);
    else for (int i = 0; i < 2; i++) out[i] = v4_load((const float *)(const void *)w + 4 * i);
}

/* 8 weights or numbers, or the first n of them and zeros. */
QSF_TEMPLATE void eight_v128(v4f out[2], const uint8_t *from, qsf_float type, size_t n)
{
    uint8_t all[32] = { 0 };
    if (n < 8) from = memcpy(all, from, n * (type == QSF_FLOAT_32 ? 4 : 2));
    weights_v128(out, from, type);
}

/* Columns whose products one accumulator sums.  These sums are added in the columns' order,
 * whatever other rows are in the batch, so that a row's result does not depend on its batch. */
enum { SEGMENT_V128 = 64 };

/* acc[r][t] += 8 columns, or the first n of them, of R rows of weights, `step` bytes apart, and T
 * rows of x, which for each r begin x_step further. */
QSF_TEMPLATE void step_v128(v4f acc[4][ROWS_X_V128], qsf_float type, const uint8_t *w, size_t step,
                            const float *x, size_t x_step, size_t ldx, int R, int T, size_t n)
{
    v4f a[2], v[ROWS_X_V128][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++, x += x_step) {
        eight_v128(a, w + (size_t)r * step, type, n);
        if (r == 0 || x_step)
            QSF_UNROLL
            for (int t = 0; t < T; t++)
                eight_v128(v[t], (const uint8_t *)(x + (size_t)t * ldx), QSF_FLOAT_32, n);
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = v4_fma(a[1], v[t][1], v4_fma(a[0], v[t][0], acc[r][t]));
    }
}

/* acc[r][t]: sums of n <= SEGMENT_V128 columns. */
QSF_TEMPLATE void segment_v128(v4f acc[4][ROWS_X_V128], qsf_float type, const uint8_t *w, size_t step,
                               const float *x, size_t x_step, size_t ldx, size_t n, int R, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2;
    size_t c = 0;
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) acc[r][t] = v4_set1(0);
    for (; c + 8 <= n; c += 8) step_v128(acc, type, w + c * each, step, x + c, x_step, ldx, R, T, 8);
    if (c < n) step_v128(acc, type, w + c * each, step, x + c, x_step, ldx, R, T, n - c);
}

/* y[t][r] for R rows of weights and T rows of x. */
QSF_TEMPLATE void block_v128(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                             size_t ldx, size_t cols, int R, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2;
    v4f acc[4][ROWS_X_V128], sum[4][ROWS_X_V128];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[r][t] = v4_set1(0);
    for (size_t c = 0; c < cols; c += SEGMENT_V128) {
        segment_v128(acc, type, w + c * each, cols * each, x + c, 0, ldx,
                     QSF_MIN(cols - c, (size_t)SEGMENT_V128), R, T);
        QSF_UNROLL
        for (int r = 0; r < R; r++)
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[r][t] = sum[r][t] + acc[r][t];
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int t = 0; t < T; t++) y[(size_t)t * ldy + (size_t)r] = v4_sum(sum[r][t]);
}

/* One row of weights and T rows of x: four segments side by side, as rows are in a block. */
QSF_TEMPLATE void one_row_v128(float *y, size_t ldy, qsf_float type, const uint8_t *w, const float *x,
                               size_t ldx, size_t cols, int T)
{
    const size_t each = type == QSF_FLOAT_32 ? 4 : 2, segment = SEGMENT_V128;
    v4f acc[4][ROWS_X_V128], sum[2];
    size_t c = 0;
    QSF_UNROLL
    for (int t = 0; t < T; t++) sum[t] = v4_set1(0);
    for (; c + 4 * segment <= cols; c += 4 * segment) {
        segment_v128(acc, type, w + c * each, segment * each, x + c, segment, ldx, segment, 4, T);
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            QSF_UNROLL
            for (int t = 0; t < T; t++) sum[t] = sum[t] + acc[i][t];
    }
    for (; c < cols; c += segment) {
        segment_v128(acc, type, w + c * each, 0, x + c, 0, ldx, QSF_MIN(cols - c, segment), 1, T);
        QSF_UNROLL
        for (int t = 0; t < T; t++) sum[t] = sum[t] + acc[0][t];
    }
    QSF_UNROLL
    for (int t = 0; t < T; t++) y[(size_t)t * ldy] = v4_sum(sum[t]);
}

QSF_TEMPLATE void matmul_any_float_v128(float *y, size_t ldy, qsf_float type, const void *weights,
                                        const float *x, size_t ldx, size_t n, size_t rows, size_t cols)
{
    const size_t row = cols * (type == QSF_FLOAT_32 ? 4 : 2);
    const uint8_t *w = weights;
    size_t r = 0;
    if (n <= QSF_FLOAT_FEW) {
        for (; r < rows; r++, w += row) {
#if defined(QSF_SMALL_CODE)
            for (size_t t = 0; t < n; t++)
                one_row_v128(y + t * ldy + r, ldy, type, w, x + t * ldx, ldx, cols, 1);
#else
            if (n >= 2) one_row_v128(y + r, ldy, type, w, x, ldx, cols, 2);
            if (n != 2) one_row_v128(y + (n - 1) * ldy + r, ldy, type, w, x + (n - 1) * ldx, ldx, cols, 1);
#endif
        }
        return;
    }
    for (; r + 4 <= rows; r += 4, w += 4 * row) {
        size_t t = 0;
        for (; t + ROWS_X_V128 <= n; t += ROWS_X_V128)
            block_v128(y + t * ldy + r, ldy, type, w, x + t * ldx, ldx, cols, 4, ROWS_X_V128);
        for (; t < n; t++) block_v128(y + t * ldy + r, ldy, type, w, x + t * ldx, ldx, cols, 4, 1);
    }
    for (; r < rows; r++, w += row)
        for (size_t t = 0; t < n; t++)
            block_v128(y + t * ldy + r, ldy, type, w, x + t * ldx, ldx, cols, 1, 1);
}

static void matmul_f32_v128(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                            size_t rows, size_t cols)
{
    matmul_any_float_v128(y, ldy, QSF_FLOAT_32, w, x, ldx, n, rows, cols);
}
QSF_TEMPLATE void floats_v128(float *out, const uint16_t *w, size_t n, qsf_float type)
{
    v4f v[2];
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        weights_v128(v, (const uint8_t *)(w + i), type);
        v4_store(out + i, v[0]);
        v4_store(out + i + 4, v[1]);
    }
    if (i == n) return;
    float tail[8];
    eight_v128(v, (const uint8_t *)(w + i), type, n - i);
    v4_store(tail, v[0]);
    v4_store(tail + 4, v[1]);
    memcpy(out + i, tail, (n - i) * sizeof *out);
}
static void widen_f16_v128(float *out, const uint16_t *w, size_t n) { floats_v128(out, w, n, QSF_FLOAT_16); }
static void widen_bf16_v128(float *out, const uint16_t *w, size_t n)
{
    floats_v128(out, w, n, QSF_FLOAT_B16);
}

static void matmul_f16_v128(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                            size_t rows, size_t cols, float *scratch)
{
    if (n > QSF_FLOAT_FEW)
        qsf_matmul_strips(y, ldy, false, w, x, ldx, n, rows, cols, scratch, widen_f16_v128, matmul_f32_v128);
    else matmul_any_float_v128(y, ldy, QSF_FLOAT_16, w, x, ldx, n, rows, cols);
}
static void matmul_bf16_v128(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                             size_t rows, size_t cols, float *scratch)
{
    if (n > QSF_FLOAT_FEW) {
        qsf_matmul_strips(y, ldy, true, w, x, ldx, n, rows, cols, scratch, widen_bf16_v128, matmul_f32_v128);
        return;
    }
    for (size_t t = 0; t < n; t++) qsf_round_bf16(scratch + t * cols, x + t * ldx, cols);
    matmul_any_float_v128(y, ldy, QSF_FLOAT_B16, w, scratch, cols, n, rows, cols);
}

void qsf_float_v128(qsf_kernels *k)
{
    k->matmul_f32 = matmul_f32_v128;
    k->matmul_f16 = matmul_f16_v128;
    k->matmul_bf16 = matmul_bf16_v128;
}

QSF_V128_END
#endif
