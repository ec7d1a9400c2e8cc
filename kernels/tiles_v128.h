/* Codes out of tiles over vectors of 128 bits: a tile is read as four quarters of 4 rows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_V128_H
#define QSF_TILES_V128_H

#include "tensor/types.h"
#include "tensor/types_ggml.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* Codes that are numbers with a sign. */
QSF_TEMPLATE bool signed_v128(qsf_form form)
{
    return qsf_form_signed(form) || qsf_form_iq(form);
}

/* The vectors that the codes come from. */
typedef struct source_v128 { v16b low, high; } source_v128;

/* Columns 4j..4j+3 of a group for 4 rows: codes as bytes.  low, high: the vectors that hold their
 * low and their high bits. */
QSF_TEMPLATE v16b code_of_v128(v16b low, v16b high, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form), n = bits < 4 ? 2 : 4, fields = 8 / n, f = j % fields;
    if (bits == 8) return low;
    if (bits == 1) return v16_shift(low, 1 - j) & v16_set1(2);
    const v16b c = v16_shift(low, -n * f);
    if (bits == 3 || bits == 5) {
        const v16b all = v16_join(c, v16_shift(high, n - j), n, bits);
        return qsf_form_levels(form) ? v16_table(qsf_levels_of(form), all) : all;
    }
    if (bits == 6) return v16_join(c, v16_shift(high, 4 - 2 * (j % 4)), n, bits);
    const v16b code = v16_cut(c, n, f == fields - 1);
    if (qsf_form_mapped(form)) return v16_table(qsf_qk256, code);
    if (qsf_form_levels(form)) return v16_table(qsf_levels_of(form), code);
    return qsf_form_table(form) ? v16_table(qsf_iq4, code)
        : qsf_form_fp4(form) ? v16_table(qsf_fp4_codes, code) : code;
}
/* The same for the rows whose quarter begins at g.  To be called with j = 0..7 in turn. */
QSF_TEMPLATE v16b code_v128(source_v128 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form), low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (bits == 1) { if (j == 0) s->low = v16_fetch(g); }
    else if (bits == 8) s->low = v16_fetch(g + 64 * j);
    else if (j % fields == 0) s->low = v16_fetch(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = v16_fetch(high);
    if (bits == 6 && j % 4 == 0) s->high = v16_fetch(high + 64 * (j / 4));
    return code_of_v128(s->low, s->high, j, form);
}

/* The scales of a tile's 16 rows; NV4: those of 16 columns, w is moved to them. */
QSF_TEMPLATE void scales_v128(v4f out[4], const uint8_t *w, qsf_form form)
{
    if (qsf_form_bare(form)) {
        for (int i = 0; i < 4; i++) out[i] = v4_set1(1);
    } else if (form == QSF_F_MX4) {     /* in two steps: the smallest ones are subnormal floats */
        v4i e[4];
        v16_ints(e, v16_load(w));
        for (int i = 0; i < 4; i++) {
            const v4i all = e[i] & v4_set1i(255), half = all >> 1;
            out[i] = (v4f)((half + v4_set1i(63)) << 23) * (v4f)((all - half + v4_set1i(63)) << 23);
        }
    } else if (form == QSF_F_NV4) {
        const v16b e = v16_load(w);
        v4i seven[4];
        v16_ints(seven, (e & v16_set1(0x7f)) & ~v16_above(e, v16_set1(0x7e)));
        for (int i = 0; i < 4; i++) out[i] = (v4f)(seven[i] << 20) * v4_set1(0x1p119f);
    } else if (form == QSF_F_8K) {
        v16b half[4];
        for (int i = 0; i < 4; i++) half[i] = v16_load(w + 16 * i);
        for (int i = 0; i < 2; i++) {
            out[2 * i] = (v4f)v8_zip_low(half[i], half[2 + i]);
            out[2 * i + 1] = (v4f)v8_zip_high(half[i], half[2 + i]);
        }
    } else if (qsf_form_levels(form)) {     /* exponent and mantissa moved to a float's, 8 as fp16's */
        v4i e[4];
        v16_ints(e, v16_load(w));
        for (int i = 0; i < 4; i++) {
            const v4i bits = (e[i] & v4_set1i(INT32_MIN)) | (e[i] & v4_set1i(0x7f)) << 20;
            out[i] = (v4f)bits * v4_set1(0x1p112f);
        }
    } else {
        v8_halves(out, w);
        v8_halves(out + 2, w + 16);
    }
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
    v4_store(y, qsf_form_negated(form) ? v4_set1(0) - v : v);
}

#if defined(__x86_64__)
/* How many pmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127
 * for signed codes. */
QSF_TEMPLATE int sums16_sse42(qsf_form form)
{
    const int bits = qsf_form_width(form);
    return qsf_form_iq(form) ? 2 : signed_v128(form) ? 1 : bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4
        : bits == 6 ? 2 : 1;
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
