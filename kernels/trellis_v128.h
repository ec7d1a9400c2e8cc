/* Tiles of the trellis forms over vectors of 128 bits: levels a quarter of a group at a time, which
 * is 4 rows, and their products with one row of activations.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TRELLIS_V128_H
#define QSF_TRELLIS_V128_H

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

/* 32 activations.  quad[j]: columns 4j to 4j + 3 in the form that a set's product uses, quad[8 +
 * j]: additional values for it.  place, bit: masks that invert the weights of columns below zero,
 * as in trellis_avx2.h; place[0] is for steps 0 and 2 with up to four bits. */
typedef struct trellis_columns_v128 {
    int32_t  quad[16];
    uint32_t place[4], bit;
} trellis_columns_v128;

QSF_TEMPLATE v16b trellis_turn_v128(v16b v, const uint32_t *mask)
{
    if (mask) v ^= v16_quad(mask);
    return v;
}

/* last: u of the group before; x: NULL, or what turns signs. */
QSF_TEMPLATE void trellis_fetch_v128(trellis_quarter_v128 *s, const uint8_t *g, v4u last,
                                     const trellis_columns_v128 *x, int k)
{
    const uint32_t *bit = x ? &x->bit : NULL;
    const v4u u = (v4u)v16_load(g + 64 * (k - 1));
    if (k == 5) {
        s->choose[0] = trellis_turn_v128((v16b)(u << 2 | last >> 30), bit);
        s->choose[1] = trellis_turn_v128((v16b)(u ^ (u << 1 | last >> 31) ^ (u << 3 | last >> 29)), bit);
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            s->place[i] = trellis_turn_v128(v16_load(g + 64 * i), x ? &x->place[i] : NULL);
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
    if (k == 4) s->choose[0] = trellis_turn_v128(v16_load(g + 128), bit);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const v16b pairs = trellis_table_v128(qsf_trellis_pairs[0], i ? high : low)
                           ^ trellis_table_v128(qsf_trellis_pairs[1], i ? low : before),
            other = (pairs ^ m[i]) & v16_set1(0xcc);
        s->place[2 * i] = trellis_turn_v128(m[i] ^ other, x ? &x->place[2 * i] : NULL);
        s->place[2 * i + 1] = trellis_turn_v128(pairs ^ other, x ? &x->place[2 * i + 1] : NULL);
    }
}

/* All bits of the bytes whose bit j is set.  Compilers must not see the zero: they make a shift of
 * bytes of it, which WebAssembly's engines do in five instructions. */
QSF_TEMPLATE v16b trellis_chosen_v128(v16b bits, int j)
{
    v16b zero = v16_set1(0);
#if defined(__wasm__)
    __asm__("" : "+r"(zero));
#endif
    return v16_above(zero, v16_shift(bits, 7 - j));
}

/* If one instruction selects bytes, the tables are those of qsf_trellis_tables; otherwise the upper
 * ones hold the difference from the lower ones. */
#if defined(__wasm_relaxed_simd__)
QSF_TEMPLATE void trellis_tables_v128(v16b t[4], const qsf_trellis_tables *levels, unsigned k)
{
    (void)k;
    for (int i = 0; i < 4; i++) t[i] = v16_load(levels->level[i]);
}
QSF_TEMPLATE v16b trellis_pick_v128(v16b low, v16b high, v16b mask)
{
    return wasm_i8x16_relaxed_laneselect(high, low, mask);
}
#else
QSF_TEMPLATE void trellis_tables_v128(v16b t[4], const qsf_trellis_tables *levels, unsigned k)
{
    for (int i = 0; i < 4; i++) t[i] = v16_load(levels->level[i]);
    if (k == 4) t[2] ^= t[0], t[3] ^= t[1];
    if (k == 5) t[3] ^= t[0] ^ t[1] ^ t[2], t[1] ^= t[0], t[2] ^= t[0];
}
QSF_TEMPLATE v16b trellis_pick_v128(v16b low, v16b high, v16b mask) { return low ^ (high & mask); }
#endif

/* Columns 4j to 4j + 3 of a group: levels. */
QSF_TEMPLATE v16b trellis_step_v128(const trellis_quarter_v128 *s, const v16b t[4], int j, int k)
{
    const bool upper = k == 5 ? j % 2 : j / 2 % 2;
    const v16b from = s->place[k == 5 ? j / 2 : 2 * (j / 4) + j % 2],
        place = v16_shift(from, upper ? -4 : 0) & v16_set1(15);
    if (k < 4) return v16_look(t[j % 2], place);
    const v16b here = trellis_chosen_v128(s->choose[0], j);
    if (k == 4) return trellis_pick_v128(v16_look(t[j % 2], place), v16_look(t[2 + j % 2], place), here);
    return trellis_pick_v128(trellis_pick_v128(v16_look(t[0], place), v16_look(t[1], place), here),
                             trellis_pick_v128(v16_look(t[2], place), v16_look(t[3], place), here),
                             trellis_chosen_v128(s->choose[1], j));
}

/* sum + levels times columns 4j to 4j + 3 of x. */
typedef v4i trellis_add_v128(v4i sum, v16b level, const trellis_columns_v128 *x, int j);
/* quad of 32 activations. */
typedef void trellis_quads_v128(trellis_columns_v128 *to, const int8_t *q);

