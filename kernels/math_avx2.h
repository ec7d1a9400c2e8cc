/* Float helpers of the AVX2 files: parts of vectors, sums, exp and tanh.  Included inside their
 * target region.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MATH_AVX2_H
#define QSF_MATH_AVX2_H

/* The first n of 8 lanes: masked loads and stores do not access the others. */
QSF_TEMPLATE __m256i first_avx2(size_t n)
{
    static const int32_t lanes[16] = { -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0 };
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - n));
}
QSF_TEMPLATE __m256 abs_avx2(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

QSF_TEMPLATE float sum_lanes_avx2(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
/* The lanes' sums of four vectors. */
QSF_TEMPLATE __m128 sums4_avx2(const __m256 v[4])
{
    const __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
QSF_TEMPLATE float max_lanes_avx2(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
QSF_TEMPLATE double sum_lanes_pd_avx2(__m256d v)
{
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}
/* acc + the eight floats, in doubles. */
QSF_TEMPLATE __m256d add_wide_avx2(__m256d acc, __m256 v)
{
    return _mm256_add_pd(acc, _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                                            _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))));
}

/* e^x within 2 units in the last place; below -87.3 (and at -INFINITY) 0, above 88.8 INFINITY, NaN
 * stays.  x = n ln 2 + r, |r| <= ln 2 / 2, e^r by a polynomial (Moshier's Cephes coefficients),
 * then times 2^(n-1) and 2: n may be 128. */
QSF_TEMPLATE __m256 exp_avx2(__m256 x)
{
    /* NaN as second operand passes */
    x = _mm256_max_ps(_mm256_set1_ps(-87.4f), _mm256_min_ps(_mm256_set1_ps(89), x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f),
                                      _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x));
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
    p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(p, r), r, r), _mm256_set1_ps(1));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(126)),
                                            23);
    const __m256 y = _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(power)), _mm256_set1_ps(2));
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* tanh within 2e-7 of its size: a polynomial (Cephes) under 0.625, 1 - 2 / (e^2|x| + 1) above. */
QSF_TEMPLATE __m256 tanh_avx2(__m256 x)
{
    const __m256 a = abs_avx2(x), z = _mm256_mul_ps(x, x);
    __m256 p = _mm256_set1_ps(-5.70498872745e-3f);
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.06390887954e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-5.37397155531e-2f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(1.33314422036e-1f));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(-3.33332819422e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
    const __m256 e = exp_avx2(_mm256_add_ps(a, a));
    __m256 t = _mm256_sub_ps(_mm256_set1_ps(1),
                             _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(e, _mm256_set1_ps(1))));
    t = _mm256_or_ps(t, _mm256_and_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_blendv_ps(t, p, _mm256_cmp_ps(a, _mm256_set1_ps(0.625f), _CMP_LT_OQ));
}

#endif
