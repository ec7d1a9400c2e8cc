/* From one number format to another with AVX2 and F16C: int8 activations, half floats, keys and
 * values.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* NaN to 0, infinities to the largest float. */
QSF_TEMPLATE __m256 finite_avx2(__m256 x)
{
    const __m256 most = _mm256_set1_ps(FLT_MAX);
    x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_max_ps(_mm256_min_ps(x, most), _mm256_sub_ps(_mm256_setzero_ps(), most));
}

/* The largest finite |x| of n. */
static float largest_finite_avx2(const float *x, size_t n)
{
    __m256 top = _mm256_setzero_ps();
    size_t i = 0;
    /* NaN as first operand is passed over */
    for (; i + 8 <= n; i += 8) top = _mm256_max_ps(abs_avx2(_mm256_loadu_ps(x + i)), top);
    if (i < n) top = _mm256_max_ps(abs_avx2(_mm256_maskload_ps(x + i, first_avx2(n - i))), top);
    return QSF_MIN(max_lanes_avx2(top), FLT_MAX);
}

/* 32 floats to codes: to nearest even. */
QSF_TEMPLATE __m256i codes32_avx2(const float *x, __m256 f)
{
    __m256i c[4];
    for (int j = 0; j < 4; j++)
        c[j] = _mm256_cvtps_epi32(_mm256_mul_ps(finite_avx2(_mm256_loadu_ps(x + 8 * j)), f));
    const __m256i v = _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
    /* the packs work in halves */
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
/* The sums of 32 codes: h[2][2] as in qsf_act, and of all. */
QSF_TEMPLATE float sum32_avx2(int16_t *h, __m256i codes)
{
    __m256i s = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    s = _mm256_add_epi16(s, _mm256_srli_si256(s, 8));
    s = _mm256_add_epi16(s, _mm256_srli_si256(s, 4));
    const int32_t two[2] = { _mm_cvtsi128_si32(_mm256_castsi256_si128(s)),
                             _mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)) };
    memcpy(h, two, sizeof two);
    return (float)(h[0] + h[1] + h[2] + h[3]);
}

static void quantize_act_avx2(qsf_act *a, size_t m, const float *x, size_t cols)
{
    int8_t *q = a->q + m * a->cols;
    float *d = a->d + m * (a->cols / 64), *s = a->s + m * (a->cols / 32);
    int16_t *h = a->h + m * (a->cols / 8);
    for (size_t at = 0; at < a->cols; at += 64, q += 64, d++, s += 2, h += 8) {
        float tail[64];
        const float *from = tail;
        if (at + 64 <= cols) from = x + at;
        else {                                          /* the last part of a row, and what follows it */
            memset(tail, 0, sizeof tail);
            if (at < cols) memcpy(tail, x + at, (cols - at) * sizeof *x);
        }
        const float scale = largest_finite_avx2(from, 64) / 127;
        *d = scale < FLT_MIN ? 0 : scale;
        const __m256 f = _mm256_set1_ps(*d > 0 ? 1 / *d : 0);
        const __m256i low = codes32_avx2(from, f), high = codes32_avx2(from + 32, f);
        _mm256_storeu_si256((__m256i *)(void *)q, low);
        _mm256_storeu_si256((__m256i *)(void *)(q + 32), high);
        s[0] = sum32_avx2(h, low);
        s[1] = sum32_avx2(h + 4, high);
    }
}

/* Codes of 32 values at once; the last part goes through a buffer. */
static void quantize_kv_8bit_avx2(int8_t *out, float *scale, const float *in, size_t n)
{
    const float d = largest_finite_avx2(in, n) / 127;
    *scale = d < FLT_MIN ? 0 : d;
    const __m256 f = _mm256_set1_ps(*scale > 0 ? 1 / *scale : 0);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) _mm256_storeu_si256((__m256i *)(void *)(out + i), codes32_avx2(in + i, f));
    if (i == n) return;
    float tail[32] = { 0 };
    int8_t codes[32];
    memcpy(tail, in + i, (n - i) * sizeof *in);
    _mm256_storeu_si256((__m256i *)(void *)codes, codes32_avx2(tail, f));
    memcpy(out + i, codes, n - i);
}

