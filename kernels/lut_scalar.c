/* Turning tiles for look-ups, and the look-ups in plain C.
 * SPDX-License-Identifier: MIT */
#include "lut.h"

/* ---- turning ---- */

#if defined(__has_builtin) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#  if __has_builtin(__builtin_shufflevector)
#    define LUT_VECTORS 1
#  endif
#endif

#if defined(LUT_VECTORS)
typedef uint32_t lut_words __attribute__((vector_size(16)));
typedef uint8_t  lut_bytes __attribute__((vector_size(16)));

/* Field f of byte b becomes field b of byte f, in 32 bits of each row. */
static lut_words lut_fields(lut_words w)
{
    lut_words t = (w >> 6 ^ w) & 0x00cc00cc;
    w ^= t ^ t << 6;
    t = (w >> 12 ^ w) & 0x0000f0f0;
    return w ^ t ^ t << 12;
}
#define LUT_ZIP_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LUT_ZIP_HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
/* Four rows of 16 bytes, as columns: bytes of every fourth place come together; twice is two of the
 * four steps that come back to the beginning. */
static void lut_zip(lut_bytes v[4])
{
    const lut_bytes a = LUT_ZIP_LOW(v[0], v[2]), b = LUT_ZIP_HIGH(v[0], v[2]), c = LUT_ZIP_LOW(v[1], v[3]),
        d = LUT_ZIP_HIGH(v[1], v[3]);
    v[0] = LUT_ZIP_LOW(a, c);
    v[1] = LUT_ZIP_HIGH(a, c);
    v[2] = LUT_ZIP_LOW(b, d);
    v[3] = LUT_ZIP_HIGH(b, d);
}

void qsf_lut_turn(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        lut_words w[4];
        lut_bytes v[4];
        memcpy(w, from + at, sizeof w);
        for (int i = 0; i < 4; i++) w[i] = lut_fields(w[i]);
        memcpy(v, w, sizeof v);
        lut_zip(v);         /* byte 4r + f is number 16 (r % 4) + 4f + r / 4, then 16f + r */
        lut_zip(v);
        memcpy(to + at, v, sizeof v);
    }
}

void qsf_lut_turn_back(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        lut_words w[4];
        lut_bytes v[4];
        memcpy(v, from + at, sizeof v);
        lut_zip(v);
        memcpy(w, v, sizeof w);
        for (int i = 0; i < 4; i++) w[i] = lut_fields(w[i]);
        memcpy(to + at, w, sizeof w);
    }
}
#undef LUT_ZIP_LOW
#undef LUT_ZIP_HIGH
#undef LUT_VECTORS
#else
static uint32_t lut_fields(uint32_t w)
{
    uint32_t t = (w >> 6 ^ w) & 0x00cc00cc;
    w ^= t ^ t << 6;
    t = (w >> 12 ^ w) & 0x0000f0f0;
    return w ^ t ^ t << 12;
}

void qsf_lut_turn(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        uint8_t v[64];
        for (int r = 0; r < 16; r++) {
            const uint32_t w = lut_fields(qsf_le32(from + at + 4 * r));
            for (int f = 0; f < 4; f++) v[16 * f + r] = (uint8_t)(w >> 8 * f);
        }
        memcpy(to + at, v, sizeof v);
    }
}

void qsf_lut_turn_back(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        uint8_t v[64];
        memcpy(v, from + at, sizeof v);
        for (int r = 0; r < 16; r++)
            qsf_put32(to + at + 4 * r, lut_fields(v[r] | (uint32_t)v[16 + r] << 8 | (uint32_t)v[32 + r] << 16
                                                  | (uint32_t)v[48 + r] << 24));
    }
}
#endif

/* ---- look-ups ---- */

static void lut_part_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t at, size_t n,
                            size_t blocks, bool four)
{
    int16_t table[QSF_LUT_COLS / 2][16];
    const int8_t *q = x->q + 256 * at;
    const float *d = x->d + 4 * at;
    for (size_t i = 0; i < 128 * n; i++)
        for (int j = 0; j < 16; j++)
            table[i][j] = (int16_t)(qsf_lut_value(four, j & 3) * q[2 * i]
                                    + qsf_lut_value(four, j >> 2) * q[2 * i + 1]);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        const uint8_t *from = w + (t * blocks + at) * QSF_LUT_TILE;
        for (int r = 0; r < 16; r++) {
            float acc = at ? y[r] : 0;
            for (size_t p = 0; p < 4 * n; p++) {
                int32_t sum = 0;
                for (size_t v = 16 * p; v < 16 * (p + 1); v++) {
                    const uint8_t four_columns = from[16 * v + (size_t)r];
                    sum += table[2 * v][four_columns & 15] + table[2 * v + 1][four_columns >> 4];
                }
                acc += d[p] * (float)sum;
            }
            y[r] = acc;
        }
    }
}

static void matvec_lut_scalar(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                              bool four)
{
    qsf_lut_parts(y, w, x, tiles, blocks, four, lut_part_scalar);
}

void qsf_lut_scalar(qsf_kernels *k) { k->matvec_lut = matvec_lut_scalar; }
