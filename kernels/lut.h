/* Multiplies 2-bit weights by one row of activations with sums from lookup tables, as an
 * alternative to the usual kernels' products.
 * SPDX-License-Identifier: MIT
 *
 * Four bits of a row's codes, two columns, are the index into a table of 16 sums, and a byte
 * shuffle does this lookup for 16 rows.  For that, tiles of TERNARY2 and QK256 are transposed in
 * memory: vector v, of 16 bytes, holds columns 4v to 4v + 3, byte r of it row r's, with the first
 * in the lowest bits.  64 bytes hold the same 16 columns of 16 rows before and after.
 *
 * Sums are exact integers, and are converted to floats in the order of the sets' products: both
 * methods give the same bits. */
#ifndef QSF_LUT_H
#define QSF_LUT_H

#include "sets.h"

enum {
    QSF_LUT_COLS = 512,         /* columns whose tables are made at once: 8 KB */
    QSF_LUT_TILE = 1024
};

/* Tiles, `bytes` of them, to be looked up; and back.  to may be from. */
void qsf_lut_turn(uint8_t *to, const uint8_t *from, size_t bytes);
void qsf_lut_turn_back(uint8_t *to, const uint8_t *from, size_t bytes);

/* What the four codes stand for. */
QSF_TEMPLATE int qsf_lut_value(bool four, int code) { return four && code < 2 ? code - 2 : code - 1; }

void qsf_lut_scalar(qsf_kernels *k);
void qsf_lut_avx2(qsf_kernels *k);
void qsf_lut_v128(qsf_kernels *k);

/* A set's function: n of the `blocks` blocks of all tiles, from block `at` on, added to y if `at`
 * is not 0. */
typedef void qsf_lut_part(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t at, size_t n,
                          size_t blocks, bool four);
QSF_TEMPLATE void qsf_lut_parts(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                                bool four, qsf_lut_part *part)
{
    const size_t step = QSF_LUT_COLS / 256;
    if (!blocks) memset(y, 0, tiles * 16 * sizeof *y);
    for (size_t b = 0; b < blocks; b += step)
        part(y, w, x, tiles, b, QSF_MIN(step, blocks - b), blocks, four);
}

#endif
