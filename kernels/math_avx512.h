/* Float helpers of the AVX-512 files: parts of vectors and sums.  Included inside their target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MATH_AVX512_H
#define QSF_MATH_AVX512_H

/* The first n of 16 lanes; all where n is more. */
QSF_TEMPLATE __mmask16 first_avx512(size_t n) { return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff); }

/* The sums of four vectors' lanes. */
QSF_TEMPLATE __m128 sums4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));        /* a, b, a, b in each quarter */
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

#endif
