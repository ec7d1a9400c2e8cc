/* Float helpers of the AVX-512 files: parts of vectors, sums, exp.  Included inside their target
 * region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MATH_AVX512_H
#define QSF_MATH_AVX512_H

/* The first n of 16 lanes; all where n is more. */
QSF_TEMPLATE __mmask16 first_avx512(size_t n) { return (__mmask16)(n < 16 ? (1u << n) - 1 : 0xffff); }

/* The sums of four vectors' lanes. */
QSF_TEMPLATE __m128 sums4_avx512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    /* a, b, a, b in each quarter */
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* e^x for x <= 89, within 2e-7 if |x| <= 10, else within 2e-6; below -87.3 it is 0, NaN stays.
 * n = x / ln 2, rounded, r = what rounding took away; 2^r by the polynomial of least error among
 * those that are 1 at 0. */
QSF_TEMPLATE __m512 exp_avx512(__m512 x)
{
    const __m512 log2e = _mm512_set1_ps(1.44269504f);
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 r = _mm512_fmsub_ps(x, log2e, n);
    __m512 p = _mm512_set1_ps(1.3264727e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.6715128e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5507337e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24022242f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.69314698f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ), p, n);
}

#endif
