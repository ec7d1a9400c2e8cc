/* Codes out of tiles with AVX2, and their products.  Included inside a target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_AVX2_H
#define QSF_TILES_AVX2_H

/* rows of activations that share one unpacking of the weights; with 16, rows of 1 or 2 KB fight for
 * cache sets */
enum { TOKENS_AVX2 = 8 };

/* Codes that are numbers with a sign. */
QSF_TEMPLATE bool signed_avx2(qsf_form form) { return form == QSF_F_8 || qsf_form_table(form); }
/* How many vpmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127
 * where codes have a sign. */
QSF_TEMPLATE int sums16_avx2(qsf_form form)
{
    const int bits = qsf_form_bits(form);
    return signed_avx2(form) ? 1 : bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : 2;
}

QSF_TEMPLATE __m256i load_avx2(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* v moved left by n bits, or right where n is negative, inside 16-bit lanes. */
QSF_TEMPLATE __m256i shift_avx2(__m256i v, int n)
{
    return n < 0 ? _mm256_srli_epi16(v, -n) : n > 0 ? _mm256_slli_epi16(v, n) : v;
}

/* The vectors that the codes come from, loaded once:
 * left to itself, GCC loads them again for each field. */
typedef struct source_avx2 { __m256i low, high; } source_avx2;
QSF_TEMPLATE __m256i fetch_avx2(const uint8_t *p)
{
    __m256i v = load_avx2(p);
    __asm__("" : "+x"(v));
    return v;
}

/* Columns 4j..4j+3 of a group for the 8 rows whose half begins at g: codes as bytes.  To be called
 * with j = 0..7 in turn. */
QSF_TEMPLATE __m256i code_avx2(source_avx2 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (bits == 8) return fetch_avx2(g + 64 * j);
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (j % fields == 0) s->low = fetch_avx2(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = fetch_avx2(high);
    if (bits == 6 && j % 4 == 0) s->high = fetch_avx2(high + 64 * (j / 4));
    const __m256i c = _mm256_and_si256(shift_avx2(s->low, -low * (j % fields)),
                                       _mm256_set1_epi8((1 << low) - 1));
    if (bits == 3)
        return _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 2 - j), _mm256_set1_epi8(4)));
    if (bits == 5)
        return _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 4 - j), _mm256_set1_epi8(16)));
    if (bits == 6)
        return _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 4 - 2 * (j % 4)),
                                                   _mm256_set1_epi8(48)));
    if (qsf_form_table(form)) {
        const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)qsf_iq4);
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), c);
    }
    return c;
}

/* Pairs of products in 16 bits.  Signed codes: |c| times q with c's sign; |-128| is 128 as an
 * unsigned byte, and q is never -128. */
QSF_TEMPLATE __m256i products_avx2(__m256i c, __m256i q, qsf_form form)
{
    if (signed_avx2(form)) return _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(q, c));
    return _mm256_maddubs_epi16(c, q);
}
QSF_TEMPLATE __m256i widen_avx2(__m256i s16) { return _mm256_madd_epi16(s16, _mm256_set1_epi16(1)); }
QSF_TEMPLATE __m256i quad_avx2(const int8_t *q, int j)
{
    int32_t a;
    memcpy(&a, q + 4 * j, 4);
    return _mm256_set1_epi32(a);
}
QSF_TEMPLATE __m256 half8_avx2(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

#endif
