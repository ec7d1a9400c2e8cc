/* Vectors of 128 bits, four floats: the few operations that SSE4.2, NEON and WebAssembly
 * spell differently, and exp and tanh over them.  The files *_v128.c are written once on top
 * of these; arithmetic and comparison are C's own operators on vectors.
 * SPDX-License-Identifier: MIT
 *
 * Code that includes this is enclosed in QSF_V128_BEGIN and QSF_V128_END, and in a test that
 * QSF_V128 is defined. */
#ifndef QSF_V128_H
#define QSF_V128_H

#include "sets.h"

#if defined(__x86_64__)
#  include <immintrin.h>
#  define QSF_V128 1
#  define QSF_V128_BEGIN QSF_TARGET_BEGIN("sse4.2")
#  define QSF_V128_END QSF_TARGET_END
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
#  include <arm_neon.h>
#  define QSF_V128 1
#  define QSF_V128_BEGIN
#  define QSF_V128_END
#elif defined(__wasm_simd128__)
#  include <wasm_simd128.h>
#  define QSF_V128 1
#  define QSF_V128_BEGIN
#  define QSF_V128_END
#endif

#if defined(QSF_V128)
/* Each fills the entries of its subject. */
void qsf_float_v128(qsf_kernels *k);
void qsf_narrow_v128(qsf_kernels *k);
void qsf_attention_v128(qsf_kernels *k);
void qsf_vector_v128(qsf_kernels *k);
void qsf_top_k_v128(qsf_kernels *k);
void qsf_convert_v128(qsf_kernels *k);
void qsf_scan_v128(qsf_kernels *k);
void qsf_sample_v128(qsf_kernels *k);
void qsf_matmul_sse42(qsf_kernels *k);
void qsf_super_sse42(qsf_kernels *k);
void qsf_matmul_wasm(qsf_kernels *k);
void qsf_matmul_wasm_relaxed(qsf_kernels *k, bool dot);

QSF_V128_BEGIN

typedef int32_t v4i __attribute__((vector_size(16)));       /* also masks: all bits or none in a lane */
typedef double  v2d __attribute__((vector_size(16)));

#if defined(__x86_64__)
enum { V128_REGISTERS = 16 };
typedef float   v4f __attribute__((vector_size(16)));
typedef __m128i v16b;

