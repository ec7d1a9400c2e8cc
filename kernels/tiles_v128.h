/* Codes out of tiles over vectors of 128 bits: a tile is read as four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_V128_H
#define QSF_TILES_V128_H

#include "types_ggml.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* Codes that are numbers with a sign. */
QSF_TEMPLATE bool signed_v128(qsf_form form) { return form == QSF_F_8 || qsf_form_table(form); }

/* The vectors that the codes come from. */
typedef struct source_v128 { v16b low, high; } source_v128;

/* Columns 4j..4j+3 of a group for the 4 rows whose quarter begins at g: codes as bytes.  To be called with j = 0..7 in turn. */
QSF_TEMPLATE v16b code_v128(source_v128 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (bits == 8) return v16_fetch(g + 64 * j);
    const int low = bits < 4 ? 2 : 4, fields = 8 / low, f = j % fields;
    const uint8_t *high = g + 64 * low;
    if (f == 0) s->low = v16_fetch(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = v16_fetch(high);
    if (bits == 6 && j % 4 == 0) s->high = v16_fetch(high + 64 * (j / 4));
    const v16b c = v16_shift(s->low, -low * f);
    if (bits == 3 || bits == 5) return v16_join(c, v16_shift(s->high, low - j), low, bits);
    if (bits == 6) return v16_join(c, v16_shift(s->high, 4 - 2 * (j % 4)), low, bits);
    const v16b code = v16_cut(c, low, f == fields - 1);
    return qsf_form_table(form) ? v16_table(qsf_iq4, code) : code;
}

#if defined(__x86_64__)
/* How many pmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127 where codes have a sign. */
QSF_TEMPLATE int sums16_sse42(qsf_form form)
{
    const int bits = qsf_form_bits(form);
    return signed_v128(form) ? 1 : bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : 2;
}

/* Pairs of products in 16 bits.  Signed codes: |c| times q with c's sign; |-128| is 128 as an unsigned byte, and q is never -128. */
QSF_TEMPLATE __m128i products_sse42(__m128i c, __m128i q, qsf_form form)
{
    if (signed_v128(form)) return _mm_maddubs_epi16(_mm_abs_epi8(c), _mm_sign_epi8(q, c));
    return _mm_maddubs_epi16(c, q);
}
QSF_TEMPLATE __m128i widen_sse42(__m128i s16) { return _mm_madd_epi16(s16, _mm_set1_epi16(1)); }
#endif

QSF_V128_END
#endif
#endif
