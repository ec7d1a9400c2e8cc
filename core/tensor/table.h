/* Table types: codes of 4 or 3 bits are places in a table of levels that lie closer where weights
 * are.
 * SPDX-License-Identifier: MIT
 *
 * A value is scale * level[code].  A scale takes one byte, the middle of an fp16 number: its sign,
 * the four low bits of its exponent and the three high ones of its mantissa.  Levels are not
 * symmetric, so that a scale's sign is worth its bit: it maps a block's longer side to theirs. */
#ifndef QSF_TABLE_H
#define QSF_TABLE_H

#include "tensor/quant_search.h"
#include "tensor/types.h"

/* Levels are at most 63 of either sign, so that with 64 added they are codes of 7 bits: two
 * products with activations of 127 fit 16 bits. */
enum { QSF_TABLE_OFFSET = 64 };
#define QSF_TABLE_MOST (63 * 1.875f)    /* the largest level times the largest scale */

/* [type - QSF_T_TABLE4]: levels with QSF_TABLE_OFFSET added, ascending; those of 3 bits repeat, for
 * a shuffle's 16 places.  tools/make_tables.py finds them. */
extern const int8_t qsf_table_levels[2][16];

static inline bool qsf_table_of(uint32_t type) { return type == QSF_T_TABLE4 || type == QSF_T_TABLE3; }
static inline int qsf_table_level(uint32_t type, uint32_t code)
{
    return qsf_table_levels[type - QSF_T_TABLE4][code] - QSF_TABLE_OFFSET;
}

static inline uint16_t qsf_table_half(uint8_t e) { return (uint16_t)((e & 0x80) << 8 | (e & 0x7f) << 7); }
static inline float qsf_table_scale(uint8_t e) { return qsf_f16_to_f32(qsf_table_half(e)); }
/* The byte of the scale nearest to s: 0 if s is too small, 127 or 255 if it is too large. */
uint8_t qsf_table_scale_near(float s);

/* As qsf_quant_search: the scale, one that a byte can say, and codes of the least sum of weight
 * times squared error; zero and lo are 0. */
qsf_quant_fit qsf_table_search(uint32_t type, const float *x, const float *w, size_t n, uint8_t *code);

#endif
