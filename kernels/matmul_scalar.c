/* Weights times activations in plain C: tiles, floats, and the integer dot product.
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "iq.h"
#include "tiles_scalar.h"

/* acc[16] += the tile's part of `cols` (32 or 64) columns from column `at` on. */
QSF_TEMPLATE void part_scalar(float *acc, qsf_form form, uint8_t c[2][8][64], const float *scale,
                              const float *zero, const qsf_act *x, size_t m, size_t at, uint32_t cols)
{
    const int8_t *q = x->q + m * x->cols + at;
    const float d = x->d[m * (x->cols / 64) + at / 64], *s = x->s + m * (x->cols / 32) + at / 32;
    int32_t sum[16] = { 0 };
    float sq = 0;
    for (uint32_t g = 0; g < cols / 32; g++) {
        dot_scalar(sum, (const uint8_t (*)[64])c[g], 8, q + 32 * g, qsf_form_signed(form));
        sq += s[g];
    }
    for (int r = 0; r < 16; r++) {
        if (qsf_form_has_zero(form)) acc[r] += d * (scale[r] * (float)sum[r] + zero[r] * sq);
        else acc[r] += d * scale[r] * ((float)sum[r] - (float)qsf_form_offset(form) * sq);
    }
}

/* One tile row times n <= TOKENS_SCALAR rows from m on: y[n][ldy], 16 values each. */
QSF_TEMPLATE void tile_row_scalar(float *y, size_t ldy, qsf_form form, const uint8_t *w, const qsf_act *x,
                                  size_t m, size_t n, size_t blocks, uint32_t block)
{
    const uint32_t cols = block < 64 ? block : 64;
    float acc[TOKENS_SCALAR][16] = { { 0 } };
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        float scale[16], zero[16] = { 0 };
        for (int r = 0; r < 16; r++) {
            scale[r] = scale_scalar(form, w, r, 0);
            if (qsf_form_has_zero(form)) zero[r] = qsf_f16_to_f32(qsf_le16(w + 32 + 2 * r));
        }
        w += qsf_form_head(form);
        for (uint32_t part = 0; part < block; part += cols, at += cols) {
            uint8_t c[2][8][64];
            for (uint32_t g = 0; g < cols / 32; g++, w += qsf_form_group(form)) unpack_scalar(c[g], w, form);
            for (size_t t = 0; t < n; t++) part_scalar(acc[t], form, c, scale, zero, x, m + t, at, cols);
        }
    }
    for (size_t t = 0; t < n; t++)
        for (int r = 0; r < 16; r++) y[t * ldy + (size_t)r] = qsf_form_negated(form) ? -acc[t][r] : acc[t][r];
}

QSF_WALK_SCALAR void matmul_any_scalar(qsf_form form, float *y, size_t ldy, const uint8_t *w,
                                       const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block);
    for (size_t m = 0; m < x->n; m += TOKENS_SCALAR)
        for (size_t t = 0; t < tiles; t++)
            tile_row_scalar(y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, x, m,
                            QSF_MIN(x->n - m, (size_t)TOKENS_SCALAR), blocks, block);
}

#define FORM_SCALAR(F)                                                                                      \
    static void matmul_##F##_scalar(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks,                                                          \
                                    uint32_t block)                                                         \
    { matmul_any_scalar(QSF_F_##F, y, ldy, w, x, tiles, blocks, block); }                                   \
    static void matvec_##F##_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    { matmul_##F##_scalar(y, 16 * tiles, w, x, tiles, blocks, block); }
QSF_EACH_FORM(FORM_SCALAR)
QSF_EACH_GGML_FORM(FORM_SCALAR)
#undef FORM_SCALAR

static void five_scalar(uint8_t *two, const uint8_t *five)
{
    memset(two, 0, QSF_FIVE_TWO);
    for (int v = 0; v < 13; v++)
        for (int i = 0; i < 64; i++) {
            uint8_t x = five[64 * v + i];
            for (int k = 0; k < (v < 12 ? 5 : 4); k++, x = (uint8_t)(3 * x)) {
                const int quad = v < 8 ? 8 * k + v : v < 12 ? 40 + 4 * k + v - 8 : 60 + k;
                two[64 * (quad / 4) + i] |= (uint8_t)((3 * x >> 8) << 2 * (quad % 4));
            }
        }
}
QSF_FIVE_FORM(scalar)
QSF_TQ1_FORM(scalar)

static void matmul_f32_scalar(float *y, size_t ldy, const float *w, const float *x, size_t ldx, size_t n,
                              size_t rows, size_t cols)
{
    for (size_t m = 0; m < n; m++)
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t i = 0; i < cols; i++) sum += (double)w[r * cols + i] * x[m * ldx + i];
            y[m * ldy + r] = (float)sum;
        }
}

static void matmul_f16_scalar(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                              size_t rows, size_t cols, float *scratch)
{
    (void)scratch;
    for (size_t m = 0; m < n; m++)
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t i = 0; i < cols; i++) sum += (double)qsf_f16_to_f32(w[r * cols + i]) * x[m * ldx + i];
            y[m * ldy + r] = (float)sum;
        }
}

static void matmul_bf16_scalar(float *y, size_t ldy, const uint16_t *w, const float *x, size_t ldx, size_t n,
                               size_t rows, size_t cols, float *scratch)
{
    (void)scratch;
    for (size_t m = 0; m < n; m++)
        for (size_t r = 0; r < rows; r++) {
            double sum = 0;
            for (size_t i = 0; i < cols; i++)
                sum += (double)qsf_bf16_to_f32(w[r * cols + i])
                    * qsf_bf16_to_f32(qsf_f32_to_bf16(x[m * ldx + i]));
            y[m * ldy + r] = (float)sum;
        }
}

void qsf_matmul_scalar(qsf_kernels *k)
{
#define FORM_SCALAR(F) k->matvec[QSF_F_##F] = matvec_##F##_scalar; k->matmul[QSF_F_##F] = matmul_##F##_scalar;
    QSF_EACH_FORM(FORM_SCALAR)
    QSF_EACH_GGML_FORM(FORM_SCALAR)
    FORM_SCALAR(T5)
#undef FORM_SCALAR
    k->matvec[QSF_F_TQ1] = matvec_TQ1_scalar;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_scalar;
    qsf_super_scalar(k);
    qsf_iq_scalar(k);
    qsf_trellis_scalar(k);
    k->matmul_f32 = matmul_f32_scalar;
    k->matmul_f16 = matmul_f16_scalar;
    k->matmul_bf16 = matmul_bf16_scalar;
}
