/* Norms, rotary positions, activations and element-wise arithmetic with AVX2.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* ---- one float to one float ---- */
typedef enum op_avx2 { OP_SILU, OP_GELU, OP_RELU, OP_SOFTPLUS, OP_ADD, OP_MUL, OP_SILU_MUL,
                       OP_GELU_MUL, OP_SOFTCAP } op_avx2;

QSF_TEMPLATE __m256 silu_avx2(__m256 x)
{
    const __m256 e = exp_avx2(_mm256_sub_ps(_mm256_setzero_ps(), x));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), e));
}
QSF_TEMPLATE __m256 gelu_avx2(__m256 x)
{
    const __m256 cube = _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(0.044715f), x), x), x);
    const __m256 u = _mm256_mul_ps(_mm256_set1_ps(-2 * 0.7978845608f), _mm256_add_ps(x, cube));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), exp_avx2(u)));
}
/* max(x, 0) + log(1 + u), u = e^-|x|: twice the area tangent of s = u / (2 + u), at most 1/3, by
 * its series. */
QSF_TEMPLATE __m256 softplus_avx2(__m256 x)
{
    const __m256 u = exp_avx2(_mm256_or_ps(_mm256_set1_ps(-0.0f), x));
    const __m256 s = _mm256_div_ps(u, _mm256_add_ps(u, _mm256_set1_ps(2))), z = _mm256_mul_ps(s, s);
    __m256 p = _mm256_set1_ps(2 / 15.0f);
    QSF_UNROLL
    for (int i = 13; i > 0; i -= 2) p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2 / (float)i));
    return _mm256_fmadd_ps(p, s, _mm256_max_ps(x, _mm256_setzero_ps()));
}
QSF_TEMPLATE __m256 op_one_avx2(op_avx2 op, __m256 a, __m256 b)
{
    switch (op) {
    case OP_SILU:      return silu_avx2(a);
    case OP_GELU:      return gelu_avx2(a);
    case OP_RELU:      return _mm256_max_ps(a, _mm256_setzero_ps());
    case OP_SOFTPLUS:  return softplus_avx2(a);
    case OP_ADD:       return _mm256_add_ps(a, b);
    case OP_MUL:       return _mm256_mul_ps(a, b);
    case OP_SILU_MUL:  return _mm256_mul_ps(silu_avx2(a), b);
    case OP_GELU_MUL:  return _mm256_mul_ps(gelu_avx2(a), b);
    case OP_SOFTCAP:   return _mm256_mul_ps(b, tanh_avx2(_mm256_div_ps(a, b)));
    }
    return a;
}

/* y = op(a, b); b NULL: the constant f. */
QSF_TEMPLATE void map_avx2(op_avx2 op, float *y, const float *a, const float *b, float f, size_t n)
{
    const __m256 constant = _mm256_set1_ps(f);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, op_one_avx2(op, _mm256_loadu_ps(a + i),
                                            b ? _mm256_loadu_ps(b + i) : constant));
    if (i == n) return;
    const __m256i part = first_avx2(n - i);
    _mm256_maskstore_ps(y + i, part, op_one_avx2(op, _mm256_maskload_ps(a + i, part),
                                                 b ? _mm256_maskload_ps(b + i, part) : constant));
}

static void silu_inplace_avx2(float *x, size_t n) { map_avx2(OP_SILU, x, x, NULL, 0, n); }
static void gelu_inplace_avx2(float *x, size_t n) { map_avx2(OP_GELU, x, x, NULL, 0, n); }
static void relu_inplace_avx2(float *x, size_t n) { map_avx2(OP_RELU, x, x, NULL, 0, n); }
static void softplus_inplace_avx2(float *x, size_t n) { map_avx2(OP_SOFTPLUS, x, x, NULL, 0, n); }
static void vec_add_avx2(float *y, const float *a, const float *b, size_t n)
{
    map_avx2(OP_ADD, y, a, b, 0, n);
}
static void vec_mul_avx2(float *y, const float *a, const float *b, size_t n)
{
    map_avx2(OP_MUL, y, a, b, 0, n);
}
static void vec_scale_avx2(float *x, float f, size_t n) { map_avx2(OP_MUL, x, x, NULL, f, n); }
static void silu_mul_avx2(float *y, const float *gate, const float *up, size_t n)
{
    map_avx2(OP_SILU_MUL, y, gate, up, 0, n);
}
static void gelu_mul_avx2(float *y, const float *gate, const float *up, size_t n)
{
    map_avx2(OP_GELU_MUL, y, gate, up, 0, n);
}
static void softcap_inplace_avx2(float *x, float cap, size_t n) { map_avx2(OP_SOFTCAP, x, x, NULL, cap, n); }

