/* Tiles of the trellis forms times activations with AVX-512 VNNI, for processors without VBMI.
 * SPDX-License-Identifier: MIT
 *
 * The method is that of trellis_avx2.h, with 16 rows at a time; masks choose among the tables.
 * With five bits, each pair of low bits has its own table for m. */
#include "panel_avx512.h"
#include "trellis.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")

#include "tiles_avx512.h"

/* Those of qsf_trellis_tables, and qsf_trellis_pairs.  Of a group, up to four bits:
 * place[2 * (j / 4) + j % 2] has in its nibbles the places of steps j and j + 2, choose[0] their
 * fifth bits.  Five bits: place[j / 2] is m of steps j and j + 1, choose the pairs' low and high
 * bits.  last: u of the group before. */
typedef struct trellis_state_avx512 {
    __m512i level[4], pairs[2], place[4], choose[2], last;
} trellis_state_avx512;

QSF_TEMPLATE __m512i trellis_table_avx512(const void *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}
QSF_TEMPLATE void trellis_tables_avx512(trellis_state_avx512 *s, int k)
{
    qsf_trellis_tables from;
    qsf_trellis_tables_make(&from, (unsigned)k);
    const int n = k < 4 ? 2 : 4;
    QSF_UNROLL
    for (int i = 0; i < n; i++)
        s->level[i] = _mm512_xor_si512(trellis_table_avx512(from.level[i]), _mm512_set1_epi8((char)0x80));
    QSF_UNROLL
    for (int i = 0; i < 2; i++) s->pairs[i] = trellis_table_avx512(qsf_trellis_pairs[i]);
}

QSF_TEMPLATE void trellis_begin_avx512(trellis_state_avx512 *s, __m512i u) { s->last = u; }

QSF_TEMPLATE __m512i trellis_nibbles_avx512(__m512i v, int upper)
{
    return _mm512_and_si512(shift_avx512(v, upper ? -4 : 0), _mm512_set1_epi8(15));
}

QSF_TEMPLATE void trellis_fetch_avx512(trellis_state_avx512 *s, const uint8_t *g, int k)
{
    const __m512i u = fetch_avx512(g + 64 * (k - 1)), last = s->last;
    s->last = u;
    if (k == 5) {
        const __m512i one = _mm512_or_si512(_mm512_slli_epi32(u, 1), _mm512_srli_epi32(last, 31)),
            three = _mm512_or_si512(_mm512_slli_epi32(u, 3), _mm512_srli_epi32(last, 29));
        s->choose[0] = _mm512_or_si512(_mm512_slli_epi32(u, 2), _mm512_srli_epi32(last, 30));
        s->choose[1] = _mm512_ternarylogic_epi32(u, one, three, 0x96);
        QSF_UNROLL
        for (int i = 0; i < 4; i++) s->place[i] = fetch_avx512(g + 64 * i);
        return;
    }
    const __m512i low = trellis_nibbles_avx512(u, 0), high = trellis_nibbles_avx512(u, 1),
        before = _mm512_or_si512(_mm512_slli_epi32(high, 8), _mm512_srli_epi32(last, 28)),
        upper = _mm512_set1_epi8((char)0xcc);
    __m512i m[2] = { fetch_avx512(g), fetch_avx512(g + (k == 2 ? 0 : 64)) };
    if (k == 2) {       /* a bit for each step becomes the lower of two */
        const __m512i apart = trellis_table_avx512(qsf_trellis_apart);
        m[0] = _mm512_shuffle_epi8(apart, trellis_nibbles_avx512(m[0], 0));
        m[1] = _mm512_shuffle_epi8(apart, trellis_nibbles_avx512(m[1], 1));
    }
    if (k == 4) s->choose[0] = fetch_avx512(g + 128);
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m512i pairs = _mm512_xor_si512(_mm512_shuffle_epi8(s->pairs[0], i ? high : low),
                                               _mm512_shuffle_epi8(s->pairs[1], i ? low : before));
        s->place[2 * i] = select_avx512(upper, pairs, m[i]);
        s->place[2 * i + 1] = select_avx512(upper, m[i], pairs);
    }
}

QSF_TEMPLATE __m512i trellis_step_avx512(const trellis_state_avx512 *s, int j, int k)
{
    const __m512i *t = s->level, bit = _mm512_set1_epi8((char)(1 << j)),
        place = k == 5 ? trellis_nibbles_avx512(s->place[j / 2], j % 2)
                       : trellis_nibbles_avx512(s->place[2 * (j / 4) + j % 2], j / 2 % 2),
        first = _mm512_shuffle_epi8(t[k == 5 ? 0 : j % 2], place);
    if (k < 4) return first;
    const __mmask64 choose = _mm512_test_epi8_mask(s->choose[0], bit);
    if (k == 4) return _mm512_mask_shuffle_epi8(first, choose, t[2 + j % 2], place);
    const __m512i low = _mm512_mask_shuffle_epi8(first, choose, t[1], place),
        high = _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(t[2], place), choose, t[3], place);
    return _mm512_mask_blend_epi8(_mm512_test_epi8_mask(s->choose[1], bit), low, high);
}

#define SET avx512
#include "trellis_avx512.h"

void qsf_trellis_avx512(qsf_kernels *k) { trellis_fill_avx512(k); }

QSF_TARGET_END
#endif