QSF_TEMPLATE v4f  v4_load(const float *p) { return _mm_loadu_ps(p); }
QSF_TEMPLATE void v4_store(float *p, v4f v) { _mm_storeu_ps(p, v); }
QSF_TEMPLATE v4f  v4_set1(float f) { return _mm_set1_ps(f); }
QSF_TEMPLATE v4i  v4_set1i(int32_t i) { return (v4i)_mm_set1_epi32(i); }
/* a > b ? a : b and a < b ? a : b: b where either is NaN. */
QSF_TEMPLATE v4f  v4_max(v4f a, v4f b) { return _mm_max_ps(a, b); }
QSF_TEMPLATE v4f  v4_min(v4f a, v4f b) { return _mm_min_ps(a, b); }
QSF_TEMPLATE v4f  v4_fma(v4f a, v4f b, v4f c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
QSF_TEMPLATE v4f  v4_pick(v4i mask, v4f a, v4f b) { return _mm_blendv_ps(b, a, (__m128)mask); }
QSF_TEMPLATE int  v4_bits(v4i mask) { return _mm_movemask_ps((__m128)mask); }
QSF_TEMPLATE v4f  v4_round(v4f x) { return _mm_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
QSF_TEMPLATE v4i  v4_nearest(v4f x) { return (v4i)_mm_cvtps_epi32(x); }
QSF_TEMPLATE v4i  v4_trunc(v4f x) { return (v4i)_mm_cvttps_epi32(x); }
QSF_TEMPLATE v4f  v4_float(v4i x) { return _mm_cvtepi32_ps((__m128i)x); }
QSF_TEMPLATE v4f  v4_zip_low(v4f a, v4f b) { return _mm_unpacklo_ps(a, b); }
QSF_TEMPLATE v4f  v4_zip_high(v4f a, v4f b) { return _mm_unpackhi_ps(a, b); }
QSF_TEMPLATE v4f  v4_even(v4f a, v4f b) { return _mm_shuffle_ps(a, b, 0x88); }
QSF_TEMPLATE v4f  v4_odd(v4f a, v4f b) { return _mm_shuffle_ps(a, b, 0xdd); }
QSF_TEMPLATE v2d  v4_wide_low(v4f x) { return (v2d)_mm_cvtps_pd(x); }
QSF_TEMPLATE v2d  v4_wide_high(v4f x) { return (v2d)_mm_cvtps_pd(_mm_movehl_ps(x, x)); }
QSF_TEMPLATE v4f  v4_narrow(v2d low, v2d high)
{
    return _mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
}

/* 16 integers to bytes, clamped. */
QSF_TEMPLATE v16b v4_pack16(v4i a, v4i b, v4i c, v4i d)
{
    return _mm_packs_epi16(_mm_packs_epi32((__m128i)a, (__m128i)b), _mm_packs_epi32((__m128i)c, (__m128i)d));
}
QSF_TEMPLATE void v16_store(void *p, v16b v) { _mm_storeu_si128((__m128i *)p, v); }
/* No F16C here: the exponents' biases differ by 112; infinities and NaN keep all ones. */
QSF_TEMPLATE v4f v4_half_bits(__m128i h)
{
    const __m128i em = _mm_and_si128(h, _mm_set1_epi32(0x7fff)),
        sign = _mm_slli_epi32(_mm_xor_si128(h, em), 16);
    const __m128 v = _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(em, 13)), _mm_set1_ps(0x1p112f));
    const __m128i ones = _mm_and_si128(_mm_set1_epi32(0x7f800000),
                                       _mm_cmpgt_epi32(em, _mm_set1_epi32(0x7bff)));
    return _mm_or_ps(v, _mm_castsi128_ps(_mm_or_si128(sign, ones)));
}
QSF_TEMPLATE void v8_halves(v4f out[2], const void *p)
{
    const __m128i h = _mm_loadu_si128((const __m128i *)p);
    out[0] = v4_half_bits(_mm_cvtepu16_epi32(h));
    out[1] = v4_half_bits(_mm_cvtepu16_epi32(_mm_srli_si128(h, 8)));
}
QSF_TEMPLATE void v8_bf16(v4f out[2], const void *p)
{
    const __m128i h = _mm_loadu_si128((const __m128i *)p), zero = _mm_setzero_si128();
    out[0] = _mm_castsi128_ps(_mm_unpacklo_epi16(zero, h));
    out[1] = _mm_castsi128_ps(_mm_unpackhi_epi16(zero, h));
}
/* The three cases of qsf_f32_to_f16 side by side. */
QSF_TEMPLATE __m128i v4_to_half_bits(v4f x)
{
    const __m128i u = _mm_castps_si128(x), a = _mm_and_si128(u, _mm_set1_epi32(0x7fffffff));
    const __m128i sign = _mm_and_si128(_mm_srli_epi32(u, 16), _mm_set1_epi32(0x8000));
    const __m128i small = _mm_sub_epi32(_mm_castps_si128(_mm_add_ps(_mm_castsi128_ps(a), _mm_set1_ps(0.5f))),
                                        _mm_set1_epi32(0x3f000000));
    const __m128i r = _mm_add_epi32(_mm_add_epi32(a, _mm_set1_epi32(0xfff)),
                                    _mm_and_si128(_mm_srli_epi32(a, 13), _mm_set1_epi32(1)));
    __m128i h = _mm_srli_epi32(_mm_sub_epi32(r, _mm_set1_epi32(0x38000000)), 13);
    h = _mm_blendv_epi8(h, small, _mm_cmplt_epi32(a, _mm_set1_epi32(0x38800000)));
    /* rounds to 65536 and over */
    h = _mm_blendv_epi8(h, _mm_set1_epi32(0x7c00), _mm_cmpgt_epi32(a, _mm_set1_epi32(0x477fefff)));
    h = _mm_blendv_epi8(h, _mm_set1_epi32(0x7e00), _mm_cmpgt_epi32(a, _mm_set1_epi32(0x7f800000)));
    return _mm_or_si128(h, sign);
}
QSF_TEMPLATE void v8_store_halves(uint16_t *p, v4f a, v4f b)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(v4_to_half_bits(a), v4_to_half_bits(b)));
}
typedef __m128i v8h;        /* 16-bit lanes */
QSF_TEMPLATE v16b v16_load(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
/* Four bytes, four times. */
QSF_TEMPLATE v16b v16_quad(const void *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return _mm_set1_epi32(four);
}
/* acc + the sums of four products each, in place; q is never -128. */
QSF_TEMPLATE v4i v16_dot4(v4i acc, v16b c, v16b q)
{
    return acc + (v4i)_mm_madd_epi16(_mm_maddubs_epi16(_mm_abs_epi8(c), _mm_sign_epi8(q, c)),
                                     _mm_set1_epi16(1));
}
/* Four unsigned bytes in 16-bit lanes, twice. */
QSF_TEMPLATE v8h v8_quad(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    const __m128i w = _mm_cvtepu8_epi16(_mm_cvtsi32_si128(four));
    return _mm_unpacklo_epi64(w, w);
}
QSF_TEMPLATE v8h v16_wide_low(v16b c) { return _mm_cvtepi8_epi16(c); }
QSF_TEMPLATE v8h v16_wide_high(v16b c) { return _mm_cvtepi8_epi16(_mm_srli_si128(c, 8)); }
/* acc + sums of two products each, of bytes as 16-bit lanes, one of them unsigned. */
QSF_TEMPLATE v4i v8_dot2(v4i acc, v8h c, v8h p) { return acc + (v4i)_mm_madd_epi16(c, p); }
QSF_TEMPLATE v4i v4_pairs(v4i a, v4i b) { return (v4i)_mm_hadd_epi32((__m128i)a, (__m128i)b); }
/* 16 integers 0 to 255. */
QSF_TEMPLATE void v16_store_unsigned(uint8_t *p, v4i a, v4i b, v4i c, v4i d)
{
    const __m128i low = _mm_packus_epi32((__m128i)a, (__m128i)b),
        high = _mm_packus_epi32((__m128i)c, (__m128i)d);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi16(low, high));
}
/* 16 bytes, loaded once: left to itself, GCC loads them again for each use. */
QSF_TEMPLATE v16b v16_fetch(const void *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)p);
    __asm__("" : "+x"(v));
    return v;
}
QSF_TEMPLATE v16b v16_set1(int b) { return _mm_set1_epi8((char)b); }
QSF_TEMPLATE v16b v16_minus(v16b a, v16b b) { return _mm_sub_epi8(a, b); }
/* All bits of the bytes that are greater, as numbers with a sign. */
QSF_TEMPLATE v16b v16_above(v16b a, v16b b) { return _mm_cmpgt_epi8(a, b); }
/* 16-bit lanes of a and b in turn, of their first halves and of their second ones. */
QSF_TEMPLATE v16b v8_zip_low(v16b a, v16b b) { return _mm_unpacklo_epi16(a, b); }
QSF_TEMPLATE v16b v8_zip_high(v16b a, v16b b) { return _mm_unpackhi_epi16(a, b); }
/* v moved left by n bits, or right where n is negative;
 * what comes in from the neighbour is rubbish. */
