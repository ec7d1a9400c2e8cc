/* Tiles of the trellis forms times activations with AVX-512 VNNI, VBMI and VBMI2: levels come from
 * a table of 64 bytes by one vpermb.
 * SPDX-License-Identifier: MIT
 *
 * Most of the work would be moving the parts of an index side by side.  But vpermb takes its six
 * bits in any order, if the table is in that order: each of a group's eight steps has a table of
 * its own, and parts are moved only where they would overlap or lie in bits 6 and 7. */
#include "panel_avx512.h"
#include "trellis.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi,avx512vbmi2,avx2,fma,f16c")

#include "tiles_avx512.h"

/* [k - 2][step]: the lowest bit that m (its two low bits with k = 4), m's third bit (k = 4), and
 * the pair of the index's low bits have in the order of that step's table. */
static const struct trellis_order { uint8_t m[8], third[8], low[8]; } trellis_orders[4] = {
    { { 2, 3, 4, 5, 2, 3, 4, 5 }, { 0 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 2, 2, 4, 4, 0, 2, 4, 4 }, { 0 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 2, 2, 4, 4, 0, 2, 4, 4 }, { 4, 5, 0, 1, 2, 1, 2, 3 }, { 0, 0, 2, 2, 4, 4, 0, 0 } },
    { { 0, 2, 0, 2, 0, 0, 0, 0 }, { 0 }, { 4, 0, 4, 0, 4, 4, 4, 4 } },
};
/* Bits of m that lie side by side. */
QSF_TEMPLATE int trellis_m_bits(int k) { return k == 2 ? 1 : k == 5 ? 4 : 2; }

/* The steps' tables; of a group planes of m, of m's third bit, and the pairs of low bits of even
 * and of odd steps.  last: u of the group before. */
typedef struct trellis_state_avx512vbmi {
    __m512i table[8], m[4], third, pair[2], last;
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

QSF_TEMPLATE void trellis_begin_avx512vbmi(trellis_state_avx512vbmi *s, __m512i u) { s->last = u; }

QSF_TEMPLATE void trellis_fetch_avx512vbmi(trellis_state_avx512vbmi *s, const uint8_t *g, int k)
{
    const int planes = trellis_m_bits(k);
    QSF_UNROLL
    for (int i = 0; i < planes; i++) s->m[i] = fetch_avx512(g + 64 * i);
    if (k == 4) s->third = fetch_avx512(g + 128);
    const __m512i u = fetch_avx512(g + 64 * (k - 1)), even = _mm512_set1_epi8(0x55);
    const __m512i high = _mm512_ternarylogic_epi32(u, _mm512_shldi_epi32(u, s->last, 1),
                                                   _mm512_shldi_epi32(u, s->last, 3), 0x96),
        low = _mm512_shldi_epi32(u, s->last, 2);
    s->pair[0] = select_avx512(even, low, _mm512_add_epi8(high, high));
    s->pair[1] = select_avx512(even, shift_avx512(low, -1), high);
    s->last = u;
}

QSF_TEMPLATE __m512i trellis_step_avx512vbmi(const trellis_state_avx512vbmi *s, int j, int k)
{
    const struct trellis_order *o = &trellis_orders[k - 2];
    const int bits = trellis_m_bits(k), each = 8 / bits;
    const __m512i m = shift_avx512(s->m[j / each], o->m[j] - bits * (j % each)),
        low = shift_avx512(s->pair[j % 2], o->low[j] - j / 2 * 2);
    __m512i index = select_avx512(_mm512_set1_epi8((char)(3 << o->low[j])), low, m);
    if (k == 4)
        index = select_avx512(_mm512_set1_epi8((char)(1 << o->third[j])),
                              shift_avx512(s->third, o->third[j] - j), index);
    return _mm512_permutexvar_epi8(index, s->table[j]);
}

#define SET avx512vbmi
#include "trellis_avx512.h"

/* Ice Lake, Zen 4 and later; over the AVX-512 set. */
void qsf_kernels_avx512vbmi(qsf_kernels *k)
{
    k->isa = "avx512vbmi";
    trellis_fill_avx512vbmi(k);
}

QSF_TARGET_END
#endif
