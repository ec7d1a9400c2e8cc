/* Tiles of the trellis forms to tiles of the 8-bit form over vectors of 128 bits: a tile is read as
 * four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#include "trellis.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

typedef uint32_t v4u __attribute__((vector_size(16)));

/* Of a group's quarter, as trellis_avx2.h has them.  Up to four bits: place[2 * (j / 4) + j % 2]
 * has in its nibbles the places of steps j and j + 2, choose[0] their fifth bits.  Five bits:
 * place[j / 2] is m of steps j and j + 1, choose the pairs' low and high bits. */
typedef struct trellis_quarter_v128 { v16b place[4], choose[2]; } trellis_quarter_v128;

QSF_TEMPLATE v16b trellis_high_v128(v16b v) { return v16_shift(v, -4) & v16_set1(15); }
QSF_TEMPLATE v16b trellis_table_v128(const uint8_t *table, v16b i)
{
    return v16_table((const int8_t *)table, i);
}

/* last: u of the group before. */
QSF_TEMPLATE void trellis_fetch_v128(trellis_quarter_v128 *s, const uint8_t *g, v4u last, int k)
{
    const v4u u = (v4u)v16_load(g + 64 * (k - 1));
    if (k == 5) {
        s->choose[0] = (v16b)(u << 2 | last >> 30);
        s->choose[1] = (v16b)(u ^ (u << 1 | last >> 31) ^ (u << 3 | last >> 29));
        QSF_UNROLL
        for (int i = 0; i < 4; i++) s->place[i] = v16_load(g + 64 * i);
        return;
    }
    s->choose[0] = s->choose[1] = v16_set1(0);      /* for compilers that do not follow which k has it */
    const v16b low = (v16b)u & v16_set1(15), high = trellis_high_v128((v16b)u),
        before = (v16b)((v4u)high << 8 | last >> 28);
    v16b m[2] = { v16_load(g), v16_load(g + (k == 2 ? 0 : 64)) };
    if (k == 2) {       /* a bit for each step becomes the lower of two */
        m[0] = trellis_table_v128(qsf_trellis_apart, m[0] & v16_set1(15));
        m[1] = trellis_table_v128(qsf_trellis_apart, trellis_high_v128(m[1]));
    }
    if (k == 4) s->choose[0] = v16_load(g + 128);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const v16b pairs = trellis_table_v128(qsf_trellis_pairs[0], i ? high : low)
                           ^ trellis_table_v128(qsf_trellis_pairs[1], i ? low : before),
            other = (pairs ^ m[i]) & v16_set1(0xcc);
        s->place[2 * i] = m[i] ^ other;
        s->place[2 * i + 1] = pairs ^ other;
    }
}

/* All bits of the bytes whose bit j is set. */
QSF_TEMPLATE v16b trellis_chosen_v128(v16b bits, int j)
{
    return v16_above(v16_set1(0), v16_shift(bits, 7 - j));
}

/* Columns 4j to 4j + 3 of a group: levels.  Upper tables have what differs from the lower ones. */
QSF_TEMPLATE v16b trellis_step_v128(const trellis_quarter_v128 *s, const qsf_trellis_tables *tables, int j,
                                    int k)
{
    const bool upper = k == 5 ? j % 2 : j / 2 % 2;
    const int8_t(*t)[16] = tables->level;
    const v16b from = s->place[k == 5 ? j / 2 : 2 * (j / 4) + j % 2],
        place = v16_shift(from, upper ? -4 : 0) & v16_set1(15);
    if (k < 4) return v16_table(t[j % 2], place);
    const v16b here = trellis_chosen_v128(s->choose[0], j);
    if (k == 4) return v16_table(t[j % 2], place) ^ (v16_table(t[2 + j % 2], place) & here);
    const v16b low = v16_table(t[0], place) ^ (v16_table(t[1], place) & here),
        more = v16_table(t[2], place) ^ (v16_table(t[3], place) & here);
    return low ^ (more & trellis_chosen_v128(s->choose[1], j));
}

QSF_TEMPLATE void trellis_expand_v128(uint8_t *to, const uint8_t *from, const qsf_trellis_tables *tables,
                                      v4u last, int k)
{
    trellis_quarter_v128 s;
    for (int g = 0; g < 2; g++, from += 64 * k, to += 512) {
        trellis_fetch_v128(&s, from, last, k);
        last = (v4u)v16_load(from + 64 * (k - 1));
        QSF_UNROLL
        for (int j = 0; j < 8; j++) v16_store(to + 64 * j, trellis_step_v128(&s, tables, j, k));
    }
}

void qsf_trellis_eight_v128(uint8_t *eight, const uint8_t *tile, const qsf_trellis_tables *levels,
                            unsigned k, bool first)
{
    qsf_trellis_tables tables;
    v16b t[4];
    for (int i = 0; i < 4; i++) t[i] = v16_load(levels->level[i]);
    if (k == 4) t[2] ^= t[0], t[3] ^= t[1];
    if (k == 5) t[3] ^= t[0] ^ t[1] ^ t[2], t[1] ^= t[0], t[2] ^= t[0];
    for (int i = 0; i < 4; i++) v16_store(tables.level[i], t[i]);
    for (int r = 0; r < 16; r++) qsf_put16(eight + 2 * r, qsf_trellis_half(tile[r]));
    for (int i = 0; i < 64; i += 16) {
        const v4u last = first ? (v4u){ 0 } : (v4u)v16_load(tile - 64 + i);
        uint8_t *to = eight + 32 + i;
        const uint8_t *from = tile + 16 + i;
        switch (k) {
        case 2:  trellis_expand_v128(to, from, &tables, last, 2); break;
        case 3:  trellis_expand_v128(to, from, &tables, last, 3); break;
        case 4:  trellis_expand_v128(to, from, &tables, last, 4); break;
        default: trellis_expand_v128(to, from, &tables, last, 5); break;
        }
    }
}

QSF_V128_END
#endif
