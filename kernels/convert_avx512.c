/* Codes of activations, and the mixture of keys' and queries' channels, with AVX-512.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

/* ---- activations: four scales, 256 columns, at a time ---- */

/* 32-bit element 4i + j of the result is 4j + i of v. */
QSF_TEMPLATE __m512i turned_avx512(__m512i v)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                                    v);
}

/* The bits of the largest of 64 |x|, in all lanes of quarter i for the i-th 64.  As whole numbers,
 * infinities and NaN are larger than all others. */
QSF_TEMPLATE __m512i largest_avx512(const float *x)
{
    __m512i v[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_setzero_si512();
        QSF_UNROLL
        for (int j = 0; j < 4; j++)
            v[i] = _mm512_max_epu32(v[i], _mm512_and_si512(_mm512_loadu_si512(x + 64 * i + 16 * j),
                                                           _mm512_set1_epi32(0x7fffffff)));
    }
    const __m512i a = _mm512_max_epu32(_mm512_shuffle_i32x4(v[0], v[1], 0x44),
                                       _mm512_shuffle_i32x4(v[0], v[1], 0xee));
    const __m512i b = _mm512_max_epu32(_mm512_shuffle_i32x4(v[2], v[3], 0x44),
                                       _mm512_shuffle_i32x4(v[2], v[3], 0xee));
    __m512i top = _mm512_max_epu32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
    top = _mm512_max_epu32(top, _mm512_shuffle_epi32(top, 0x4e));
    return _mm512_max_epu32(top, _mm512_shuffle_epi32(top, 0xb1));
}

/* 64 codes: to nearest even. */
QSF_TEMPLATE __m512i codes64_avx512(const float *x, __m512 f)
{
    __m512i c[4];
    QSF_UNROLL
    for (int j = 0; j < 4; j++) c[j] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * j), f));
    /* the packs work in quarters */
    return turned_avx512(_mm512_packs_epi16(_mm512_packs_epi32(c[0], c[1]), _mm512_packs_epi32(c[2], c[3])));
}

/* The sums of 256 codes, as in qsf_act. */
QSF_TEMPLATE void sums256_avx512(int16_t *h, float *s, const __m512i codes[4])
{
    __m512i v[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) v[i] = _mm512_maddubs_epi16(_mm512_set1_epi8(1), codes[i]);
    const __m512i a = _mm512_add_epi16(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b = _mm512_add_epi16(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i of16 = turned_avx512(_mm512_add_epi16(_mm512_unpacklo_epi64(a, b),
                                                        _mm512_unpackhi_epi64(a, b)));
    const __m512i all = _mm512_madd_epi16(of16, _mm512_set1_epi16(1));
    const __m512i of32 = _mm512_add_epi32(all, _mm512_srli_epi64(all, 32));
    _mm512_storeu_si512(h, of16);
    _mm256_storeu_ps(s, _mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(of32)));
}

/* False: they are not finite. */
static bool encode256_avx512(int8_t *q, float *d, float *s, int16_t *h, const float *x)
{
    const __m512i bits = largest_avx512(x);
    if (_mm512_cmpge_epu32_mask(bits, _mm512_set1_epi32(0x7f800000))) return false;
    const __m512 scale = _mm512_div_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(127));
    const __mmask16 normal = _mm512_cmp_ps_mask(scale, _mm512_set1_ps(FLT_MIN), _CMP_GE_OQ);
    const __m512 f = _mm512_maskz_div_ps(normal, _mm512_set1_ps(1), scale);
    const __m512i codes[4] = { codes64_avx512(x, _mm512_shuffle_f32x4(f, f, 0x00)),
                               codes64_avx512(x + 64, _mm512_shuffle_f32x4(f, f, 0x55)),
                               codes64_avx512(x + 128, _mm512_shuffle_f32x4(f, f, 0xaa)),
                               codes64_avx512(x + 192, _mm512_shuffle_f32x4(f, f, 0xff)) };
    QSF_UNROLL
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(q + 64 * i, codes[i]);
    const __m512i kept = turned_avx512(_mm512_castps_si512(_mm512_maskz_mov_ps(normal, scale)));
    _mm_storeu_si128((__m128i *)(void *)d, _mm512_castsi512_si128(kept));
    sums256_avx512(h, s, codes);
    return true;
}

static void quantize_act_avx512(qsf_act *a, size_t m, const float *x, size_t cols)
{
    int8_t *q = a->q + m * a->cols;
    float *d = a->d + m * (a->cols / 64), *s = a->s + m * (a->cols / 32);
    int16_t *h = a->h + m * (a->cols / 8);
    for (size_t at = 0; at < a->cols; at += 256, q += 256, d += 4, s += 8, h += 32) {
        float own[256];
        const size_t n = at < cols ? QSF_MIN(cols - at, (size_t)256) : 0;
        if (n == 256 && encode256_avx512(q, d, s, h, x + at)) continue;
        memset(own, 0, sizeof own);             /* the last part of a row, or NaN and infinities */
        for (size_t i = 0; i < n; i++)
            own[i] = x[at + i] != x[at + i] ? 0 : QSF_MAX(-FLT_MAX, QSF_MIN(x[at + i], FLT_MAX));
        (void)encode256_avx512(q, d, s, h, own);
    }
}

/* ---- the mixture of channels ---- */

/* Sums and differences of lanes half apart. */
QSF_TEMPLATE __m512 hadamard_lanes_avx512(__m512 x, int half)
{
    static const __mmask16 later[4] = { 0xaaaa, 0xcccc, 0xf0f0, 0xff00 };
    const __m512 other = half == 1 ? _mm512_permute_ps(x, 0xb1) : half == 2 ? _mm512_permute_ps(x, 0x4e)
        : half == 4 ? _mm512_shuffle_f32x4(x, x, 0xb1) : _mm512_shuffle_f32x4(x, x, 0x4e);
    const __mmask16 from = later[half == 1 ? 0 : half == 2 ? 1 : half == 4 ? 2 : 3];
    return _mm512_mask_sub_ps(_mm512_add_ps(x, other), from, other, x);
}
static void hadamard_inplace_avx512(float *x, size_t n, size_t apart)
{
    const size_t whole = n & (~n + 1);
    if (whole < 16 || apart > 8) {
        qsf_hadamard_scalar(x, n, apart);
        return;
    }
    const __m512 scale = _mm512_set1_ps(qsf_hadamard_scale(whole, apart));
    for (size_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        if (apart <= 1) v = hadamard_lanes_avx512(v, 1);
        if (apart <= 2) v = hadamard_lanes_avx512(v, 2);
        if (apart <= 4) v = hadamard_lanes_avx512(v, 4);
        v = hadamard_lanes_avx512(v, 8);
        _mm512_storeu_ps(x + i, whole == 16 ? _mm512_mul_ps(v, scale) : v);
    }
    for (size_t half = 16; half < whole; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t j = i; j < i + half; j += 16) {
                const __m512 a = _mm512_loadu_ps(x + j), b = _mm512_loadu_ps(x + j + half);
                const __m512 sum = _mm512_add_ps(a, b), less = _mm512_sub_ps(a, b);
                const bool last = 2 * half == whole;
                _mm512_storeu_ps(x + j, last ? _mm512_mul_ps(sum, scale) : sum);
                _mm512_storeu_ps(x + j + half, last ? _mm512_mul_ps(less, scale) : less);
            }
}

void qsf_convert_avx512(qsf_kernels *k)
{
    k->quantize_act = quantize_act_avx512;
    k->hadamard_inplace = hadamard_inplace_avx512;
}

QSF_TARGET_END
#endif
