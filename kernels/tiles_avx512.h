/* Codes out of tiles with AVX-512.  Included inside a target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_AVX512_H
#define QSF_TILES_AVX512_H

/* Codes with a sign become unsigned by adding 128. */
QSF_TEMPLATE int offset_avx512(qsf_form form)
{
    return form == QSF_F_8 || qsf_form_table(form) ? 128 : qsf_form_offset(form);
}

QSF_TEMPLATE __m512i load_avx512(const void *p) { return _mm512_loadu_si512(p); }
/* v moved left by n bits, or right where n is negative, inside 16-bit lanes. */
QSF_TEMPLATE __m512i shift_avx512(__m512i v, int n)
{
    return n < 0 ? _mm512_srli_epi16(v, (unsigned)-n) : n > 0 ? _mm512_slli_epi16(v, (unsigned)n) : v;
}
/* a where mask has a one, b elsewhere. */
QSF_TEMPLATE __m512i select_avx512(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi64(mask, a, b, 0xca);
}

/* The vectors that the codes come from, loaded once:
 * left to itself, GCC loads them again for each field. */
typedef struct source_avx512 { __m512i low, high; } source_avx512;
QSF_TEMPLATE __m512i fetch_avx512(const uint8_t *p)
{
    __m512i v = load_avx512(p);
    __asm__("" : "+v"(v));
    return v;
}

/* Columns 4j..4j+3 of a group for all 16 rows: unsigned codes as bytes.
 * To be called with j = 0..7 in turn. */
QSF_TEMPLATE __m512i code_avx512(source_avx512 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (bits == 8) return _mm512_xor_si512(load_avx512(g + 64 * j), _mm512_set1_epi8((char)0x80));
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (j % fields == 0) s->low = fetch_avx512(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = fetch_avx512(high);
    if (bits == 6 && j % 4 == 0) s->high = fetch_avx512(high + 64 * (j / 4));
    const __m512i v = shift_avx512(s->low, -low * (j % fields)), m = _mm512_set1_epi8((1 << low) - 1);
    if (bits == 3)
        return _mm512_and_si512(select_avx512(m, v, shift_avx512(s->high, 2 - j)), _mm512_set1_epi8(7));
    if (bits == 5)
        return _mm512_and_si512(select_avx512(m, v, shift_avx512(s->high, 4 - j)), _mm512_set1_epi8(31));
    if (bits == 6)
        return _mm512_and_si512(select_avx512(m, v, shift_avx512(s->high, 4 - 2 * (j % 4))),
                                _mm512_set1_epi8(63));
    if (qsf_form_table(form)) {
        const __m128i table = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)qsf_iq4),
                                            _mm_set1_epi8((char)0x80));
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), _mm512_and_si512(v, m));
    }
    return _mm512_and_si512(v, m);
}
QSF_TEMPLATE __m512i quad_avx512(const int8_t *q, int j)
{
    int32_t a;
    memcpy(&a, q + 4 * j, 4);
    return _mm512_set1_epi32(a);
}
QSF_TEMPLATE __m512 half16_avx512(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

#endif
