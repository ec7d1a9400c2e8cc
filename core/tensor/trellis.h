/* Trellis types: a weight's bits choose one level out of twice as many, which half depends on the
 * weights before it.
 * SPDX-License-Identifier: MIT
 *
 * A code of k bits is m | u << (k-1).  Along a row, in the order of steps, a weight is
 * scale * level[4 m[t] + 2 (u[t] ^ u[t-1] ^ u[t-3]) + u[t-2]]; before the row's first step u is 0.
 * Step 8b + f of 32 columns is column 4f + b (b < 4, f < 8).  A scale belongs to 64 columns.
 * Tiles only (packing 1): docs/format.md draws them. */
#ifndef QSF_TRELLIS_H
#define QSF_TRELLIS_H

#include "tensor/types.h"

enum { QSF_TRELLIS_BLOCK = 64, QSF_TRELLIS_STATES = 8 };

/* [k - 2]: the first 2^(k+1) are the levels, ascending; they repeat, so that an index into all 64
 * may have anything in its upper bits. */
extern const int8_t qsf_trellis_levels[4][64];

/* Bits of a code; 0: the type is none of these. */
static inline unsigned qsf_trellis_bits(uint32_t type)
{
    return type >= QSF_T_TRELLIS2 && type <= QSF_T_TRELLIS5 ? 2 + (type - QSF_T_TRELLIS2) : 0;
}

/* A scale's byte: 0 is 0, else (8 + (e & 7)) / 8 * 2^((e >> 3) - 27). */
static inline float qsf_trellis_scale(uint8_t e) { return e ? qsf_f32_from_bits((e + 800u) << 20) : 0; }
/* The byte nearest to s >= 0: 0 only below half of the least scale, 255 from the largest on. */
uint8_t qsf_trellis_scale_near(float s);

/* The column that step t of a row is, and the other way round. */
static inline uint32_t qsf_trellis_column(uint32_t t) { return (t & ~31u) + 4 * (t & 7) + (t >> 3 & 3); }

/* 64 columns as floats.  *last: the u of the three steps before, the latest lowest;
 * becomes those of this block's. */
void qsf_trellis_values(unsigned k, uint8_t scale, const uint8_t codes[64], uint32_t *last, float out[64]);

/* Row r of a tile row: `blocks` tiles one after another, which were all zeros before.
 * scale[blocks], codes[64 * blocks] in the order of columns. */
void qsf_trellis_put_row(void *tiles, unsigned k, uint32_t blocks, uint32_t r, const uint8_t *scale,
                         const uint8_t *codes);
void qsf_trellis_get_row(const void *tiles, unsigned k, uint32_t blocks, uint32_t r, uint8_t *scale,
                         uint8_t *codes);

/* As qsf_dequant_rows. */
void qsf_trellis_rows(const qsf_tensor *t, uint32_t row, uint32_t n, float *out);

/* Finds the scales and codes with the least sum of importance[cols] (NULL: 1) times squared error;
 * padding columns count for nothing.  scale[ceil(cols / 64)], codes[64 * ceil(cols / 64)]. */
void qsf_trellis_quantize_row(unsigned k, const float *w, uint32_t cols, const float *importance,
                              uint8_t *scale, uint8_t *codes);

#endif
