/* Tiles of the trellis forms brought to tiles of the 8-bit form a stretch at a time, which a set's
 * own product then multiplies.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TRELLIS_KERNELS_H
#define QSF_TRELLIS_KERNELS_H

#include "sets.h"
#include "tensor/trellis.h"

enum {
    QSF_TRELLIS_EIGHT = 32 + 16 * 64,   /* a tile of the 8-bit form, 64 columns */
    /* Blocks that are unpacked at once stay in the first cache, and are added up by themselves, in
     * every way through a set. */
    QSF_TRELLIS_STRETCH = 16,
    QSF_TRELLIS_OFFSET = 128            /* makes levels unsigned */
};

/* The pairs of low bits of four steps' places, 2 P + Q, as bits of the first from 2 on, of the
 * second from 0, of the third from 6, of the fourth from 4 on: what u of these steps adds to them,
 * in [0] at four bits of u, and what u of the four steps before adds, in [1]; both together by an
 * exclusive or. */
extern const uint8_t qsf_trellis_pairs[2][16];

/* m, a bit for each of four steps, as bits of m that lie where pairs would be in their order. */
extern const uint8_t qsf_trellis_apart[16];
/* Levels, 16 at a time.  Up to four bits: [order + 2 * the place's fifth bit], at the pair of low
 * bits and two bits of m; with order 0 the pair is above m, with 1 below it.  Five bits: [pair], at
 * m. */
typedef struct qsf_trellis_tables { int8_t level[4][16]; } qsf_trellis_tables;
void qsf_trellis_tables_make(qsf_trellis_tables *to, unsigned k);

/* Converts one tile of k bits to one of 8: levels as codes, scales times 2^11, which fp16 holds
 * exactly.  A tile that is not its row's first continues from the previous one, which ends with its
 * u. */
typedef void qsf_trellis_unpack(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *tables,
                                unsigned k, bool first);
/* k->matmul of the 8-bit form. */
typedef void qsf_trellis_multiply(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                                  size_t blocks, uint32_t block);
/* As k->matmul. */
void qsf_trellis_matmul(unsigned k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                        size_t blocks, qsf_trellis_unpack *unpack, qsf_trellis_multiply *multiply);

qsf_trellis_unpack qsf_trellis_eight_v128, qsf_trellis_eight_avx2;

qsf_trellis_multiply qsf_matmul_8_avx2;

/* The same with products of 16 bits, in WebAssembly. */
void qsf_trellis_panel_v128(unsigned k, float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                            size_t tiles, size_t blocks);

/* The fp16 of a scale times 2^11. */
QSF_TEMPLATE uint16_t qsf_trellis_half(uint8_t e)
{
    return (uint16_t)(e >= 16 ? (e - 8) << 7 : e >= 8 ? e << 6 : e ? (e + 8) << 5 : 0);
}

/* The entries of a set that has a matmul_8_SET; EIGHT unpacks. */
#define QSF_TRELLIS_ENTRY(K, SET, EIGHT)                                                                     \
    static void matmul_TR##K##_##SET(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                     size_t blocks, uint32_t block)                                          \
    {                                                                                                        \
        (void)block;                                                                                         \
        qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, EIGHT, matmul_8_##SET);                           \
    }                                                                                                        \
    static void matvec_TR##K##_##SET(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                     size_t blocks, uint32_t block)                                          \
    { matmul_TR##K##_##SET(y, 16 * tiles, w, x, tiles, blocks, block); }
#define QSF_TRELLIS_FORMS(SET, EIGHT)                                                                        \
    QSF_TRELLIS_ENTRY(2, SET, EIGHT) QSF_TRELLIS_ENTRY(3, SET, EIGHT) QSF_TRELLIS_ENTRY(4, SET, EIGHT)       \
    QSF_TRELLIS_ENTRY(5, SET, EIGHT)

#endif
