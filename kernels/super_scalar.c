/* GGUF's super-blocks times activations in plain C: tiles of 256 columns whose scales have scales
 * of their own.
 * SPDX-License-Identifier: MIT */
#include "tiles_scalar.h"

/* A decoded head of a tile: [sub-block][row], value = scale * (code - offset) - min. */
typedef struct head_scalar { float scale[16][16], min[16][16]; } head_scalar;

/* Scale and minimum of sub-block k in row r's bytes, which are 16 apart from p on;
 * high is IQ4_XS's. */
QSF_TEMPLATE void sub_scalar(qsf_form form, const uint8_t *p, uint32_t high, int k, int *scale, int *min)
{
#define BYTE(i) p[16 * (i)]
    *min = 0;
    if (form == QSF_F_Q6K) {
        *scale = (int8_t)BYTE(k);
    } else if (form == QSF_F_Q2K) {
        *scale = BYTE(k) & 15;
        *min = BYTE(k) >> 4;
    } else if (form == QSF_F_Q3K) {
        *scale = ((k < 8 ? BYTE(k) & 15 : BYTE(k - 8) >> 4) | (BYTE(8 + k % 4) >> 2 * (k / 4) & 3) << 4) - 32;
    } else if (form == QSF_F_IQ4XS) {
        *scale = ((BYTE(k / 2) >> 4 * (k % 2) & 15) | (int)(high >> 2 * k & 3) << 4) - 32;
    } else if (k < 4) {
        *scale = BYTE(k) & 63;
        *min = BYTE(k + 4) & 63;
    } else {
        *scale = (BYTE(k + 4) & 15) | BYTE(k - 4) >> 6 << 4;
        *min = BYTE(k + 4) >> 4 | BYTE(k) >> 6 << 4;
    }
#undef BYTE
}

QSF_TEMPLATE void head_read_scalar(head_scalar *h, qsf_form form, const uint8_t *w)
{
    for (int r = 0; r < 16; r++) {
        const uint32_t second = qsf_le16(w + 32 + 2 * r);
        const float d = qsf_f16_to_f32(qsf_le16(w + 2 * r)),
            dmin = qsf_form_has_min(form) ? qsf_f16_to_f32((uint16_t)second) : 0;
        for (int k = 0; k < 4 && form == QSF_F_NV4; k++) {
            h->scale[k][r] = scale_scalar(form, w, r, k);
            h->min[k][r] = 0;
        }
        for (int k = 0; k < 256 / qsf_form_sub(form) && form != QSF_F_NV4; k++) {
            int scale, min;
            sub_scalar(form, w + (qsf_form_has_min(form) || form == QSF_F_IQ4XS ? 64 : 32) + r, second, k,
                       &scale, &min);
            h->scale[k][r] = d * (float)scale;
            h->min[k][r] = dmin * (float)min;
        }
    }
}

/* acc[16] += the group's part: sub-blocks from k on. */
QSF_TEMPLATE void super_group_scalar(float *acc, qsf_form form, const uint8_t c[8][64], const head_scalar *h,
                                     int k, const int8_t *q, float d)
{
    const int cols = qsf_form_sub(form);
    for (int at = 0; at < 32; at += cols, k++) {
        int32_t sum[16] = { 0 }, s = 0;
        for (int i = 0; i < cols; i++) s += q[at + i];
        dot_scalar(sum, c + at / 4, cols / 4, q + at, qsf_form_signed(form));
        for (int r = 0; r < 16; r++)
            acc[r] += d * (h->scale[k][r] * (float)(sum[r] - qsf_form_offset(form) * s)
                           - h->min[k][r] * (float)s);
    }
}

QSF_TEMPLATE void super_row_scalar(float *y, size_t ldy, qsf_form form, const uint8_t *w, const qsf_act *x,
                                   size_t m, size_t n, size_t blocks)
{
    const size_t cols = qsf_form_block(form);
    float acc[TOKENS_SCALAR][16] = { { 0 } };
    for (size_t b = 0; b < blocks; b++) {
        head_scalar h;
        head_read_scalar(&h, form, w);
        w += qsf_form_head(form);
        for (size_t g = 0; g < cols / 32; g++, w += qsf_form_group(form)) {
            const size_t at = cols * b + 32 * g;
            uint8_t c[8][64];
            unpack_scalar(c, w, form);
            for (size_t t = 0; t < n; t++)
                super_group_scalar(acc[t], form, (const uint8_t (*)[64])c, &h,
                                   (int)g * 32 / qsf_form_sub(form), x->q + (m + t) * x->cols + at,
                                   x->d[(m + t) * (x->cols / 64) + at / 64]);
        }
    }
    for (size_t t = 0; t < n; t++) memcpy(y + t * ldy, acc[t], sizeof acc[t]);
}

QSF_WALK_SCALAR void super_any_scalar(qsf_form form, float *y, size_t ldy, const uint8_t *w,
                                      const qsf_act *x, size_t tiles, size_t blocks)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, qsf_form_block(form));
    for (size_t m = 0; m < x->n; m += TOKENS_SCALAR)
        for (size_t t = 0; t < tiles; t++)
            super_row_scalar(y + m * ldy + 16 * t, ldy, form, w + t * row_bytes, x, m,
                             QSF_MIN(x->n - m, (size_t)TOKENS_SCALAR), blocks);
}

#define FORM_SCALAR(F)                                                                                      \
    static void matmul_##F##_scalar(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                    size_t blocks,                                                          \
                                    uint32_t block)                                                         \
    { (void)block; super_any_scalar(QSF_F_##F, y, ldy, w, x, tiles, blocks); }                              \
    static void matvec_##F##_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                    size_t blocks, uint32_t block)                                          \
    { matmul_##F##_scalar(y, 16 * tiles, w, x, tiles, blocks, block); }
QSF_EACH_SUPER_FORM(FORM_SCALAR)
FORM_SCALAR(NV4)
#undef FORM_SCALAR

void qsf_super_scalar(qsf_kernels *k)
{
#define FORM_SCALAR(F) k->matvec[QSF_F_##F] = matvec_##F##_scalar; k->matmul[QSF_F_##F] = matmul_##F##_scalar;
    QSF_EACH_SUPER_FORM(FORM_SCALAR)
    FORM_SCALAR(NV4)
#undef FORM_SCALAR
}
