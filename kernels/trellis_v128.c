/* Tiles of the trellis forms to tiles of the 8-bit form over vectors of 128 bits: a tile is read as
 * four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#include "trellis.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

typedef uint32_t v4u __attribute__((vector_size(16)));

/* Places in the table of step j: g is the quarter's group. */
QSF_TEMPLATE v16b trellis_index_v128(const uint8_t *g, v16b p, v16b q, int j, int k)
{
    const v16b low = (v16_shift(q, -j) & v16_set1(1)) | (v16_shift(p, 1 - j) & v16_set1(2));
    if (k == 2) return low | (v16_shift(v16_load(g), 2 - j) & v16_set1(4));
    if (k == 5) return low | (v16_shift(v16_load(g + 64 * (j / 2)), 2 - 4 * (j % 2)) & v16_set1(0x3c));
    const v16b index = low | (v16_shift(v16_load(g + 64 * (j / 4)), 2 - 2 * (j % 4)) & v16_set1(12));
    if (k == 3) return index;
    return index | (v16_shift(v16_load(g + 128), 4 - j) & v16_set1(16));
}

/* Of two to four tables of 16 each gives what is not below its first place. */
QSF_TEMPLATE v16b trellis_levels_v128(v16b index, int k)
{
    const int8_t *level = qsf_trellis_levels[k - 2];
    const v16b place = index & v16_set1(15);
    v16b out = v16_table(level, place);
    for (int t = 16; t < 2 << k; t += 16) {
        const v16b here = v16_above(index, v16_set1(t - 1));
        out = (out & ~here) | (v16_table(level + t, place) & here);
    }
    return out;
}

QSF_TEMPLATE void trellis_quarter_v128(uint8_t *to, const uint8_t *from, v4u last, int k)
{
    for (int g = 0; g < 2; g++, from += 64 * k, to += 512) {
        const v4u u = (v4u)v16_load(from + 64 * (k - 1));
        const v16b p = (v16b)(u ^ (u << 1 | last >> 31) ^ (u << 3 | last >> 29)),
            q = (v16b)(u << 2 | last >> 30);
        last = u;
        QSF_UNROLL
        for (int j = 0; j < 8; j++)
            v16_store(to + 64 * j, trellis_levels_v128(trellis_index_v128(from, p, q, j, k), k));
    }
}

void qsf_trellis_eight_v128(uint8_t *eight, const uint8_t *tile, unsigned k, bool first)
{
    for (int r = 0; r < 16; r++) qsf_put16(eight + 2 * r, qsf_trellis_half(tile[r]));
    for (int i = 0; i < 64; i += 16) {
        const v4u last = first ? (v4u){ 0 } : (v4u)v16_load(tile - 64 + i);
        uint8_t *to = eight + 32 + i;
        const uint8_t *from = tile + 16 + i;
        switch (k) {
        case 2:  trellis_quarter_v128(to, from, last, 2); break;
        case 3:  trellis_quarter_v128(to, from, last, 3); break;
        case 4:  trellis_quarter_v128(to, from, last, 4); break;
        default: trellis_quarter_v128(to, from, last, 5); break;
        }
    }
}

QSF_V128_END
#endif
