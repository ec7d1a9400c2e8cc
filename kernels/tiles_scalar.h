/* Codes out of tiles in plain C, for the scalar products.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_SCALAR_H
#define QSF_TILES_SCALAR_H

#include "sets.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

enum { TOKENS_SCALAR = 8 };     /* rows of activations that share one unpacking of the weights */

/* Of the walks over tiles each form has its own, and small code one for all. */
#if defined(QSF_SMALL_CODE)
#  define QSF_WALK_SCALAR static QSF_NOINLINE
#else
#  define QSF_WALK_SCALAR QSF_TEMPLATE
#endif

/* One group to codes c[8][64]: byte 4*r + b of vector j is row r's column 4j + b. */
QSF_TEMPLATE void unpack_scalar(uint8_t c[8][64], const uint8_t *g, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (bits == 8) { memcpy(c, g, 512); return; }
    if (bits == 1) {
        for (int j = 0; j < 8; j++)
            for (int i = 0; i < 64; i++) c[j][i] = (uint8_t)((g[i] >> j & 1) << 1);
        return;
    }
    /* the plane of low bits: fields of `low` bits */
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    const int8_t *map = qsf_form_map(form);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 64; i++) {
            int v = g[64 * (j / fields) + i] >> low * (j % fields) & ((1 << low) - 1);
            if (bits == 3 || bits == 5) v |= (high[i] >> j & 1) << low;
            if (bits == 6) v |= (high[64 * (j / 4) + i] >> 2 * (j % 4) & 3) << 4;
            c[j][i] = (uint8_t)(map ? map[v] : v);
        }
}

/* Row r's scale (NV4: the k-th) in a tile's head. */
QSF_TEMPLATE float scale_scalar(qsf_form form, const uint8_t *w, int r, int k)
{
    if (qsf_form_bare(form)) return 1;
    if (form == QSF_F_MX4)      /* a half, also of the smallest floats */
        return qsf_f32_from_bits((uint32_t)(w[r] / 2 + 63) << 23)
            * qsf_f32_from_bits((uint32_t)(w[r] - w[r] / 2 + 63) << 23);
    if (form == QSF_F_NV4) {
        const uint32_t e = w[16 * k + r];
        return e == 0x7f ? 0 : qsf_f32_from_bits((e & 0x7f) << 20) * 0x1p119f;
    }
    if (form == QSF_F_8K)
        return qsf_f32_from_bits(qsf_le16(w + 2 * r) | (uint32_t)qsf_le16(w + 32 + 2 * r) << 16);
    if (qsf_form_levels(form)) return qsf_table_scale(w[r]);
    return qsf_f16_to_f32(qsf_le16(w + 2 * r));
}

/* sum[16] += codes . q[4 * vectors]; is_signed: codes are int8. */
QSF_TEMPLATE void dot_scalar(int32_t *sum, const uint8_t (*c)[64], int vectors, const int8_t *q,
                             bool is_signed)
{
    for (int j = 0; j < vectors; j++)
        for (int r = 0; r < 16; r++)
            for (int b = 0; b < 4; b++)
                sum[r] += (is_signed ? (int8_t)c[j][4 * r + b] : c[j][4 * r + b]) * q[4 * j + b];
}

#endif
