/* Tiles of the trellis forms times activations with AVX-512 VNNI, VBMI, VBMI2 and GFNI: levels come
 * from a table of 64 bytes by one vpermb.
 * SPDX-License-Identifier: MIT
 *
 * Most of the work would be moving the parts of an index side by side.  But vpermb accepts its six
 * bits in any order, if the table is in that order: each of a group's eight steps has its own
 * table, and parts are moved only if they would overlap or be in bits 6 and 7.  Pairs of low bits
 * are produced in their final place; with two bits, those of two steps fit into one index. */
#include "panel_avx512.h"
#include "trellis.h"
#include "trellis_gfni.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,gfni,avx2,fma,f16c")

#include "tiles_avx512.h"

/* [k - 2][step]: the lowest bit that m (its two low bits with k = 4), m's third bit (k = 4), and
 * the pair of the index's low bits have in the order of that step's table. */
static const struct trellis_order { uint8_t m[8], third[8], low[8]; } trellis_orders[4] = {
    { { 0, 1, 2, 3, 4, 5, 4, 5 }, { 0 }, { 2, 4, 0, 4, 0, 2, 0, 2 } },
    { { 0, 2, 4, 4, 0, 2, 4, 4 }, { 0 }, { 2, 4, 0, 0, 2, 4, 0, 0 } },
    { { 0, 2, 4, 4, 0, 2, 4, 4 }, { 4, 0, 2, 3, 4, 0, 2, 3 }, { 2, 4, 0, 0, 2, 4, 0, 0 } },
    { { 0, 2, 0, 2, 0, 2, 0, 2 }, { 0 }, { 4, 0, 4, 0, 4, 0, 4, 0 } },
};
/* Bits of m that lie side by side. */
QSF_TEMPLATE int trellis_m_bits(int k) { return k == 2 ? 1 : k == 5 ? 4 : 2; }

/* table: the steps' tables; m: a group's planes of m; third: the third bits of m, of half a group's
 * steps.  pair: of steps 2i and 2i + 1 with two and five bits (with two bits together with their
 * m); else [2i] of the first three steps of a half, [2i + 1] of its fourth.  last: u of the group
 * before. */
typedef struct trellis_state_avx512vbmi {
    __m512i table[8], m[4], third[2], pair[4], last;
} trellis_state_avx512vbmi;

QSF_TEMPLATE void trellis_tables_avx512vbmi(trellis_state_avx512vbmi *s, int k)
{
    static const uint8_t numbers[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
    };
    const struct trellis_order *o = &trellis_orders[k - 2];
    const __m512i i = load_avx512(numbers), m_mask = _mm512_set1_epi8((char)((1 << trellis_m_bits(k)) - 1)),
        levels = _mm512_xor_si512(load_avx512(qsf_trellis_levels[k - 2]), _mm512_set1_epi8((char)0x80));
    QSF_UNROLL
    for (int j = 0; j < 8; j++) {
        const __m512i low = _mm512_and_si512(shift_avx512(i, -o->low[j]), _mm512_set1_epi8(3)),
            m = shift_avx512(_mm512_and_si512(shift_avx512(i, -o->m[j]), m_mask), 2);
        __m512i index = _mm512_or_si512(low, m);
        if (k == 4)
            index = _mm512_or_si512(index, shift_avx512(_mm512_and_si512(shift_avx512(i, -o->third[j]),
                                                                         _mm512_set1_epi8(1)), 4));
        s->table[j] = _mm512_permutexvar_epi8(index, levels);
    }
}

QSF_TEMPLATE __m512i parity_avx512vbmi(__m512i v, uint64_t matrix)
{
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64((int64_t)matrix), 0);
}

QSF_TEMPLATE void trellis_begin_avx512vbmi(trellis_state_avx512vbmi *s, __m512i u) { s->last = u; }

QSF_TEMPLATE void trellis_fetch_avx512vbmi(trellis_state_avx512vbmi *s, const uint8_t *g, int k)
{
    const int planes = trellis_m_bits(k);
    QSF_UNROLL
    for (int i = 0; i < planes; i++) s->m[i] = fetch_avx512(g + 64 * i);
    const struct trellis_order *o = &trellis_orders[k - 2];
    const __m512i u = fetch_avx512(g + 64 * (k - 1)), before = _mm512_shldi_epi32(u, s->last, 3);
    s->last = u;
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        uint64_t matrix = 0;
        if (k == 2 || k == 5)
            for (int j = 2 * i; j < 2 * i + 2; j++) matrix |= pair_gfni(o->low[j], i < 2 ? j + 3 : j);
        else
            for (int j = i % 2 * 3; j < 3 + i % 2; j++) matrix |= pair_gfni(o->low[j], j + (i < 2 ? 3 : 4));
        s->pair[i] = parity_avx512vbmi(i < 2 ? before : u, matrix);
        if (k == 2)
            s->pair[i] = select_avx512(_mm512_set1_epi8((char)(3 << o->m[2 * i])),
                                       shift_avx512(s->m[0], o->m[2 * i] - 2 * i), s->pair[i]);
    }
    if (k != 4) return;
    const __m512i third = fetch_avx512(g + 128);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        uint64_t matrix = 0;
        for (int j = 4 * i; j < 4 * i + 4; j++) matrix |= bit_gfni(o->third[j], 1u << j);
        s->third[i] = parity_avx512vbmi(third, matrix);
    }
}

QSF_TEMPLATE __m512i trellis_step_avx512vbmi(const trellis_state_avx512vbmi *s, int j, int k)
{
    const struct trellis_order *o = &trellis_orders[k - 2];
    const int bits = trellis_m_bits(k), each = 8 / bits;
    if (k == 2) return _mm512_permutexvar_epi8(s->pair[j / 2], s->table[j]);
    const __m512i m = shift_avx512(s->m[j / each], o->m[j] - bits * (j % each)),
        low = s->pair[k == 5 ? j / 2 : j / 4 * 2 + (j % 4 == 3)];
    __m512i index = select_avx512(_mm512_set1_epi8((char)(3 << o->low[j])), low, m);
    if (k == 4) index = select_avx512(_mm512_set1_epi8((char)(1 << o->third[j])), s->third[j / 4], index);
    return _mm512_permutexvar_epi8(index, s->table[j]);
}

#define SET avx512vbmi
#include "trellis_avx512.h"

#define TRELLIS_AVX512VBMI(K) \
    QSF_PANEL_USE(TR##K, trellis_matmul_TR##K##_avx512vbmi, trellis_unpack_TR##K##_avx512vbmi)
QSF_EACH_TRELLIS(TRELLIS_AVX512VBMI)
#undef TRELLIS_AVX512VBMI

/* Ice Lake, Zen 4 and later; over the AVX-512 set. */
void qsf_kernels_avx512vbmi(qsf_kernels *k)
{
    k->isa = "avx512vbmi";
    trellis_fill_avx512vbmi(k);
}

QSF_TARGET_END
#endif
