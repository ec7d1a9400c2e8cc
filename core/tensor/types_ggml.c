/* GGUF's block types as floats.  Each function takes the blocks of a row one after another; the
 * loops have constant lengths and no branches, so that compilers turn them into vectors.
 * SPDX-License-Identifier: MIT */
#include "tensor/types_ggml.h"
#include "tensor/types_iq.h"

static float ggml_half(const uint8_t *p) { return qsf_f16_to_f32(qsf_le16(p)); }

/* ---- blocks of 32 ---- */

/* fp16 d; 16 bytes: low nibble j is value j, high nibble value j + 16 */
static void dequant_q4_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 18, out += 32) {
        const float d = ggml_half(p);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((p[2 + j] & 15) - 8) * d;
            out[j + 16] = (float)((p[2 + j] >> 4) - 8) * d;
        }
    }
}

/* fp16 d, m; nibbles as in Q4_0 */
static void dequant_q4_1(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 20, out += 32) {
        const float d = ggml_half(p), m = ggml_half(p + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)(p[4 + j] & 15) * d + m;
            out[j + 16] = (float)(p[4 + j] >> 4) * d + m;
        }
    }
}

/* Codes of Q5_0 and Q5_1: nibbles as in Q4_0, the fifth bits in 32 bits before them. */
static inline void codes_q5(const uint8_t *restrict p, int32_t *restrict code)
{
    const uint32_t high = qsf_le32(p);
    for (int j = 0; j < 16; j++) {
        code[j] = (int32_t)((p[4 + j] & 15u) | (high >> j & 1) << 4);
        code[j + 16] = (int32_t)((uint32_t)(p[4 + j] >> 4) | (high >> (j + 16) & 1) << 4);
    }
}

static void dequant_q5_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    int32_t code[32];
    for (; blocks--; p += 22, out += 32) {
        const float d = ggml_half(p);
        codes_q5(p + 2, code);
        for (int j = 0; j < 32; j++) out[j] = (float)(code[j] - 16) * d;
    }
}

static void dequant_q5_1(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    int32_t code[32];
    for (; blocks--; p += 24, out += 32) {
        const float d = ggml_half(p), m = ggml_half(p + 2);
        codes_q5(p + 4, code);
        for (int j = 0; j < 32; j++) out[j] = (float)code[j] * d + m;
    }
}

/* fp16 d; int8[32] */
static void dequant_q8_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 34, out += 32) {
        const float d = ggml_half(p);
        for (int j = 0; j < 32; j++) out[j] = (float)(int8_t)p[2 + j] * d;
    }
}

/* Nibbles are places in this table of IQ4_NL and IQ4_XS. */
const int8_t qsf_iq4[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static inline void dequant_iq4(const uint8_t *restrict p, float d, float *restrict out)
{
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)qsf_iq4[p[j] & 15];
        out[j + 16] = d * (float)qsf_iq4[p[j] >> 4];
    }
}

static void dequant_iq4_nl(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 18, out += 32) dequant_iq4(p + 2, ggml_half(p), out);
}

/* ---- super-blocks of 256 ---- */

/* scales[16]: low nibble scale, high nibble minimum of 16 values; codes[64]: 2 bits; fp16 d, dmin.
 * Value 128h + 32s + i has bits 2s of byte 32h + i. */
static void dequant_q2_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 84) {
        const float d = ggml_half(p + 80), dmin = ggml_half(p + 82);
        for (int k = 0; k < 16; k++, out += 16) {
            const uint8_t *q = p + 16 + 32 * (k / 8) + 16 * (k % 2);
            const int shift = 2 * (k / 2 % 4);
            const float dl = d * (float)(p[k] & 15), ml = dmin * (float)(p[k] >> 4);
            for (int i = 0; i < 16; i++) out[i] = dl * (float)(q[i] >> shift & 3) - ml;
        }
    }
}

/* high[32]: bit n of byte i is the third bit of value 32n + i; codes[64] as in Q2_K; 16 scales of 6
 * bits: low nibbles in 8 bytes, high pairs in 4; fp16 d. */
static void dequant_q3_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 110) {
        const float d = ggml_half(p + 108);
        const uint8_t *sc = p + 96;
        for (int k = 0; k < 16; k++, out += 16) {
            const uint8_t *q = p + 32 + 32 * (k / 8) + 16 * (k % 2), *high = p + 16 * (k % 2);
            const int shift = 2 * (k / 2 % 4), bit = k / 2;
            const int low = k < 8 ? sc[k] & 15 : sc[k - 8] >> 4;
            const float dl = d * (float)((low | (sc[8 + k % 4] >> 2 * (k / 4) & 3) << 4) - 32);
            for (int i = 0; i < 16; i++)
                out[i] = dl * (float)((q[i] >> shift & 3) + 4 * (high[i] >> bit & 1) - 4);
        }
    }
}

