/* Tiles of TERNARY5, five digits of 3 in a byte: brought to tiles of TERNARY2 a few blocks at a
 * time, which a set's own product then multiplies.
 * SPDX-License-Identifier: MIT
 *
 * A tile of 256 columns is 13 vectors; byte 4 * r + b of a vector belongs to row r.  Digit k of
 * vector v is column 32k + 4v + b for v < 8, 160 + 16k + 4 (v - 8) + b for v < 12, and of the last
 * vector, which has four digits, 240 + 4k + b. */
#ifndef QSF_FIVE_H
#define QSF_FIVE_H

#include "sets.h"
#include "tensor/types.h"

enum {
    QSF_FIVE_TILE = QSF_FIVE_BYTES * QSF_TILE_ROWS,
    QSF_FIVE_TWO = 1024,        /* a tile of TERNARY2 */
    QSF_FIVE_HEAD = 32,         /* of TQ1 and of a ternary tile */
    QSF_FIVE_BLOCKS = 16        /* are added up by themselves, in every way through a set */
};

/* One tile of TERNARY5 to one of TERNARY2. */
typedef void qsf_five_unpack(uint8_t *two, const uint8_t *five);
/* k->matmul of TERNARY2. */
typedef void qsf_five_multiply(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                               size_t blocks, uint32_t block);
/* As k->matmul. */
void qsf_five_matmul(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                     qsf_five_unpack *unpack, qsf_five_multiply *multiply);

/* TQ1, the same with scales; multiply: of ternary tiles. */
void qsf_tq1_matmul(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,
                    qsf_five_unpack *unpack, qsf_five_multiply *multiply);

/* Tiles without scales times many rows. */
typedef void qsf_bare_multiply(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                               size_t blocks);
qsf_bare_multiply qsf_bare_T2_avx2, qsf_bare_QK256_avx2;

qsf_five_multiply qsf_matmul_T2_avx2, qsf_matmul_T2_avx512, qsf_matmul_TQ1_avx2;
void qsf_five_fill_avx2(qsf_kernels *k);
void qsf_five_fill_avx512(qsf_kernels *k);

/* The entries of a set that has a five_SET and a matmul_T2_SET. */
#define QSF_FIVE_FORM(SET)                                                                                   \
    static void matmul_T5_##SET(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,      \
                                size_t blocks, uint32_t block)                                               \
    {                                                                                                        \
        (void)block;                                                                                         \
        qsf_five_matmul(y, ldy, w, x, tiles, blocks, five_##SET, matmul_T2_##SET);                           \
    }                                                                                                        \
    static void matvec_T5_##SET(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,   \
                                uint32_t block)                                                              \
    { matmul_T5_##SET(y, 16 * tiles, w, x, tiles, blocks, block); }
/* The same of TQ1, with a matmul_TERNARY_SET. */
#define QSF_TQ1_FORM(SET)                                                                                    \
    static void matmul_TQ1_##SET(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,     \
                                 size_t blocks, uint32_t block)                                              \
    {                                                                                                        \
        (void)block;                                                                                         \
        qsf_tq1_matmul(y, ldy, w, x, tiles, blocks, five_##SET, matmul_TERNARY_##SET);                       \
    }                                                                                                        \
    static void matvec_TQ1_##SET(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks,  \
                                 uint32_t block)                                                             \
    { matmul_TQ1_##SET(y, 16 * tiles, w, x, tiles, blocks, block); }

#endif