/* ---- norms: sums in doubles, so that no input overflows and long rows stay accurate ---- */
static double total_avx2(const float *x, size_t n)
{
    __m256d s = _mm256_setzero_pd();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) s = add_wide_avx2(s, _mm256_loadu_ps(x + i));
    double sum = sum_lanes_pd_avx2(s);
    for (; i < n; i++) sum += x[i];
    return sum;
}
/* Sum of (x - mean)^2. */
static double squares_avx2(const float *x, size_t n, double mean)
{
    const __m256d m = _mm256_set1_pd(mean);
    __m256d s0 = _mm256_setzero_pd(), s1 = s0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i)), m),
            b = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)), m);
        s0 = _mm256_fmadd_pd(a, a, s0);
        s1 = _mm256_fmadd_pd(b, b, s1);
    }
    double sum = sum_lanes_pd_avx2(_mm256_add_pd(s0, s1));
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void layer_norm_avx2(float *y, const float *x, const float *weight, const float *bias,
                            size_t n, float eps)
{
    const double mean = n ? total_avx2(x, n) / (double)n : 0;
    const double f = 1 / sqrt(n ? squares_avx2(x, n, mean) / (double)n + eps : 1);
    const __m256d m = _mm256_set1_pd(mean), fs = _mm256_set1_pd(f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128 v =
            _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i)), m), fs));
        _mm_storeu_ps(y + i, _mm_fmadd_ps(v, _mm_loadu_ps(weight + i),
                                          bias ? _mm_loadu_ps(bias + i) : _mm_setzero_ps()));
    }
    for (; i < n; i++) y[i] = (float)((x[i] - mean) * f) * weight[i] + (bias ? bias[i] : 0);
}

static void rms_norm_avx2(float *y, const float *x, const float *weight, size_t n, float eps)
{
    const float f = (float)(1 / sqrt(n ? squares_avx2(x, n, 0) / (double)n + eps : 1));
    const __m256 fs = _mm256_set1_ps(f);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), fs);
        _mm256_storeu_ps(y + i, weight ? _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)) : v);
    }
    for (; i < n; i++) y[i] = x[i] * f * (weight ? weight[i] : 1);
}

/* ---- rotary positions ---- */
static void rotate_halves_avx2(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + half + i),
            c = _mm256_loadu_ps(cos + i), s = _mm256_loadu_ps(sin + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[half + i];
        x[i] = a * cos[i] - b * sin[i];
        x[half + i] = a * sin[i] + b * cos[i];
    }
}
static void rotate_pairs_avx2(float *x, size_t half, const float *cos, const float *sin)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + i)), twice);
        const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + i)), twice);
        const __m256 v = _mm256_loadu_ps(x + 2 * i);
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s)));
    }
    for (; i < half; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}
static void rope_apply_avx2(float *x, size_t heads, size_t head_dim, size_t half, const float *cos,
                            const float *sin, bool pairs)
{
    for (size_t h = 0; h < heads; h++, x += head_dim)
        if (pairs) rotate_pairs_avx2(x, half, cos, sin);
        else rotate_halves_avx2(x, half, cos, sin);
}

void qsf_vector_avx2(qsf_kernels *k)
{
    k->layer_norm = layer_norm_avx2;
    k->rms_norm = rms_norm_avx2;
    k->rope_apply = rope_apply_avx2;
    k->silu_inplace = silu_inplace_avx2;
    k->gelu_inplace = gelu_inplace_avx2;
    k->relu_inplace = relu_inplace_avx2;
    k->softplus_inplace = softplus_inplace_avx2;
    k->vec_add = vec_add_avx2;
    k->vec_mul = vec_mul_avx2;
    k->vec_scale = vec_scale_avx2;
    k->silu_mul = silu_mul_avx2;
    k->gelu_mul = gelu_mul_avx2;
    k->softcap_inplace = softcap_inplace_avx2;
}

QSF_TARGET_END
#endif