/* Scale and minimum j of the eight 6-bit pairs in 12 bytes (Q4_K, Q5_K). */
static inline void ggml_scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* fp16 d, dmin; scales[12]; nibbles[128]: value 64h + i low,
 * 64h + 32 + i high nibble of byte 32h + i */
static void dequant_q4_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 144) {
        const float d = ggml_half(p), dmin = ggml_half(p + 2);
        for (int h = 0; h < 4; h++, out += 64) {
            const uint8_t *q = p + 16 + 32 * h;
            int s0, m0, s1, m1;
            ggml_scale_min(p + 4, 2 * h, &s0, &m0);
            ggml_scale_min(p + 4, 2 * h + 1, &s1, &m1);
            const float d0 = d * (float)s0, n0 = dmin * (float)m0, d1 = d * (float)s1, n1 = dmin * (float)m1;
            for (int i = 0; i < 32; i++) {
                out[i] = d0 * (float)(q[i] & 15) - n0;
                out[i + 32] = d1 * (float)(q[i] >> 4) - n1;
            }
        }
    }
}

/* fp16 d, dmin; scales[12]; high[32]: bit n of byte i is the fifth bit of value 32n + i;
 * nibbles as in Q4_K */
static void dequant_q5_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 176) {
        const float d = ggml_half(p), dmin = ggml_half(p + 2);
        const uint8_t *high = p + 16;
        for (int h = 0; h < 4; h++, out += 64) {
            const uint8_t *q = p + 48 + 32 * h;
            int s0, m0, s1, m1;
            ggml_scale_min(p + 4, 2 * h, &s0, &m0);
            ggml_scale_min(p + 4, 2 * h + 1, &s1, &m1);
            const float d0 = d * (float)s0, n0 = dmin * (float)m0, d1 = d * (float)s1, n1 = dmin * (float)m1;
            for (int i = 0; i < 32; i++) {
                out[i] = d0 * (float)((q[i] & 15) + 16 * (high[i] >> 2 * h & 1)) - n0;
                out[i + 32] = d1 * (float)((q[i] >> 4) + 16 * (high[i] >> (2 * h + 1) & 1)) - n1;
            }
        }
    }
}

/* nibbles[128], high pairs[64], int8 scales[16], fp16 d.  Value 128h + 32s + i: nibble s/2 of byte
 * 64h + 32(s%2) + i, pair s of byte 32h + i. */
static void dequant_q6_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 210) {
        const float d = ggml_half(p + 208);
        for (int k = 0; k < 16; k++, out += 16) {
            const int h = k / 8, s = k / 2 % 4, half = 16 * (k % 2);
            const uint8_t *q = p + 64 * h + 32 * (s % 2) + half, *high = p + 128 + 32 * h + half;
            const int low = s / 2 * 4, pair = 2 * s;
            const float dl = d * (float)(int8_t)p[192 + k];
            for (int i = 0; i < 16; i++)
                out[i] = dl * (float)((q[i] >> low & 15) + 16 * (high[i] >> pair & 3) - 32);
        }
    }
}

/* fp16 d; 16 bits and 4 bytes of scales; eight blocks of IQ4_NL's nibbles */
static void dequant_iq4_xs(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 136) {
        const float d = ggml_half(p);
        const uint32_t high = qsf_le16(p + 2);
        for (int k = 0; k < 8; k++, out += 32) {
            const int scale = (p[4 + k / 2] >> 4 * (k % 2) & 15) | (int)(high >> 2 * k & 3) << 4;
            dequant_iq4(p + 8 + 16 * k, d * (float)(scale - 32), out);
        }
    }
}

/* float d; int8[256]; sums of 16 codes, which are of no use here */
static void dequant_q8_k(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 292, out += 256) {
        const float d = qsf_lef32(p);
        for (int i = 0; i < 256; i++) out[i] = d * (float)(int8_t)p[4 + i];
    }
}

/* ---- two, three and four values ---- */

/* fp16 d; 128 bits: -d or d */
static void dequant_q1_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 18, out += 128) {
        const float d = ggml_half(p);
        for (int i = 0; i < 128; i++) out[i] = p[2 + i / 8] >> i % 8 & 1 ? d : -d;
    }
}

/* fp16 d; 64 codes of 2 bits in order: -1, 0, 1, 2 */
static void dequant_q2_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 18, out += 64) {
        const float d = ggml_half(p);
        for (int i = 0; i < 64; i++) out[i] = (float)((p[2 + i / 4] >> 2 * (i % 4) & 3) - 1) * d;
    }
}

/* Bytes of TQ1_0 are fractions of 256 whose digits to the base 3 are the values, the first at the
 * top: digit n of byte i is value n * bytes + i. */
