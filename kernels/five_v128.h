/* Tiles of TERNARY5 over vectors of 128 bits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FIVE_V128_H
#define QSF_FIVE_V128_H

#include "five.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* The next digits of four vectors as one vector of TERNARY2.  x is the remainder after the previous
 * digits, less 128, which multiplying by three preserves: the digit is the number of limits among
 * 86 and 171 that it reaches. */
QSF_TEMPLATE v16b five_next_v128(v16b x[4])
{
    const v16b none = v16_set1(0);
    v16b two = none;
    QSF_UNROLL
    for (int f = 0; f < 4; f++) {
        const v16b one = v16_above(x[f], v16_set1(85 - 128)), more = v16_above(x[f], v16_set1(170 - 128)),
            digit = v16_minus(v16_minus(none, one), more);
        two = two | v16_shift(digit, 2 * f);
        x[f] = v16_minus(x[f], v16_minus(v16_minus(none, x[f]), x[f]));
    }
    return two;
}

static inline void five_v128(uint8_t *two, const uint8_t *five)
{
    const v16b bias = v16_set1(-128);
    for (int i = 0; i < 64; i += 16) {
        for (int v = 0; v < 12; v += 4) {
            v16b x[4];
            QSF_UNROLL
            for (int f = 0; f < 4; f++) x[f] = v16_minus(v16_load(five + 64 * (v + f) + i), bias);
            for (int k = 0; k < 5; k++)
                v16_store(two + 64 * (v < 8 ? 2 * k + v / 4 : 10 + k) + i, five_next_v128(x));
        }
        v16b x[4] = { v16_minus(v16_load(five + 64 * 12 + i), bias) };
        QSF_UNROLL
        for (int f = 1; f < 4; f++)
            x[f] = v16_minus(x[f - 1], v16_minus(v16_minus(v16_set1(0), x[f - 1]), x[f - 1]));
        v16_store(two + 64 * 15 + i, five_next_v128(x));
    }
}

QSF_V128_END
#endif
#endif
