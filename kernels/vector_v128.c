/* Norms, rotary positions, activations and element-wise arithmetic over four floats: SSE4.2 and
 * NEON.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* ---- one float to one float ---- */
typedef enum op_v128 {
    V128_SILU, V128_GELU, V128_RELU, V128_ADD, V128_MUL, V128_SILU_MUL, V128_GELU_MUL, V128_SOFTCAP
} op_v128;

QSF_TEMPLATE v4f silu_v128(v4f x) { return x / (v4_set1(1) + v4_exp(-x)); }
QSF_TEMPLATE v4f gelu_v128(v4f x)
{
    const v4f cube = v4_set1(0.044715f) * x * x * x;
    return x / (v4_set1(1) + v4_exp(v4_set1(-2 * 0.7978845608f) * (x + cube)));
}
QSF_TEMPLATE v4f op_one_v128(op_v128 op, v4f a, v4f b)
{
    switch (op) {
    case V128_SILU:      return silu_v128(a);
    case V128_GELU:      return gelu_v128(a);
    case V128_RELU:      return v4_max(a, v4_set1(0));
    case V128_ADD:       return a + b;
    case V128_MUL:       return a * b;
    case V128_SILU_MUL:  return silu_v128(a) * b;
    case V128_GELU_MUL:  return gelu_v128(a) * b;
    case V128_SOFTCAP:   return b * v4_tanh(a / b);
    }
    return a;
}

/* y = op(a, b); b NULL: the constant f. */
QSF_TEMPLATE void map_v128(op_v128 op, float *y, const float *a, const float *b, float f, size_t n)
{
    const v4f constant = v4_set1(f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        v4_store(y + i, op_one_v128(op, v4_load(a + i), b ? v4_load(b + i) : constant));
    if (i < n)
        v4_store_part(y + i, op_one_v128(op, v4_load_part(a + i, n - i),
                                         b ? v4_load_part(b + i, n - i) : constant), n - i);
}

static void silu_inplace_v128(float *x, size_t n) { map_v128(V128_SILU, x, x, NULL, 0, n); }
static void gelu_inplace_v128(float *x, size_t n) { map_v128(V128_GELU, x, x, NULL, 0, n); }
static void relu_inplace_v128(float *x, size_t n) { map_v128(V128_RELU, x, x, NULL, 0, n); }
static void vec_add_v128(float *y, const float *a, const float *b, size_t n)
{
    map_v128(V128_ADD, y, a, b, 0, n);
}
static void vec_mul_v128(float *y, const float *a, const float *b, size_t n)
{
    map_v128(V128_MUL, y, a, b, 0, n);
}
static void vec_scale_v128(float *x, float f, size_t n) { map_v128(V128_MUL, x, x, NULL, f, n); }
static void silu_mul_v128(float *y, const float *gate, const float *up, size_t n)
{
    map_v128(V128_SILU_MUL, y, gate, up, 0, n);
}
static void gelu_mul_v128(float *y, const float *gate, const float *up, size_t n)
{
    map_v128(V128_GELU_MUL, y, gate, up, 0, n);
}
static void softcap_inplace_v128(float *x, float cap, size_t n)
{
    map_v128(V128_SOFTCAP, x, x, NULL, cap, n);
}

/* ---- norms: sums in doubles, so that no input overflows and long rows stay accurate ---- */
static double total_v128(const float *x, size_t n)
{
    v2d s = { 0, 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) s = v4_wide_add(s, v4_load(x + i));
    double sum = s[0] + s[1];
    for (; i < n; i++) sum += x[i];
    return sum;
}
/* Sum of (x - mean)^2. */
static double squares_v128(const float *x, size_t n, double mean)
{
    const v2d m = { mean, mean };
    v2d s0 = { 0, 0 }, s1 = s0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const v4f v = v4_load(x + i);
        const v2d a = v4_wide_low(v) - m, b = v4_wide_high(v) - m;
        s0 += a * a;
        s1 += b * b;
    }
    s0 += s1;
    double sum = s0[0] + s0[1];
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void layer_norm_v128(float *y, const float *x, const float *weight, const float *bias,
                            size_t n, float eps)
{
    const double mean = n ? total_v128(x, n) / (double)n : 0;
    const double f = 1 / sqrt(n ? squares_v128(x, n, mean) / (double)n + eps : 1);
    const v2d m = { mean, mean }, fs = { f, f };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const v4f v = v4_load(x + i), r = v4_narrow((v4_wide_low(v) - m) * fs, (v4_wide_high(v) - m) * fs);
        v4_store(y + i, v4_fma(r, v4_load(weight + i), bias ? v4_load(bias + i) : v4_set1(0)));
    }
    for (; i < n; i++) y[i] = (float)((x[i] - mean) * f) * weight[i] + (bias ? bias[i] : 0);
}

