/* Tiles of the trellis forms to tiles of the 8-bit form over vectors of 128 bits: a tile is read as
 * four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#include "trellis_v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

QSF_TEMPLATE void trellis_expand_v128(uint8_t *to, const uint8_t *from, const v16b tables[4], v4u last,
                                      int k)
{
    trellis_quarter_v128 s;
    for (int g = 0; g < 2; g++, from += 64 * k, to += 512) {
        trellis_fetch_v128(&s, from, last, NULL, k);
        last = (v4u)v16_load(from + 64 * (k - 1));
        QSF_UNROLL
        for (int j = 0; j < 8; j++) v16_store(to + 64 * j, trellis_step_v128(&s, tables, j, k));
    }
}

void qsf_trellis_eight_v128(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *levels,
                            unsigned k, bool first)
{
    v16b tables[4];
    trellis_tables_v128(tables, levels, k);
    for (int r = 0; r < 16; r++) qsf_put16(eight + 2 * r, qsf_trellis_half(tile[r]));
    for (int i = 0; i < 64; i += 16) {
        const v4u last = first ? (v4u){ 0 } : (v4u)v16_load(tile - 64 + i);
        uint8_t *to = eight + 32 + i;
        const uint8_t *from = tile + 16 + i;
        switch (k) {
        case 2:  trellis_expand_v128(to, from, tables, last, 2); break;
        case 3:  trellis_expand_v128(to, from, tables, last, 3); break;
        case 4:  trellis_expand_v128(to, from, tables, last, 4); break;
        default: trellis_expand_v128(to, from, tables, last, 5); break;
        }
    }
}

QSF_V128_END
#endif