/* ---- levels of 4 and 2 bits ---- */
static void levels_reach_avx2(float *top, float *sum, const float *x, size_t dim)
{
    __m256 lanes = _mm256_setzero_ps(), most = lanes;
    for (size_t i = 0; i < dim; i += 8) {
        const __m256 a = abs_avx2(_mm256_loadu_ps(x + i));
        most = _mm256_max_ps(a, most);                      /* NaN as first operand is passed over */
        lanes = _mm256_add_ps(lanes, a);
    }
    *top = max_lanes_avx2(most);
    *sum = sum_lanes_avx2(lanes);
}
QSF_TEMPLATE __m256i level_avx2(__m256 x, __m256 inverse, __m256 most)
{
    const __m256 middle = _mm256_mul_ps(_mm256_set1_ps(0.5f), _mm256_add_ps(most, _mm256_set1_ps(1)));
    const __m256 c = _mm256_add_ps(_mm256_mul_ps(x, inverse), middle);
    return _mm256_cvttps_epi32(_mm256_min_ps(_mm256_max_ps(c, _mm256_setzero_ps()), most));
}
static void levels_fit_avx2(float *with, float *of, const float *x, size_t dim, float inverse, float most)
{
    const __m256 f = _mm256_set1_ps(inverse), m = _mm256_set1_ps(most);
    __m256 w = _mm256_setzero_ps(), o = w;
    for (size_t i = 0; i < dim; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i), c = _mm256_cvtepi32_ps(level_avx2(a, f, m)),
            v = _mm256_sub_ps(_mm256_add_ps(c, c), m);
        w = _mm256_add_ps(w, _mm256_mul_ps(v, a));
        o = _mm256_add_ps(o, _mm256_mul_ps(v, v));
    }
    *with = sum_lanes_avx2(w);
    *of = sum_lanes_avx2(o);
}
static void levels_codes_avx2(uint8_t *out, const float *x, size_t dim, float inverse, float most)
{
    const __m256 f = _mm256_set1_ps(inverse), m = _mm256_set1_ps(most);
    for (size_t i = 0; i < dim; i += 16) {
        const __m256i a = level_avx2(_mm256_loadu_ps(x + i), f, m),
            b = level_avx2(_mm256_loadu_ps(x + i + 8), f, m);
        const __m256i c = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
        _mm_storeu_si128((__m128i *)(void *)(out + i),
                         _mm_packus_epi16(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1)));
    }
}
static void quantize_kv_levels_avx2(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits)
{
    qsf_quantize_levels(out, scale, in, n, bits, levels_reach_avx2, levels_fit_avx2, levels_codes_avx2);
}

/* Parts of 16 bytes are broadcast to both halves, whose fields are one apart. */
QSF_TEMPLATE void unpack_any_avx2(int8_t *out, const uint8_t *in, size_t n, size_t part, int bits)
{
    const __m256i most = _mm256_set1_epi8((char)((1 << bits) - 1));
    const int apart = part < 32 ? bits : 0;
    for (size_t at = 0; at < n; at += part, in += part, out += part * (8 / (size_t)bits))
        for (size_t i = 0; i < part; i += 32) {
            const uint8_t *p = in + i;
            const __m256i v =
                part < 32 ? _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p))
                : _mm256_loadu_si256((const __m256i *)(const void *)p);
            QSF_UNROLL
            for (int f = 0; f < 8 / bits; f += part < 32 ? 2 : 1) {
                const __m256i shift = _mm256_inserti128_si256(_mm256_set1_epi32(f * bits),
                                                              _mm_set1_epi32(f * bits + apart), 1);
                const __m256i c = _mm256_and_si256(_mm256_srlv_epi32(v, shift), most);
                _mm256_storeu_si256((__m256i *)(void *)(out + (size_t)f * part + i),
                                    _mm256_sub_epi8(_mm256_add_epi8(c, c), most));
            }
        }
}
static void unpack_kv_levels_avx2(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits)
{
    if (bits == 4 && part == 64) unpack_any_avx2(out, in, n, 64, 4);
    else if (bits == 4) unpack_any_avx2(out, in, n, 32, 4);
    else if (part == 64) unpack_any_avx2(out, in, n, 64, 2);
    else unpack_any_avx2(out, in, n, 16, 2);
}

static void fp16_to_fp32_array_avx2(float *out, const uint16_t *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    for (; i < n; i++) out[i] = qsf_f16_to_f32(in[i]);
}
static void fp32_to_fp16_array_avx2(uint16_t *out, const float *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i),
                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    for (; i < n; i++) out[i] = qsf_f32_to_f16(in[i]);
}

void qsf_convert_avx2(qsf_kernels *k)
{
    k->quantize_act = quantize_act_avx2;
    k->quantize_kv_8bit = quantize_kv_8bit_avx2;
    k->quantize_kv_levels = quantize_kv_levels_avx2;
    k->unpack_kv_levels = unpack_kv_levels_avx2;
    k->fp16_to_fp32_array = fp16_to_fp32_array_avx2;
    k->fp32_to_fp16_array = fp32_to_fp16_array_avx2;
}

QSF_TARGET_END
#endif
