/* What tiles of GGUF's small types mean, by the words of kernels.h and nothing else.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_SMALL_FORMS_H
#define KERNELS_SMALL_FORMS_H

#include "trellis_forms.h"

#include <math.h>

static bool form_small(int form) { return form >= QSF_F_TQ1 && form <= QSF_F_8K; }
/* Tables: scales of a sign, 4 bits of exponent, 3 of mantissa. */
static bool form_levels(int form) { return form == QSF_F_TB4 || form == QSF_F_TB3; }
static double levels_scale(int e)
{
    const int exponent = e >> 3 & 15;
    return (e & 128 ? -1 : 1) * (exponent ? ldexp(8 + e % 8, exponent - 15 - 3) : ldexp(e % 8, -14 - 3));
}
/* Forms without fp16 scales at the head. */
static bool form_own_scales(int form)
{
    return form == QSF_F_MX4 || form == QSF_F_NV4 || form == QSF_F_8K || form_trellis(form)
        || form_levels(form);
}
/* The only block of a form; 0: any. */
static uint32_t form_block(int form)
{
    switch (form) {
    case QSF_F_5Z: case QSF_F_IQ4: case QSF_F_MX4: return 32;
    case QSF_F_NV4: case QSF_F_TR2: case QSF_F_TR3: case QSF_F_TR4: case QSF_F_TR5: return 64;
    case QSF_F_Q1:  return 128;
    case QSF_F_2S: case QSF_F_TB4: case QSF_F_TB3: return 0;
    default: return form >= QSF_F_Q4K ? 256 : 0;
    }
}
static size_t small_head(int form)
{
    return form == QSF_F_MX4 ? 16 : form == QSF_F_NV4 ? 64 : form == QSF_F_8K ? 576 : 32;
}

/* What stands for row r, column c: the number that is multiplied with the scale. */
static int small_value(const uint8_t *tile, int form, int r, uint32_t c)
{
    static const int fp4[8] = { 0, 1, 2, 3, 4, 6, 8, 12 };
    const uint8_t *codes = tile + small_head(form) + 4 * r + c % 4;
    const uint32_t k = c % 32;
    switch (form) {
    case QSF_F_8K: return (int8_t)codes[512 * (c / 32) + 64 * (k / 4)];
    case QSF_F_Q1: return codes[64 * (c / 32)] >> k / 4 & 1 ? 1 : -1;
    case QSF_F_TQ1: {
        uint32_t vector, digit, rest;
        if (c < 160) vector = k / 4, digit = c / 32;
        else if (c < 240) vector = 8 + (c - 160) % 16 / 4, digit = (c - 160) / 16;
        else vector = 12, digit = (c - 240) / 4;
        for (rest = codes[64 * vector]; digit--;) rest = 3 * rest % 256;
        return (int)(3 * rest / 256) - 1;
    }
    default: {
        const int code = codes[256 * (c / 32) + 64 * (k / 8)] >> 4 * (k / 4 % 2) & 15;
        return code & 8 ? -fp4[code & 7] : fp4[code];
    }
    }
}

static double small_scale(const uint8_t *tile, int form, int r, uint32_t c)
{
    if (form == QSF_F_MX4) return ldexp(1, tile[r] - 128);
    if (form == QSF_F_8K)
        return (double)qsf_f32_from_bits(qsf_le16(tile + 2 * r)
                                         | (uint32_t)qsf_le16(tile + 32 + 2 * r) << 16);
    if (form != QSF_F_NV4) return qsf_f16_to_f32(qsf_le16(tile + 2 * r));
    const int e = tile[16 * (c / 16) + r], exponent = e >> 3 & 15;
    if (e == 0x7f) return 0;
    return exponent ? ldexp(8 + (e & 7), exponent - 7 - 3 - 1) : ldexp(e & 7, -10);
}

/* Scales of a tile that has scales of its own; unit: one. */
static void small_scales(table_test *t, uint8_t *tile, int form, bool unit)
{
    if (form_trellis(form)) { trellis_scales(t, tile, unit); return; }
    for (int i = 0; form_levels(form) && i < 16; i++)
        tile[i] = (uint8_t)(unit ? 15 << 3 : t->round == 1 ? 127 : t->round == 2 ? (rng_next(t) >> 32) % 8
                            : rng_next(t) >> 32);
    if (form_levels(form)) return;
    for (int i = 0; i < (form == QSF_F_8K ? 16 : (int)small_head(form)); i++) {
        const uint32_t r = (uint32_t)(rng_next(t) >> 32);
        if (form == QSF_F_MX4)      /* also the smallest ones, which are subnormal floats */
            tile[i] = (uint8_t)(unit ? 128 : t->round == 1 ? 230 : t->round == 2 ? r % 4 : 118 + r % 16);
        else if (form == QSF_F_NV4)
            tile[i] = (uint8_t)(unit ? 0x40 : t->round == 1 ? 0x7e : t->round == 2 ? r & 0x8f
                                : r % 8 ? r >> 8 : 0x7f);
        else {
            const uint32_t bits = qsf_f32_bits(unit ? 1 : t->round == 1 ? 1e30f : pick_f32(t, 0.1f));
            qsf_put16(tile + 2 * i, (uint16_t)bits);
            qsf_put16(tile + 32 + 2 * i, (uint16_t)(bits >> 16));
        }
    }
}

#endif