static inline float *dequant_tq1(const uint8_t *restrict p, int bytes, int digits, float d,
                                 float *restrict out)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };
    for (int n = 0; n < digits; n++)
        for (int i = 0; i < bytes; i++)
            *out++ = (float)(((uint8_t)(p[i] * power[n]) * 3 >> 8) - 1) * d;
    return out;
}

/* 32 bytes and 16 of five values, 4 of four; fp16 d */
static void dequant_tq1_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 54) {
        const float d = ggml_half(p + 52);
        out = dequant_tq1(p, 32, 5, d, out);
        out = dequant_tq1(p + 32, 16, 5, d, out);
        out = dequant_tq1(p + 48, 4, 4, d, out);
    }
}

/* codes[64] as in Q2_K: -1, 0, 1, and 2 of code 3; fp16 d */
static void dequant_tq2_0(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 66) {
        const float d = ggml_half(p + 64);
        for (int k = 0; k < 8; k++, out += 32)
            for (int i = 0; i < 32; i++)
                out[i] = (float)((p[32 * (k / 4) + i] >> 2 * (k % 4) & 3) - 1) * d;
    }
}

/* ---- four-bit floats: codes are places in a table of the doubled values ---- */

const int8_t qsf_fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* 2^(e - 128): halves, as the table is doubled. */
static float mxfp4_scale(uint32_t e) { return qsf_f32_from_bits(e < 2 ? 0x200000u << e : (e - 1) << 23); }

/* Half of an unsigned float of 4 exponent and 3 mantissa bits; the largest number of seven bits
 * means none. */
static float nvfp4_scale(uint32_t e)
{
    const uint32_t exponent = e >> 3 & 15, mantissa = e & 7;
    if (e == 0x7f) return 0;
    if (!exponent) return (float)mantissa * 0x1p-10f;
    return qsf_f32_from_bits((exponent + 119) << 23 | mantissa << 20);
}

/* exponent; nibbles as in Q4_0 */
static void dequant_mxfp4(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 17, out += 32) {
        const float d = mxfp4_scale(p[0]);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)qsf_fp4[p[1 + j] & 15] * d;
            out[j + 16] = (float)qsf_fp4[p[1 + j] >> 4] * d;
        }
    }
}

/* four scales; for 16 columns 8 bytes: low nibble j is value j, high nibble value j + 8 */
static void dequant_nvfp4(const uint8_t *restrict p, size_t blocks, float *restrict out)
{
    for (; blocks--; p += 36)
        for (int k = 0; k < 4; k++, out += 16) {
            const float d = nvfp4_scale(p[k]);
            for (int j = 0; j < 8; j++) {
                out[j] = (float)qsf_fp4[p[4 + 8 * k + j] & 15] * d;
                out[j + 8] = (float)qsf_fp4[p[4 + 8 * k + j] >> 4] * d;
            }
        }
}

void qsf_dequant_ggml_row(uint32_t type, const void *row, uint32_t cols, float *out)
{
    const size_t n = cols >> qsf_type_get(type)->own_block;
    switch (type) {
    case QSF_T_Q4_0:   dequant_q4_0(row, n, out); break;
    case QSF_T_Q4_1:   dequant_q4_1(row, n, out); break;
    case QSF_T_Q5_0:   dequant_q5_0(row, n, out); break;
    case QSF_T_Q5_1:   dequant_q5_1(row, n, out); break;
    case QSF_T_Q8_0:   dequant_q8_0(row, n, out); break;
    case QSF_T_Q2_K:   dequant_q2_k(row, n, out); break;
    case QSF_T_Q3_K:   dequant_q3_k(row, n, out); break;
    case QSF_T_Q4_K:   dequant_q4_k(row, n, out); break;
    case QSF_T_Q5_K:   dequant_q5_k(row, n, out); break;
    case QSF_T_Q6_K:   dequant_q6_k(row, n, out); break;
    case QSF_T_Q8_K:   dequant_q8_k(row, n, out); break;
    case QSF_T_IQ4_NL: dequant_iq4_nl(row, n, out); break;
    case QSF_T_IQ4_XS: dequant_iq4_xs(row, n, out); break;
    case QSF_T_Q1_0:   dequant_q1_0(row, n, out); break;
    case QSF_T_Q2_0:   dequant_q2_0(row, n, out); break;
    case QSF_T_TQ1_0:  dequant_tq1_0(row, n, out); break;
    case QSF_T_TQ2_0:  dequant_tq2_0(row, n, out); break;
    case QSF_T_MXFP4:  dequant_mxfp4(row, n, out); break;
    case QSF_T_NVFP4:  dequant_nvfp4(row, n, out); break;
    default:           qsf_dequant_iq_row(type, row, n, out);
    }
}
