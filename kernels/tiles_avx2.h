/* Codes out of tiles with AVX2, and their products.  Included inside a target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_AVX2_H
#define QSF_TILES_AVX2_H

/* rows of activations that share one unpacking of the weights; with 16, rows of 1 or 2 KB fight for
 * cache sets */
enum { TOKENS_AVX2 = 8 };

/* How many vpmaddubsw results an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 128 * 127
 * for signed codes. */
QSF_TEMPLATE int sums16_avx2(qsf_form form)
{
    const int bits = qsf_form_width(form);
    return qsf_form_signed(form) ? 1 : bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
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

/* Of 16 values those at places c. */
QSF_TEMPLATE __m256i look_up_avx2(const int8_t *values, __m256i c)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), c);
}

/* Columns 4j..4j+3 of a group for the 8 rows whose half begins at g: codes as bytes.  To be called
 * with j = 0..7 in turn. */
QSF_TEMPLATE __m256i code_avx2(source_avx2 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (bits == 8) return fetch_avx2(g + 64 * j);
    if (bits == 1) {
        if (j == 0) s->low = fetch_avx2(g);
        return _mm256_and_si256(shift_avx2(s->low, 1 - j), _mm256_set1_epi8(2));
    }
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (j % fields == 0) s->low = fetch_avx2(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = fetch_avx2(high);
    if (bits == 6 && j % 4 == 0) s->high = fetch_avx2(high + 64 * (j / 4));
    const __m256i c = _mm256_and_si256(shift_avx2(s->low, -low * (j % fields)),
                                       _mm256_set1_epi8((1 << low) - 1));
    if (bits == 3) {
        const __m256i all = _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 2 - j),
                                                                _mm256_set1_epi8(4)));
        return qsf_form_levels(form) ? look_up_avx2(qsf_levels_of(form), all) : all;
    }
    if (bits == 5)
        return _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 4 - j), _mm256_set1_epi8(16)));
    if (bits == 6)
        return _mm256_or_si256(c, _mm256_and_si256(shift_avx2(s->high, 4 - 2 * (j % 4)),
                                                   _mm256_set1_epi8(48)));
    if (qsf_form_table(form)) return look_up_avx2(qsf_iq4, c);
    if (qsf_form_fp4(form)) return look_up_avx2(qsf_fp4_codes, c);
    if (qsf_form_mapped(form)) return look_up_avx2(qsf_qk256, c);
    if (qsf_form_levels(form)) return look_up_avx2(qsf_levels_of(form), c);
    return c;
}

/* Pairs of products in 16 bits.  Signed codes: |c| times q with c's sign; |-128| is 128 as an
 * unsigned byte, and q is never -128. */
QSF_TEMPLATE __m256i products_avx2(__m256i c, __m256i q, qsf_form form)
{
    if (qsf_form_signed(form)) return _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(q, c));
    return _mm256_maddubs_epi16(c, q);
}
QSF_TEMPLATE __m256i widen_avx2(__m256i s16) { return _mm256_madd_epi16(s16, _mm256_set1_epi16(1)); }
/* One after another: GCC would multiply many columns first, and run out of registers. */
QSF_TEMPLATE void add_here_avx2(__m256i *sum, __m256i v)
{
    *sum = _mm256_add_epi16(*sum, v);
    __asm__("" : "+x"(*sum));
}
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
QSF_TEMPLATE __m256i bytes8_avx2(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
QSF_TEMPLATE __m256i shorts8_avx2(const uint8_t *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
/* The scales of half h in a tile's head at w; NV4: those of 16 columns, w is moved to them. */
QSF_TEMPLATE __m256 scale8_avx2(const uint8_t *w, int h, qsf_form form)
{
    if (qsf_form_bare(form)) return _mm256_set1_ps(1);
    if (form == QSF_F_MX4) {    /* in two steps: the smallest ones are subnormal floats */
        const __m256i e = bytes8_avx2(w + 8 * h), half = _mm256_srli_epi32(e, 1),
            low = _mm256_add_epi32(half, _mm256_set1_epi32(63)),
            high = _mm256_add_epi32(_mm256_sub_epi32(e, half), _mm256_set1_epi32(63));
        return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(low, 23)),
                             _mm256_castsi256_ps(_mm256_slli_epi32(high, 23)));
    }
    if (form == QSF_F_NV4) {
        const __m256i e = bytes8_avx2(w + 8 * h), none = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(0x7f)),
            seven = _mm256_and_si256(e, _mm256_set1_epi32(0x7f)),
            bits = _mm256_andnot_si256(none, _mm256_slli_epi32(seven, 20));
        return _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p119f));
    }
    if (form == QSF_F_8K)
        return _mm256_castsi256_ps(_mm256_or_si256(shorts8_avx2(w + 16 * h),
                                                   _mm256_slli_epi32(shorts8_avx2(w + 32 + 16 * h), 16)));
    if (qsf_form_levels(form)) {        /* to the places of fp16's sign, and of the other seven bits */
        const __m128i e = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(w + 8 * h))),
            sign = _mm_and_si128(_mm_slli_epi16(e, 8), _mm_set1_epi16((short)0x8000)),
            rest = _mm_and_si128(_mm_slli_epi16(e, 7), _mm_set1_epi16(0x3f80));
        return _mm256_cvtph_ps(_mm_or_si128(sign, rest));
    }
    return half8_avx2(w + 16 * h);
}

/* ---- TQ1: bytes are fractions of 256, each step takes a digit to the base 3 from their top
 * ---- */
/* With 128 taken off, so that bytes compare as numbers with a sign; times 3 that stays so. */
QSF_TEMPLATE __m256i tq1_fetch_avx2(const uint8_t *p)
{
    return _mm256_xor_si256(load_avx2(p), _mm256_set1_epi8((char)0x80));
}
/* 3v reaches 256 from 86 on, and 512 from 171 on. */
QSF_TEMPLATE __m256i tq1_digit_avx2(__m256i *v)
{
    const __m256i one = _mm256_cmpgt_epi8(*v, _mm256_set1_epi8(85 - 128)),
        two = _mm256_cmpgt_epi8(*v, _mm256_set1_epi8(170 - 128));
    *v = _mm256_add_epi8(*v, _mm256_add_epi8(*v, *v));
    return _mm256_sub_epi8(_mm256_sub_epi8(_mm256_setzero_si256(), one), two);
}
/* Digits of a half as bytes: QSF_TQ1_CODES with a tile's other half. */
QSF_TEMPLATE void tq1_expand_half_avx2(uint8_t *to, const uint8_t *vectors)
{
    for (int i = 0; i < 12; i++) {
        __m256i v = tq1_fetch_avx2(vectors + 64 * i);
        uint8_t *at = to + 64 * (i < 8 ? i : 32 + i);
        QSF_UNROLL
        for (int n = 0; n < 5; n++, at += 64 * (i < 8 ? 8 : 4))
            _mm256_storeu_si256((__m256i *)(void *)at, tq1_digit_avx2(&v));
    }
    __m256i v = tq1_fetch_avx2(vectors + 64 * 12);
    QSF_UNROLL
    for (int n = 0; n < 4; n++)
        _mm256_storeu_si256((__m256i *)(void *)(to + 64 * (60 + n)), tq1_digit_avx2(&v));
}
QSF_TEMPLATE void tq1_expand_avx2(uint8_t *to, const uint8_t *tile)
{
    tq1_expand_half_avx2(to, tile + 32);
    tq1_expand_half_avx2(to + 32, tile + 64);
}

#endif
