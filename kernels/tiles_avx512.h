/* Codes out of tiles with AVX-512.  Included inside a target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TILES_AVX512_H
#define QSF_TILES_AVX512_H

/* Codes with a sign become unsigned by adding 128. */
QSF_TEMPLATE int offset_avx512(qsf_form form)
{
    return qsf_form_signed(form) ? 128 : qsf_form_offset(form);
}

QSF_TEMPLATE __m512i load_avx512(const void *p) { return _mm512_loadu_si512(p); }
/* v moved left by n bits, or right where n is negative, inside 16-bit lanes. */
QSF_TEMPLATE __m512i shift_avx512(__m512i v, int n)
{
    return n < 0 ? _mm512_srli_epi16(v, (unsigned)-n) : n > 0 ? _mm512_slli_epi16(v, (unsigned)n) : v;
}
/* a where mask has a 1 bit, b elsewhere. */
QSF_TEMPLATE __m512i select_avx512(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi64(mask, a, b, 0xca);
}

/* Prefetches `bytes` of weights that are multiplied soon.  With more than one row of activations
 * the processor does not look far enough ahead on its own: reading stalled half of the time. */
enum { AHEAD_AVX512 = 1536 };
QSF_TEMPLATE void prefetch_avx512(const uint8_t *p, size_t bytes)
{
    QSF_UNROLL
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)p + i, _MM_HINT_T0);
}
/* How far ahead, for rows of activations from m on, of n: the last ones to meet a tile row, which
 * is in the cache by then, ask for the next. */
QSF_TEMPLATE size_t ahead_avx512(size_t m, size_t n, size_t row_bytes)
{
    return m + 8 < n || !m ? (size_t)AHEAD_AVX512 : row_bytes;
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

/* Of 16 values those at places c. */
QSF_TEMPLATE __m512i look_up_avx512(const int8_t *values, __m512i c)
{
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), c);
}

/* Columns 4j..4j+3 of a group for all 16 rows: unsigned codes as bytes.
 * To be called with j = 0..7 in turn. */
QSF_TEMPLATE __m512i code_avx512(source_avx512 *s, const uint8_t *g, int j, qsf_form form)
{
    const int bits = qsf_form_bits(form);
    if (form == QSF_F_TQ1) return load_avx512(g + 64 * j);
    if (bits == 1) {
        if (j == 0) s->low = fetch_avx512(g);
        return _mm512_and_si512(shift_avx512(s->low, 1 - j), _mm512_set1_epi8(2));
    }
    if (bits == 8) return _mm512_xor_si512(load_avx512(g + 64 * j), _mm512_set1_epi8((char)0x80));
    const int low = bits < 4 ? 2 : 4, fields = 8 / low;
    const uint8_t *high = g + 64 * low;
    if (j % fields == 0) s->low = fetch_avx512(g + 64 * (j / fields));
    if ((bits == 3 || bits == 5) && j == 0) s->high = fetch_avx512(high);
    if (bits == 6 && j % 4 == 0) s->high = fetch_avx512(high + 64 * (j / 4));
    const __m512i v = shift_avx512(s->low, -low * (j % fields)), m = _mm512_set1_epi8((1 << low) - 1);
    if (bits == 3) {
        const __m512i all = _mm512_and_si512(select_avx512(m, v, shift_avx512(s->high, 2 - j)),
                                             _mm512_set1_epi8(7));
        return qsf_form_levels(form) ? look_up_avx512(qsf_levels_of(form), all) : all;
    }
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
    if (qsf_form_fp4(form)) return look_up_avx512(qsf_fp4_codes, _mm512_and_si512(v, m));
    if (qsf_form_mapped(form)) return look_up_avx512(qsf_qk256, _mm512_and_si512(v, m));
    if (qsf_form_levels(form)) return look_up_avx512(qsf_levels_of(form), _mm512_and_si512(v, m));
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
QSF_TEMPLATE __m512i bytes16_avx512(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
QSF_TEMPLATE __m512i shorts16_avx512(const uint8_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* The scales in a tile's head at w; NV4: those of 16 columns, w is moved to them. */
QSF_TEMPLATE __m512 scale16_avx512(const uint8_t *w, qsf_form form)
{
    if (qsf_form_bare(form)) return _mm512_set1_ps(1);
    if (form == QSF_F_MX4) {    /* in two steps: the smallest ones are subnormal floats */
        const __m512i e = bytes16_avx512(w), half = _mm512_srli_epi32(e, 1), bias = _mm512_set1_epi32(63),
            low = _mm512_add_epi32(half, bias), high = _mm512_add_epi32(_mm512_sub_epi32(e, half), bias);
        return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(low, 23)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(high, 23)));
    }
    if (form == QSF_F_NV4) {
        const __m512i e = bytes16_avx512(w), most = _mm512_set1_epi32(0x7f),
            bits = _mm512_maskz_slli_epi32(_mm512_cmpneq_epi32_mask(e, most), _mm512_and_si512(e, most), 20);
        return _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p119f));
    }
    if (form == QSF_F_8K)
        return _mm512_castsi512_ps(_mm512_or_si512(shorts16_avx512(w),
                                                   _mm512_slli_epi32(shorts16_avx512(w + 32), 16)));
    if (qsf_form_levels(form)) {        /* to the places of fp16's sign, and of the other seven bits */
        const __m256i e = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w)),
            sign = _mm256_and_si256(_mm256_slli_epi16(e, 8), _mm256_set1_epi16((short)0x8000)),
            rest = _mm256_and_si256(_mm256_slli_epi16(e, 7), _mm256_set1_epi16(0x3f80));
        return _mm512_cvtph_ps(_mm256_or_si256(sign, rest));
    }
    return half16_avx512(w);
}

/* ---- TQ1: bytes are fractions of 256, each step takes a digit to the base 3 from their top
 * ---- */
/* Less one, and 0 as 1: its first five digits are zeros too. */
QSF_TEMPLATE __m512i tq1_fetch_avx512(const uint8_t *p)
{
    return _mm512_subs_epu8(load_avx512(p), _mm512_set1_epi8(1));
}
/* The digit times 64: three quarters of the byte, rounded up, reach 64 from 85 on and 128 from
 * 170 on. */
QSF_TEMPLATE __m512i tq1_digit_avx512(__m512i *v)
{
    const __m512i some = _mm512_avg_epu8(*v, _mm512_avg_epu8(*v, _mm512_setzero_si512()));
    *v = _mm512_add_epi8(_mm512_add_epi8(*v, *v), _mm512_add_epi8(*v, _mm512_set1_epi8(2)));
    return _mm512_and_si512(some, _mm512_set1_epi8((char)0xc0));
}
QSF_TEMPLATE void tq1_expand_avx512(uint8_t *to, const uint8_t *tile)
{
    for (int i = 0; i < 13; i++) {
        __m512i v = tq1_fetch_avx512(tile + 32 + 64 * i);
        const int digits = i < 12 ? 5 : 4;
        uint8_t *at = to + 64 * (i < 8 ? i : i < 12 ? 32 + i : 60);
        for (int n = 0; n < digits; n++, at += 64 * (i < 8 ? 8 : i < 12 ? 4 : 1))
            _mm512_storeu_si512(at, _mm512_srli_epi16(tq1_digit_avx512(&v), 6));
    }
}

#endif
