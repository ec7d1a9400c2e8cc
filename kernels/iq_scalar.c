/* GGUF's codebook types times activations in plain C.
 * SPDX-License-Identifier: MIT */
#include "iq.h"

enum { TOKENS_IQ_SCALAR = 8 };      /* rows of activations that share one reading of the weights */

/* Code of row r, column c of a group. */
static int iq_code_scalar(const qsf_iq_tile *t, qsf_iq_kind kind, int g, int r, int c)
{
    const int s = c / 16, k = c % 16;
    if (kind == QSF_IQ1)
        return qsf_iq_codes[kind][0][t->entry[g][s][0][r] >> 2 * k & 3] +
               (int)(t->sign[g][r] >> c / 8 * 8 & 255) - QSF_IQ1_OFFSET;
    const uint32_t field = kind == QSF_IQ2 ? t->entry[g][s][0][r] >> 2 * k & 3
        : t->entry[g][s][k / 8][r] >> 4 * (k % 8) & 15;
    return t->sign[g][r] >> c & 1 ? -qsf_iq_codes[kind][0][field] : qsf_iq_codes[kind][0][field];
}

static void iq_tile_scalar(float (*acc)[16], qsf_form form, const uint8_t *w, const qsf_act *x, size_t m,
                           size_t n, size_t at)
{
    qsf_iq_tile tile;
    qsf_iq_read(&tile, form, w);
    for (int g = 0; g < 8; g++)
        for (int r = 0; r < 16; r++) {
            int codes[32];
            for (int c = 0; c < 32; c++) codes[c] = iq_code_scalar(&tile, qsf_iq_kind_of(form), g, r, c);
            for (size_t t = 0; t < n; t++) {
                const size_t col = at + 32 * (size_t)g;
                const int8_t *q = x->q + (m + t) * x->cols + col;
                int sum[2] = { 0, 0 };
                for (int c = 0; c < 32; c++) sum[c / 16] += codes[c] * q[c];
                acc[t][r] += x->d[(m + t) * (x->cols / 64) + col / 64] * tile.d[r]
                    * (float)(sum[0] * tile.scale[2 * g][r] + sum[1] * tile.scale[2 * g + 1][r]);
            }
        }
}

static void iq_any_scalar(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                          size_t tiles, size_t blocks)
{
    const size_t bytes = qsf_tile_bytes(form, 256);
    for (size_t m = 0; m < x->n; m += TOKENS_IQ_SCALAR)
        for (size_t t = 0; t < tiles; t++) {
            const size_t n = QSF_MIN(x->n - m, (size_t)TOKENS_IQ_SCALAR);
            float acc[TOKENS_IQ_SCALAR][16] = { { 0 } };
            for (size_t b = 0; b < blocks; b++)
                iq_tile_scalar(acc, form, w + (t * blocks + b) * bytes, x, m, n, 256 * b);
            for (size_t i = 0; i < n; i++) memcpy(y + (m + i) * ldy + 16 * t, acc[i], sizeof acc[i]);
        }
}

#define FORM_SCALAR(F)                                                                                      \
    static void matmul_##F##_scalar(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks, uint32_t block)                                          \
    { (void)block; iq_any_scalar(QSF_F_##F, y, ldy, w, x, tiles, blocks); }                                 \
    static void matvec_##F##_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    { (void)block; iq_any_scalar(QSF_F_##F, y, 16 * tiles, w, x, tiles, blocks); }
QSF_EACH_IQ_FORM(FORM_SCALAR)
#undef FORM_SCALAR

void qsf_iq_scalar(qsf_kernels *k)
{
#define FORM_SCALAR(F) k->matvec[QSF_F_##F] = matvec_##F##_scalar; k->matmul[QSF_F_##F] = matmul_##F##_scalar;
    QSF_EACH_IQ_FORM(FORM_SCALAR)
#undef FORM_SCALAR
}
