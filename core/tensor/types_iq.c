/* GGUF's IQ2, IQ3 and IQ1 types as floats: super-blocks of 256 whose columns are found, eight or
 * four at once, in codebooks.
 * SPDX-License-Identifier: MIT */
#include "tensor/codebooks.h"
#include "tensor/types_iq.h"

static float iq_half(const uint8_t *p) { return qsf_f16_to_f32(qsf_le16(p)); }

/* ---- IQ2: entries of eight columns, signs apart ---- */

static void iq2_columns(uint32_t entry, uint32_t signs, float d, float *restrict out)
{
    for (int i = 0; i < 8; i++) {
        const float v = d * (float)qsf_iq2[entry >> 2 * i & 3];
        out[i] = signs >> i & 1 ? -v : v;
    }
}

/* Scales of 4 bits count from a half in quarters of d. */
static float iq2_scale(float d, int code) { return d * (0.5f + (float)code) * 0.25f; }

/* fp16 d; for 32 columns four indices and 32 bits: four times seven signs, the scale on top */
static void dequant_iq2_xxs(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 66)
        for (int k = 0; k < 8; k++) {
            const uint8_t *q = p + 2 + 8 * k;
            const uint32_t word = qsf_le32(q + 4);
            const float d = iq2_scale(iq_half(p), (int)(word >> 28));
            for (int i = 0; i < 4; i++, out += 8)
                iq2_columns(qsf_iq2_xxs_grid[q[i]], qsf_iq_signs(word >> 7 * i & 127), d, out);
        }
}

/* fp16 d; u16[32]: an index of 9 bits, seven signs; nibbles: scales of 16 columns */
static void dequant_iq2_xs(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 74)
        for (int k = 0; k < 32; k++, out += 8) {
            const uint32_t word = qsf_le16(p + 2 + 2 * k);
            const float d = iq2_scale(iq_half(p), p[66 + k / 4] >> 4 * (k / 2 % 2) & 15);
            iq2_columns(qsf_iq2_xs_grid[word & 511], qsf_iq_signs(word >> 9), d, out);
        }
}

/* fp16 d; low[32] of the indices; signs[32]; high[8]: pair k % 4 of byte k / 4 is bits 8 and 9 of
 * index k; nibbles: scales of 16 columns */
static void dequant_iq2_s(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 82)
        for (int k = 0; k < 32; k++, out += 8) {
            const uint32_t index = p[2 + k] | (p[66 + k / 4] >> 2 * (k % 4) & 3u) << 8;
            const float d = iq2_scale(iq_half(p), p[74 + k / 4] >> 4 * (k / 2 % 2) & 15);
            iq2_columns(qsf_iq2_s_grid[index], p[34 + k], d, out);
        }
}

/* ---- IQ3: entries of four columns ---- */

static void iq3_columns(uint32_t entry, const int8_t *magnitude, uint32_t signs, float d, float *restrict out)
{
    for (int i = 0; i < 4; i++) {
        const float v = d * (float)magnitude[entry >> 4 * i & 7];
        out[i] = signs >> i & 1 ? -v : v;
    }
}

/* fp16 d; indices[64]; for 32 columns 32 bits as in IQ2_XXS */
static void dequant_iq3_xxs(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 98)
        for (int k = 0; k < 32; k++, out += 8) {
            const uint32_t word = qsf_le32(p + 66 + 4 * (k / 4));
            const uint32_t signs = qsf_iq_signs(word >> 7 * (k % 4) & 127);
            const float d = iq_half(p) * (0.5f + (float)(word >> 28)) * 0.5f;
            iq3_columns(qsf_iq3_xxs_grid[p[2 + 2 * k]], qsf_iq3_xxs, signs, d, out);
            iq3_columns(qsf_iq3_xxs_grid[p[3 + 2 * k]], qsf_iq3_xxs, signs >> 4, d, out + 4);
        }
}

/* fp16 d; low[64] of the indices; high[8]: bit k % 8 of byte k / 8 is bit 8 of index k; signs[32];
 * nibbles: scales of 32 columns */
static void dequant_iq3_s(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    static const int8_t magnitude[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    for (; blocks--; p += 110)
        for (int k = 0; k < 64; k++, out += 4) {
            const uint32_t index = p[2 + k] | (p[66 + k / 8] >> k % 8 & 1u) << 8;
            const uint32_t signs = p[74 + k / 2] >> 4 * (k % 2);
            const float d = iq_half(p) * (float)(1 + 2 * (p[106 + k / 16] >> 4 * (k / 8 % 2) & 15));
            iq3_columns(qsf_iq3_s_grid[index], magnitude, signs, d, out);
        }
}

/* ---- IQ1: entries of eight columns of -1, 0, 1, all moved by an eighth up or down ---- */

static void iq1_columns(uint32_t entry, bool down, float d, float *restrict out)
{
    const float delta = down ? -0.125f : 0.125f;
    for (int i = 0; i < 8; i++) out[i] = d * ((float)((int)(entry >> 2 * i & 3) - 1) + delta);
}

/* fp16 d; low[32] of the indices; for 32 columns 16 bits: four times three high bits, the scale,
 * whether down */
static void dequant_iq1_s(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 50)
        for (int k = 0; k < 32; k++, out += 8) {
            const uint32_t word = qsf_le16(p + 34 + 2 * (k / 4));
            const uint32_t index = p[2 + k] | (word >> 3 * (k % 4) & 7) << 8;
            const float d = iq_half(p) * (float)(2 * (word >> 12 & 7) + 1);
            iq1_columns(qsf_iq1_grid[index], word >> 15, d, out);
        }
}

/* low[32] of the indices; nibbles[16]: three high bits, whether down; u16[4]: four scales of 16
 * columns with 3 bits, and on top a nibble of the fp16 d, the lowest first */
static void dequant_iq1_m(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 56) {
        uint32_t half = 0;
        for (int i = 0; i < 4; i++) half |= (uint32_t)qsf_le16(p + 48 + 2 * i) >> 12 << 4 * i;
        const float d = qsf_f16_to_f32((uint16_t)half);
        for (int k = 0; k < 32; k++, out += 8) {
            const uint32_t nibble = p[32 + k / 2] >> 4 * (k % 2) & 15u;
            const uint32_t scale = qsf_le16(p + 48 + 2 * (k / 8)) >> 3 * (k / 2 % 4) & 7u;
            iq1_columns(qsf_iq1_grid[p[k] | (nibble & 7) << 8], nibble >> 3, d * (float)(2 * scale + 1), out);
        }
    }
}

void qsf_dequant_iq_row(uint32_t type, const void *row, size_t blocks, float *out)
{
    switch (type) {
    case QSF_T_IQ2_XXS: dequant_iq2_xxs(row, blocks, out); break;
    case QSF_T_IQ2_XS:  dequant_iq2_xs(row, blocks, out); break;
    case QSF_T_IQ2_S:   dequant_iq2_s(row, blocks, out); break;
    case QSF_T_IQ3_XXS: dequant_iq3_xxs(row, blocks, out); break;
    case QSF_T_IQ3_S:   dequant_iq3_s(row, blocks, out); break;
    case QSF_T_IQ1_S:   dequant_iq1_s(row, blocks, out); break;
    case QSF_T_IQ1_M:   dequant_iq1_m(row, blocks, out); break;
    default:            assert(!"a type that qsf_type_get does not know");
    }
}
