/* Codes out of tiles over vectors of 128 bits: a tile is read as four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_V128_H
#define QSF_TILES_V128_H

#include "tensor/types_ggml.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* Codes that are numbers with a sign. */
QSF_TEMPLATE bool signed_v128(qsf_form form) { return form == QSF_F_8 || qsf_form_table(form); }

/* The vectors that the codes come from. */
typedef struct source_v128 { v16b low, high; } source_v128;

/* Columns 4j..4j+3 of a group for 4 rows: codes as bytes.  low, high: the vectors that hold their
 * low and their high bits. */
QSF_TEMPLATE v16b code_of_v128(v16b low, v16b high, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form), n = bits < 4 ? 2 : 4, fields = 8 / n, f = j % fields;
    if (bits == 8) return low;
    const v16b c = v16_shift(low, -n * f);
    if (bits == 3 || bits == 5) return v16_join(c, v16_shift(high, n - j), n, bits);
    if (bits == 6) return v16_join(c, v16_shift(high, 4 - 2 * (j % 4)), n, bits);
    const v16b code = v16_cut(c, n, f == fields - 1);
    return qsf_form_table(form) ? v16_table(qsf_iq4, code) : code;
}
/* The same for the rows whose quarter begins at g.  To be called with j = 0..7 in turn. */
QSF_TEMPLATE v16b code_v128(source_v128 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form), low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (bits == 8) s->low = v16_fetch(g + 64 * j);
    else if (j % fields == 0) s->low = v16_fetch(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = v16_fetch(high);
    if (bits == 6 && j % 4 == 0) s->high = v16_fetch(high + 64 * (j / 4));
    return code_of_v128(s->low, s->high, j, form);
}

/* acc + d * (value of the integer sums); sq is the plain sum of the activations.  The offset's part
 * is exact, as is the difference. */
QSF_TEMPLATE v4f value_v128(v4f acc, v4i sum, v4f scale, v4f zero, v4f d, v4f sq, qsf_form form)
{
    const v4f f = v4_float(sum);
    if (qsf_form_has_zero(form)) return acc + d * (scale * f + zero * sq);
    if (!qsf_form_offset(form)) return acc + scale * d * f;
    return acc + scale * d * (f - v4_set1((float)qsf_form_offset(form)) * sq);
}
QSF_TEMPLATE void store_v128(float *y, v4f v, qsf_form form)
{
    v4_store(y, form == QSF_F_TERNARY ? v4_set1(0) - v : v);
}

#if defined(__x86_64__)
/* How many pmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127
 * where codes have a sign. */
QSF_TEMPLATE int sums16_sse42(qsf_form form)
{
    const int bits = qsf_form_bits(form);
    return signed_v128(form) ? 1 : bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : 2;
}

/* Pairs of products in 16 bits.  Signed codes: |c| times q with c's sign; |-128| is 128 as an
 * unsigned byte, and q is never -128. */
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