QSF_TEMPLATE v16b v16_shift(v16b v, int n)
{
    return n < 0 ? _mm_srli_epi16(v, -n) : n > 0 ? _mm_slli_epi16(v, n) : v;
}
/* The lowest n bits of bytes that v16_shift has moved; all: it has moved only zeros into the
 * others. */
QSF_TEMPLATE v16b v16_cut(v16b v, int n, bool all)
{
    (void)all;
    return _mm_and_si128(v, v16_set1((1 << n) - 1));
}
/* The lowest n bits of a, above them those of b up to bit m. */
QSF_TEMPLATE v16b v16_join(v16b a, v16b b, int n, int m)
{
    return v16_cut(a, n, false) | (b & v16_set1((1 << m) - (1 << n)));
}
/* table[i] for indices below 16. */
QSF_TEMPLATE v16b v16_look(v16b table, v16b i) { return _mm_shuffle_epi8(table, i); }
QSF_TEMPLATE v16b v16_table(const int8_t *table, v16b i) { return v16_look(v16_load(table), i); }
/* Bytes 0, 2, 4 ... and 1, 3, 5 ... of 32. */
QSF_TEMPLATE v16b v16_even(v16b a, v16b b)
{
    return _mm_packus_epi16(a & _mm_set1_epi16(255), b & _mm_set1_epi16(255));
}
QSF_TEMPLATE v16b v16_odd(v16b a, v16b b)
{
    return _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
}
/* 16 bytes as integers. */
QSF_TEMPLATE void v16_ints(v4i out[4], v16b v)
{
    out[0] = (v4i)_mm_cvtepi8_epi32(v);
    out[1] = (v4i)_mm_cvtepi8_epi32(_mm_srli_si128(v, 4));
    out[2] = (v4i)_mm_cvtepi8_epi32(_mm_srli_si128(v, 8));
    out[3] = (v4i)_mm_cvtepi8_epi32(_mm_srli_si128(v, 12));
}
/* 16 bytes as factors of sums: twice in each lane, for pairs of 16 bits. */
QSF_TEMPLATE void v16_factors(v4i out[4], v16b v)
{
    const __m128i low = _mm_cvtepi8_epi16(v), high = _mm_cvtepi8_epi16(_mm_srli_si128(v, 8));
    out[0] = (v4i)_mm_unpacklo_epi16(low, low);
    out[1] = (v4i)_mm_unpackhi_epi16(low, low);
    out[2] = (v4i)_mm_unpacklo_epi16(high, high);
    out[3] = (v4i)_mm_unpackhi_epi16(high, high);
}
/* Two 16-bit numbers, four times. */
QSF_TEMPLATE v8h v8_two(const int16_t *p)
{
    int32_t two;
    memcpy(&two, p, 4);
    return _mm_set1_epi32(two);
}
/* factor * (h[0] + h[1]) */
QSF_TEMPLATE v4i v4_times_two(v4i factor, const int16_t *h)
{
    return (v4i)_mm_madd_epi16((__m128i)factor, v8_two(h));
}