static void rms_norm_v128(float *y, const float *x, const float *weight, size_t n, float eps)
{
    const float f = (float)(1 / sqrt(n ? squares_v128(x, n, 0) / (double)n + eps : 1));
    const v4f fs = v4_set1(f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const v4f v = v4_load(x + i) * fs;
        v4_store(y + i, weight ? v * v4_load(weight + i) : v);
    }
    for (; i < n; i++) y[i] = x[i] * f * (weight ? weight[i] : 1);
}

/* Channels one apart, then two apart, of eight. */
QSF_TEMPLATE void hadamard8_v128(float *x)
{
    const v4f u = v4_load(x), v = v4_load(x + 4), e = v4_even(u, v), o = v4_odd(u, v), sum = e + o,
        less = e - o;
    /* of u and v in turn */
    const v4f a = v4_even(sum, less), b = v4_odd(sum, less), s = a + b, d = a - b;
    v4_store(x, v4_even(s, d));
    v4_store(x + 4, v4_odd(s, d));
}
/* Sums and differences of x[half] and what follows it. */
QSF_TEMPLATE void hadamard_step_v128(float *x, size_t half)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const v4f a = v4_load(x + i), b = v4_load(x + half + i);
        v4_store(x + i, a + b);
        v4_store(x + half + i, a - b);
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[half + i];
        x[i] = a + b;
        x[half + i] = a - b;
    }
}
static void hadamard_inplace_v128(float *x, size_t n, size_t apart)
{
    const size_t whole = n & (~n + 1);
    const bool eights = apart == 1 && whole >= 8;
    for (size_t i = 0; eights && i < n; i += 8) hadamard8_v128(x + i);
    for (size_t half = eights ? 4 : apart; half < whole; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half) hadamard_step_v128(x + i, half);
    map_v128(V128_MUL, x, x, NULL, qsf_hadamard_scale(whole, apart), n);
}

/* ---- rotary positions ---- */
static void rotate_halves_v128(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const v4f a = v4_load(x + i), b = v4_load(x + half + i), c = v4_load(cos + i), s = v4_load(sin + i);
        v4_store(x + i, v4_fma(a, c, -(b * s)));
        v4_store(x + half + i, v4_fma(a, s, b * c));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[half + i];
        x[i] = a * cos[i] - b * sin[i];
        x[half + i] = a * sin[i] + b * cos[i];
    }
}
static void rotate_pairs_v128(float *x, size_t half, const float *cos, const float *sin)
{
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
        const v4f u = v4_load(x + 2 * i), v = v4_load(x + 2 * i + 4), c = v4_load(cos + i),
            s = v4_load(sin + i);
        const v4f a = v4_even(u, v), b = v4_odd(u, v), p = v4_fma(a, c, -(b * s)), q = v4_fma(a, s, b * c);
        v4_store(x + 2 * i, v4_zip_low(p, q));
        v4_store(x + 2 * i + 4, v4_zip_high(p, q));
    }
    for (; i < half; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}
static void rope_apply_v128(float *x, size_t heads, size_t head_dim, size_t half, const float *cos,
                            const float *sin, bool pairs)
{
    for (size_t h = 0; h < heads; h++, x += head_dim)
        if (pairs) rotate_pairs_v128(x, half, cos, sin);
        else rotate_halves_v128(x, half, cos, sin);
}

void qsf_vector_v128(qsf_kernels *k)
{
    k->layer_norm = layer_norm_v128;
    k->rms_norm = rms_norm_v128;
    k->rope_apply = rope_apply_v128;
    k->silu_inplace = silu_inplace_v128;
    k->gelu_inplace = gelu_inplace_v128;
    k->relu_inplace = relu_inplace_v128;
    k->hadamard_inplace = hadamard_inplace_v128;
    k->vec_add = vec_add_v128;
    k->vec_mul = vec_mul_v128;
    k->vec_scale = vec_scale_v128;
    k->silu_mul = silu_mul_v128;
    k->gelu_mul = gelu_mul_v128;
    k->softcap_inplace = softcap_inplace_v128;
}

QSF_V128_END
#endif
