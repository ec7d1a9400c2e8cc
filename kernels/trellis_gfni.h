/* Matrices for gf2p8affineqb, which makes each bit of a byte the parity of any bits of another one:
 * what trellis tiles need of u.
 * SPDX-License-Identifier: MIT
 *
 * The pair of low bits of a step's place, 2 P + Q, comes from u of the step and of the three
 * before: one instruction makes several pairs, in any place. */
#ifndef QSF_TRELLIS_GFNI_H
#define QSF_TRELLIS_GFNI_H

#include "sets.h"

/* Bit `to` of the result is the parity of the bits in `of`.  Matrices of different bits are put
 * together by an or. */
QSF_TEMPLATE uint64_t bit_gfni(int to, unsigned of) { return (uint64_t)of << 8 * (7 - to); }

/* Of the step whose u is bit b: what P and Q are the parity of. */
QSF_TEMPLATE unsigned high_gfni(int b) { return 13u << b >> 3; }
QSF_TEMPLATE unsigned low_gfni(int b) { return 1u << b >> 2; }
/* The pair at bits `to` and to + 1. */
QSF_TEMPLATE uint64_t pair_gfni(int to, int b)
{
    return bit_gfni(to, low_gfni(b)) | bit_gfni(to + 1, high_gfni(b));
}
/* Four pairs, the first step's u at bit b, in the order of qsf_trellis_pairs. */
QSF_TEMPLATE uint64_t pairs_gfni(int b)
{
    return pair_gfni(2, b) | pair_gfni(0, b + 1) | pair_gfni(6, b + 2) | pair_gfni(4, b + 3);
}
/* Four bits from b on, as qsf_trellis_apart has them. */
QSF_TEMPLATE uint64_t apart_gfni(int b)
{
    return bit_gfni(0, 1u << b) | bit_gfni(2, 2u << b) | bit_gfni(4, 4u << b) | bit_gfni(6, 8u << b);
}
/* Nibbles of P of two steps. */
QSF_TEMPLATE uint64_t turns_gfni(int b)
{
    uint64_t m = 0;
    for (int i = 0; i < 8; i++) m |= bit_gfni(i, high_gfni(b + i / 4));
    return m;
}
/* P xor Q of four steps at bits `to` on. */
QSF_TEMPLATE uint64_t choose_gfni(int to, int b)
{
    uint64_t m = 0;
    for (int i = 0; i < 4; i++) m |= bit_gfni(to + i, high_gfni(b + i) ^ low_gfni(b + i));
    return m;
}

#endif