#elif defined(__wasm_simd128__)
/* All in plain simd128, rounding included, so that both WebAssembly sets give the same floats
 * on every machine. */
enum { V128_REGISTERS = 16 };
typedef float   v4f __attribute__((vector_size(16)));
typedef v128_t  v16b;
typedef v128_t  v8h;        /* 16-bit lanes */

QSF_TEMPLATE v4f  v4_load(const float *p) { return (v4f)wasm_v128_load(p); }
QSF_TEMPLATE void v4_store(float *p, v4f v) { wasm_v128_store(p, (v128_t)v); }
QSF_TEMPLATE v4f  v4_set1(float f) { return (v4f)wasm_f32x4_splat(f); }
QSF_TEMPLATE v4i  v4_set1i(int32_t i) { return (v4i)wasm_i32x4_splat(i); }
QSF_TEMPLATE v4f  v4_max(v4f a, v4f b) { return (v4f)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
QSF_TEMPLATE v4f  v4_min(v4f a, v4f b) { return (v4f)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
QSF_TEMPLATE v4f  v4_fma(v4f a, v4f b, v4f c) { return a * b + c; }
QSF_TEMPLATE v4f  v4_pick(v4i mask, v4f a, v4f b)
{
    return (v4f)wasm_v128_bitselect((v128_t)a, (v128_t)b, (v128_t)mask);
}
QSF_TEMPLATE int  v4_bits(v4i mask) { return (int)wasm_i32x4_bitmask((v128_t)mask); }
QSF_TEMPLATE v4f  v4_round(v4f x) { return (v4f)wasm_f32x4_nearest((v128_t)x); }
QSF_TEMPLATE v4i  v4_trunc(v4f x) { return (v4i)wasm_i32x4_trunc_sat_f32x4((v128_t)x); }
QSF_TEMPLATE v4i  v4_nearest(v4f x) { return v4_trunc(v4_round(x)); }
QSF_TEMPLATE v4f  v4_float(v4i x) { return (v4f)wasm_f32x4_convert_i32x4((v128_t)x); }
QSF_TEMPLATE v4f  v4_zip_low(v4f a, v4f b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
QSF_TEMPLATE v4f  v4_zip_high(v4f a, v4f b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
QSF_TEMPLATE v4f  v4_even(v4f a, v4f b) { return __builtin_shufflevector(a, b, 0, 2, 4, 6); }
QSF_TEMPLATE v4f  v4_odd(v4f a, v4f b) { return __builtin_shufflevector(a, b, 1, 3, 5, 7); }
QSF_TEMPLATE v2d  v4_wide_low(v4f x) { return (v2d)wasm_f64x2_promote_low_f32x4((v128_t)x); }
QSF_TEMPLATE v2d  v4_wide_high(v4f x) { return v4_wide_low(__builtin_shufflevector(x, x, 2, 3, 2, 3)); }
QSF_TEMPLATE v4f  v4_narrow(v2d low, v2d high)
{
    const v4f a = (v4f)wasm_f32x4_demote_f64x2_zero((v128_t)low),
        b = (v4f)wasm_f32x4_demote_f64x2_zero((v128_t)high);
    return __builtin_shufflevector(a, b, 0, 1, 4, 5);
}
QSF_TEMPLATE v16b v4_pack16(v4i a, v4i b, v4i c, v4i d)
{
    return wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4((v128_t)a, (v128_t)b),
                                   wasm_i16x8_narrow_i32x4((v128_t)c, (v128_t)d));
}
QSF_TEMPLATE void v16_store(void *p, v16b v) { wasm_v128_store(p, v); }
/* The exponent moves by 112 in a multiplication, which makes subnormals right; infinities and NaN
 * get theirs by a mask. */
QSF_TEMPLATE v4f v4_half_bits(v128_t h)
{
    const v128_t em = wasm_v128_and(h, wasm_i32x4_splat(0x7fff)),
        sign = wasm_i32x4_shl(wasm_v128_xor(h, em), 16);
    const v128_t v = wasm_f32x4_mul(wasm_i32x4_shl(em, 13), wasm_f32x4_splat(0x1p112f));
    const v128_t top = wasm_v128_and(wasm_i32x4_gt(em, wasm_i32x4_splat(0x7bff)),
                                     wasm_i32x4_splat(0x7f800000));
    return (v4f)wasm_v128_or(wasm_v128_or(v, top), sign);
}
QSF_TEMPLATE void v8_halves(v4f out[2], const void *p)
{
    const v128_t h = wasm_v128_load(p);
    out[0] = v4_half_bits(wasm_u32x4_extend_low_u16x8(h));
    out[1] = v4_half_bits(wasm_u32x4_extend_high_u16x8(h));
}
/* The three cases of qsf_f32_to_f16 side by side. */
QSF_TEMPLATE v4i v4_to_half_bits(v4f x)
{
    const v4i u = (v4i)x, a = u & 0x7fffffff, sign = (v4i)wasm_u32x4_shr((v128_t)u, 16) & 0x8000;
    const v4i small = (v4i)((v4f)a + v4_set1(0.5f)) - 0x3f000000;
    v4i h = (v4i)wasm_u32x4_shr((v128_t)(a + 0xfff + (a >> 13 & 1) - 0x38000000), 13);
    h = (v4i)wasm_v128_bitselect((v128_t)small, (v128_t)h, (v128_t)(a < 0x38800000));
    /* rounds to 65536 and over */
    h = (v4i)wasm_v128_bitselect(wasm_i32x4_splat(0x7c00), (v128_t)h, (v128_t)(a > 0x477fefff));
    h = (v4i)wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), (v128_t)h, (v128_t)(a > 0x7f800000));
    return h | sign;
}
QSF_TEMPLATE void v8_store_halves(uint16_t *p, v4f a, v4f b)
{
    wasm_v128_store(p, wasm_u16x8_narrow_i32x4((v128_t)v4_to_half_bits(a), (v128_t)v4_to_half_bits(b)));
}
QSF_TEMPLATE void v8_bf16(v4f out[2], const void *p)
{
    const v128_t h = wasm_v128_load(p), zero = wasm_i32x4_splat(0);
    out[0] = (v4f)wasm_i16x8_shuffle(zero, h, 0, 8, 1, 9, 2, 10, 3, 11);
    out[1] = (v4f)wasm_i16x8_shuffle(zero, h, 4, 12, 5, 13, 6, 14, 7, 15);
}
QSF_TEMPLATE v16b v16_load(const void *p) { return wasm_v128_load(p); }
QSF_TEMPLATE v16b v16_fetch(const void *p) { return wasm_v128_load(p); }
QSF_TEMPLATE v16b v16_set1(int b) { return wasm_i8x16_splat((int8_t)b); }
QSF_TEMPLATE v16b v16_minus(v16b a, v16b b) { return wasm_i8x16_sub(a, b); }
QSF_TEMPLATE v16b v16_above(v16b a, v16b b) { return wasm_i8x16_gt(a, b); }
QSF_TEMPLATE v16b v8_zip_low(v16b a, v16b b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
QSF_TEMPLATE v16b v8_zip_high(v16b a, v16b b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
QSF_TEMPLATE v16b v16_shift(v16b v, int n)
{
    return n < 0 ? wasm_u16x8_shr(v, -n) : n > 0 ? wasm_i16x8_shl(v, n) : v;
}
QSF_TEMPLATE v16b v16_cut(v16b v, int n, bool all) { (void)all; return v & v16_set1((1 << n) - 1); }
QSF_TEMPLATE v16b v16_join(v16b a, v16b b, int n, int m)
{
    return v16_cut(a, n, false) | (b & v16_set1((1 << m) - (1 << n)));
}
QSF_TEMPLATE v16b v16_look(v16b table, v16b i)
{
#  if defined(__wasm_relaxed_simd__)
    return wasm_i8x16_relaxed_swizzle(table, i);
#  else
    return wasm_i8x16_swizzle(table, i);
#  endif
}
QSF_TEMPLATE v16b v16_table(const int8_t *table, v16b i) { return v16_look(v16_load(table), i); }
QSF_TEMPLATE v16b v16_even(v16b a, v16b b)
{
    return wasm_i8x16_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
QSF_TEMPLATE v16b v16_odd(v16b a, v16b b)
{
    return wasm_i8x16_shuffle(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
QSF_TEMPLATE void v16_ints(v4i out[4], v16b v)
{
    const v128_t low = wasm_i16x8_extend_low_i8x16(v), high = wasm_i16x8_extend_high_i8x16(v);
    out[0] = (v4i)wasm_i32x4_extend_low_i16x8(low);
    out[1] = (v4i)wasm_i32x4_extend_high_i16x8(low);
    out[2] = (v4i)wasm_i32x4_extend_low_i16x8(high);
    out[3] = (v4i)wasm_i32x4_extend_high_i16x8(high);
}
QSF_TEMPLATE void v16_factors(v4i out[4], v16b v) { v16_ints(out, v); }
QSF_TEMPLATE v4i v4_times_two(v4i factor, const int16_t *h) { return factor * (h[0] + h[1]); }
QSF_TEMPLATE v16b v16_quad(const void *p) { return wasm_v128_load32_splat(p); }
/* Bytes as 16-bit lanes, those at even places and those at odd ones: a dot product of both keeps
 * each four bytes in their lane. */
QSF_TEMPLATE v8h v16_wide_even(v16b c) { return wasm_i16x8_shr(wasm_i16x8_shl(c, 8), 8); }
QSF_TEMPLATE v8h v16_wide_odd(v16b c) { return wasm_i16x8_shr(c, 8); }
QSF_TEMPLATE v4i v16_dot4(v4i acc, v16b c, v16b q)
{
    acc += (v4i)wasm_i32x4_dot_i16x8(v16_wide_even(c), v16_wide_even(q));
    return acc + (v4i)wasm_i32x4_dot_i16x8(v16_wide_odd(c), v16_wide_odd(q));
}
QSF_TEMPLATE v8h v8_quad(const uint8_t *p)
{
    const v128_t w = wasm_u16x8_extend_low_u8x16(wasm_v128_load32_splat(p));
    return w;
}
QSF_TEMPLATE v8h v16_wide_low(v16b c) { return wasm_i16x8_extend_low_i8x16(c); }
QSF_TEMPLATE v8h v16_wide_high(v16b c) { return wasm_i16x8_extend_high_i8x16(c); }
QSF_TEMPLATE v4i v8_dot2(v4i acc, v8h c, v8h p) { return acc + (v4i)wasm_i32x4_dot_i16x8(c, p); }
QSF_TEMPLATE v4i v4_pairs(v4i a, v4i b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}
QSF_TEMPLATE void v16_store_unsigned(uint8_t *p, v4i a, v4i b, v4i c, v4i d)
{
    wasm_v128_store(p, wasm_u8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4((v128_t)a, (v128_t)b),
                                               wasm_i16x8_narrow_i32x4((v128_t)c, (v128_t)d)));
}

#else  /* NEON */
enum { V128_REGISTERS = 32 };
typedef float32x4_t v4f;
typedef int8x16_t   v16b;

QSF_TEMPLATE v4f  v4_load(const float *p) { return vld1q_f32(p); }
QSF_TEMPLATE void v4_store(float *p, v4f v) { vst1q_f32(p, v); }
QSF_TEMPLATE v4f  v4_set1(float f) { return vdupq_n_f32(f); }
QSF_TEMPLATE v4i  v4_set1i(int32_t i) { return (v4i)vdupq_n_s32(i); }
QSF_TEMPLATE v4f  v4_max(v4f a, v4f b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
QSF_TEMPLATE v4f  v4_min(v4f a, v4f b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
QSF_TEMPLATE v4f  v4_fma(v4f a, v4f b, v4f c) { return vfmaq_f32(c, a, b); }
QSF_TEMPLATE v4f  v4_pick(v4i mask, v4f a, v4f b) { return vbslq_f32((uint32x4_t)mask, a, b); }
QSF_TEMPLATE int  v4_bits(v4i mask)
{
    const uint32x4_t place = { 1, 2, 4, 8 };
    return (int)vaddvq_u32(vandq_u32((uint32x4_t)mask, place));
}
QSF_TEMPLATE v4f  v4_round(v4f x) { return vrndnq_f32(x); }
QSF_TEMPLATE v4i  v4_nearest(v4f x) { return (v4i)vcvtnq_s32_f32(x); }
QSF_TEMPLATE v4i  v4_trunc(v4f x) { return (v4i)vcvtq_s32_f32(x); }
QSF_TEMPLATE v4f  v4_float(v4i x) { return vcvtq_f32_s32((int32x4_t)x); }
QSF_TEMPLATE v4f  v4_zip_low(v4f a, v4f b) { return vzip1q_f32(a, b); }
QSF_TEMPLATE v4f  v4_zip_high(v4f a, v4f b) { return vzip2q_f32(a, b); }
QSF_TEMPLATE v4f  v4_even(v4f a, v4f b) { return vuzp1q_f32(a, b); }
QSF_TEMPLATE v4f  v4_odd(v4f a, v4f b) { return vuzp2q_f32(a, b); }
QSF_TEMPLATE v2d  v4_wide_low(v4f x) { return (v2d)vcvt_f64_f32(vget_low_f32(x)); }
QSF_TEMPLATE v2d  v4_wide_high(v4f x) { return (v2d)vcvt_high_f64_f32(x); }
QSF_TEMPLATE v4f  v4_narrow(v2d low, v2d high)
{
    return vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low), (float64x2_t)high);
}

QSF_TEMPLATE v16b v4_pack16(v4i a, v4i b, v4i c, v4i d)
{
    const int16x8_t ab = vqmovn_high_s32(vqmovn_s32((int32x4_t)a), (int32x4_t)b),
        cd = vqmovn_high_s32(vqmovn_s32((int32x4_t)c), (int32x4_t)d);
    return vqmovn_high_s16(vqmovn_s16(ab), cd);
}
QSF_TEMPLATE void v16_store(void *p, v16b v) { vst1q_s8((int8_t *)p, v); }
QSF_TEMPLATE void v8_halves(v4f out[2], const void *p)
{
    const float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(p));
    out[0] = vcvt_f32_f16(vget_low_f16(h));
    out[1] = vcvt_high_f32_f16(h);
}
QSF_TEMPLATE void v8_bf16(v4f out[2], const void *p)
{
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
    out[0] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
    out[1] = vreinterpretq_f32_u32(vshll_high_n_u16(h, 16));
}
QSF_TEMPLATE void v8_store_halves(uint16_t *p, v4f a, v4f b)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a), b)));
}
typedef int16x8_t v8h;
QSF_TEMPLATE v16b v16_load(const void *p) { return vld1q_s8(p); }
QSF_TEMPLATE v16b v16_quad(const void *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
QSF_TEMPLATE v4i v16_dot4(v4i acc, v16b c, v16b q)
{
    const int16x8_t pairs = vpaddq_s16(vmull_s8(vget_low_s8(c), vget_low_s8(q)), vmull_high_s8(c, q));
    return (v4i)vpadalq_s16((int32x4_t)acc, pairs);
}
QSF_TEMPLATE v8h v8_quad(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, 4);
    return vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))));
}
QSF_TEMPLATE v8h v16_wide_low(v16b c) { return vmovl_s8(vget_low_s8(c)); }
QSF_TEMPLATE v8h v16_wide_high(v16b c) { return vmovl_high_s8(c); }
/* 128 * 255 fits 16 bits */
QSF_TEMPLATE v4i v8_dot2(v4i acc, v8h c, v8h p) { return (v4i)vpadalq_s16((int32x4_t)acc, vmulq_s16(c, p)); }
QSF_TEMPLATE v4i v4_pairs(v4i a, v4i b) { return (v4i)vpaddq_s32((int32x4_t)a, (int32x4_t)b); }
QSF_TEMPLATE void v16_store_unsigned(uint8_t *p, v4i a, v4i b, v4i c, v4i d)
{
    const uint16x8_t low = vqmovun_high_s32(vqmovun_s32((int32x4_t)a), (int32x4_t)b),
        high = vqmovun_high_s32(vqmovun_s32((int32x4_t)c), (int32x4_t)d);
    vst1q_u8(p, vqmovn_high_u16(vqmovn_u16(low), high));
}
QSF_TEMPLATE v16b v16_fetch(const void *p) { return vld1q_s8(p); }
QSF_TEMPLATE v16b v16_set1(int b) { return vdupq_n_s8((int8_t)b); }
QSF_TEMPLATE v16b v16_minus(v16b a, v16b b) { return vsubq_s8(a, b); }
QSF_TEMPLATE v16b v16_above(v16b a, v16b b) { return vreinterpretq_s8_u8(vcgtq_s8(a, b)); }
QSF_TEMPLATE v16b v8_zip_low(v16b a, v16b b)
{
    return vreinterpretq_s8_s16(vzip1q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
}
QSF_TEMPLATE v16b v8_zip_high(v16b a, v16b b)
{
    return vreinterpretq_s8_s16(vzip2q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
}
QSF_TEMPLATE v16b v16_shift(v16b v, int n)
{
    const uint8x16_t u = vreinterpretq_u8_s8(v);
    return vreinterpretq_s8_u8(n < 0 ? u >> (uint8_t)-n : n > 0 ? u << (uint8_t)n : u);
}
QSF_TEMPLATE v16b v16_cut(v16b v, int n, bool all) { return all ? v : v & v16_set1((1 << n) - 1); }
QSF_TEMPLATE v16b v16_join(v16b a, v16b b, int n, int m)
{
    return vbslq_s8(vdupq_n_u8((uint8_t)((1 << n) - 1)), a, b) & v16_set1((1 << m) - 1);
}
QSF_TEMPLATE v16b v16_look(v16b table, v16b i) { return vqtbl1q_s8(table, vreinterpretq_u8_s8(i)); }
QSF_TEMPLATE v16b v16_table(const int8_t *table, v16b i) { return v16_look(v16_load(table), i); }
QSF_TEMPLATE v16b v16_even(v16b a, v16b b) { return vuzp1q_s8(a, b); }
QSF_TEMPLATE v16b v16_odd(v16b a, v16b b) { return vuzp2q_s8(a, b); }
QSF_TEMPLATE void v16_ints(v4i out[4], v16b v)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_high_s8(v);
    out[0] = (v4i)vmovl_s16(vget_low_s16(low));
    out[1] = (v4i)vmovl_high_s16(low);
    out[2] = (v4i)vmovl_s16(vget_low_s16(high));
    out[3] = (v4i)vmovl_high_s16(high);
}
QSF_TEMPLATE void v16_factors(v4i out[4], v16b v) { v16_ints(out, v); }
QSF_TEMPLATE v4i v4_times_two(v4i factor, const int16_t *h)
{
    return (v4i)vmulq_n_s32((int32x4_t)factor, h[0] + h[1]);
}
#endif

/* ---- what both share ---- */
QSF_TEMPLATE v4i v4_gt(v4f a, v4f b) { return (v4i)(a > b); }
QSF_TEMPLATE v4i v4_eq(v4f a, v4f b) { return (v4i)(a == b); }
QSF_TEMPLATE v4f v4_and(v4f a, v4i mask) { return (v4f)((v4i)a & mask); }
QSF_TEMPLATE v4f v4_abs(v4f x) { return (v4f)((v4i)x & v4_set1i(0x7fffffff)); }

/* The first n of four floats, zeros after them; memory past them is not accessed. */
QSF_TEMPLATE v4f v4_load_part(const float *p, size_t n)
{
    float f[4] = { 0 };
    for (size_t i = 0; i < n; i++) f[i] = p[i];
    return v4_load(f);
}
QSF_TEMPLATE void v4_store_part(float *p, v4f v, size_t n)
{
    float f[4];
    v4_store(f, v);
    for (size_t i = 0; i < n; i++) p[i] = f[i];
}
QSF_TEMPLATE float v4_sum(v4f v)
{
    float f[4];
    v4_store(f, v);
    return (f[0] + f[2]) + (f[1] + f[3]);
}
QSF_TEMPLATE float v4_greatest(v4f v)
{
    float f[4];
    v4_store(f, v);
    const float a = f[0] > f[1] ? f[0] : f[1], b = f[2] > f[3] ? f[2] : f[3];
    return a > b ? a : b;
}
QSF_TEMPLATE v2d v4_wide_add(v2d acc, v4f x) { return acc + (v4_wide_low(x) + v4_wide_high(x)); }

/* Constants of v4_exp.  V8 makes a vector constant anew at each use, with three instructions; from
 * memory it is one. */
static const float exp_constants_v128[11] = {
    -87.4f, 89, 1.44269504f, 2.12194440e-4f, -0.693359375f, 1.9875691500e-4f, 1.3981999507e-3f,
    8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f
};
/* e^x within 3 units in the last place; below -87.3 (and at -INFINITY) 0, above 88.8 INFINITY, NaN
 * stays.  x = n ln 2 + r, |r| <= ln 2 / 2, e^r by a polynomial (Moshier's Cephes coefficients),
 * then times 2^(n-1) and 2: n may be 128. */
QSF_TEMPLATE v4f v4_exp(v4f of)
{
    const float *c = exp_constants_v128;
#if defined(__wasm_simd128__)
    __asm__("" : "+r"(c));
#endif
    const v4f x = v4_max(v4_set1(c[0]), v4_min(v4_set1(c[1]), of));     /* NaN as second operand passes */
    const v4f n = v4_round(x * v4_set1(c[2]));
    const v4f r = v4_fma(n, v4_set1(c[3]), v4_fma(n, v4_set1(c[4]), x));
    v4f p = v4_set1(c[5]);
    QSF_UNROLL
    for (int i = 6; i < 11; i++) p = v4_fma(p, r, v4_set1(c[i]));
    p = v4_fma(p * r, r, r) + v4_set1(1);
    const v4f power = (v4f)((v4_nearest(n) + 126) << 23);
    return v4_pick(v4_eq(of, of), p * power * v4_set1(2), of);
}

/* tanh within 2e-7 of its size: a polynomial (Cephes) under 0.625, 1 - 2 / (e^2|x| + 1) above. */
QSF_TEMPLATE v4f v4_tanh(v4f x)
{
    const v4f a = v4_abs(x), z = x * x, one = v4_set1(1);
    v4f p = v4_set1(-5.70498872745e-3f);
    p = v4_fma(p, z, v4_set1(2.06390887954e-2f));
    p = v4_fma(p, z, v4_set1(-5.37397155531e-2f));
    p = v4_fma(p, z, v4_set1(1.33314422036e-1f));
    p = v4_fma(p, z, v4_set1(-3.33332819422e-1f));
    p = v4_fma(p * z, x, x);
    const v4f t = one - v4_set1(2) / (v4_exp(a + a) + one);
    return v4_pick(v4_gt(v4_set1(0.625f), a), p, (v4f)((v4i)t | ((v4i)x & v4_set1i(INT32_MIN))));
}

QSF_V128_END
#endif
#endif