/* Magnitudes of activations; their signs are moved to the places of the levels. */
QSF_TEMPLATE void trellis_sizes_v128(trellis_columns_v128 *to, const int8_t *q, int k)
{
    const v4u low = { 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f },
        upper = k == 5 ? (v4u){ 0, ~0u, 0, ~0u } : (v4u){ 0, 0, ~0u, ~0u }, places = low ^ upper;
    v4u bits = { 0x01010101, 0x02020202, 0x04040404, 0x08080808 };
    to->bit = 0;
    for (int i = 0; i < 2; i++, bits <<= 4) {
        const v16b four = v16_load(q + 16 * i), below = v16_above(v16_set1(0), four);
        const v4u p = (v4u)below & places, b = (v4u)below & bits;
        v16_store(to->quad + 4 * i, v16_minus(four ^ below, below));
        to->place[2 * i] = p[0] | p[k == 5 ? 1 : 2];
        to->place[2 * i + 1] = p[k == 5 ? 2 : 1] | p[3];
        to->bit |= b[0] | b[1] | b[2] | b[3];
    }
}

/* The scales of a tile's 16 rows. */
QSF_TEMPLATE void trellis_scales_v128(v4f out[4], const uint8_t *w)
{
    v4i e[4];
    v16_ints(e, v16_load(w));
    for (int i = 0; i < 4; i++) {
        e[i] &= v4_set1i(255);
        out[i] = (v4f)((e[i] + v4_set1i(800)) << 20 & (v4i)(e[i] > 0));
    }
}

/* Columns that are prepared at once. */
enum { TRELLIS_COLUMNS_V128 = 4096 };

/* y += a row of tiles . x in the n blocks of a stretch; last: u of the block before w. */
QSF_TEMPLATE void trellis_stretch_v128(int k, bool fold, float *y, const uint8_t *w, const float *d,
                                       const trellis_columns_v128 *x, size_t n, const v16b tables[4],
                                       v4u last[4], trellis_add_v128 *add)
{
    v4f acc[4] = { v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0) };
    for (size_t b = 0; b < n; b++, w += 16 + 128 * k, x += 2) {
        v4f scale[4];
        trellis_scales_v128(scale, w);
        for (int i = 0; i < 4; i++) {
            v4i sum = v4_set1i(0);
            const trellis_columns_v128 *c = x;
            const uint8_t *from = w + 16 + 16 * i;
            QSF_LOOP    /* short code, as fast as long code */
            for (int g = 0; g < 2; g++, from += 64 * k, c++) {
#if defined(__wasm__)
                __asm__("" : "+r"(from), "+r"(c));      /* else each load's place is an addition of its own */
#endif
                trellis_quarter_v128 s;
                trellis_fetch_v128(&s, from, last[i], fold ? c : NULL, k);
                last[i] = (v4u)v16_load(from + 64 * (k - 1));
                QSF_UNROLL
                for (int j = 0; j < 8; j++) sum = add(sum, trellis_step_v128(&s, tables, j, k), c, j);
            }
            acc[i] += scale[i] * v4_set1(d[b]) * v4_float(sum);
        }
    }
    for (int i = 0; i < 4; i++) v4_store(y + 4 * i, v4_load(y + 4 * i) + acc[i]);
}

/* quads: NULL if activations are magnitudes, and their signs are applied to the weights. */
QSF_TEMPLATE void trellis_matvec_v128(int k, float *y, const uint8_t *w, const qsf_act *x, size_t tiles,
                                      size_t blocks, trellis_add_v128 *add, trellis_quads_v128 *quads)
{
    const size_t tile = 16 + 128 * (size_t)k;
    trellis_columns_v128 columns[TRELLIS_COLUMNS_V128 / 32];
    qsf_trellis_tables levels;
    v16b tables[4];
    qsf_trellis_tables_make(&levels, (unsigned)k);
    trellis_tables_v128(tables, &levels, (unsigned)k);
    memset(y, 0, 16 * tiles * sizeof *y);
    for (size_t from = 0, n; from < blocks; from += n) {
        n = QSF_MIN(blocks - from, (size_t)TRELLIS_COLUMNS_V128 / QSF_TRELLIS_BLOCK);
        for (size_t i = 0; i < 2 * n; i++) {
            const int8_t *q = x->q + 64 * from + 32 * i;
            if (quads) quads(&columns[i], q);
            else trellis_sizes_v128(&columns[i], q, k);
        }
        for (size_t t = 0; t < tiles; t++) {
            const uint8_t *at = w + (t * blocks + from) * tile;
            v4u last[4] = { { 0 } };
            for (int i = 0; from && i < 4; i++) last[i] = (v4u)v16_load(at - 64 + 16 * i);
            for (size_t b = 0; b < n; b += QSF_TRELLIS_STRETCH, at += QSF_TRELLIS_STRETCH * tile)
                trellis_stretch_v128(k, !quads, y + 16 * t, at, x->d + from + b, columns + 2 * b,
                                     QSF_MIN(n - b, (size_t)QSF_TRELLIS_STRETCH), tables, last, add);
        }
    }
}

QSF_V128_END
#endif
#endif
