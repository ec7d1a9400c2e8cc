/* Norms, rotary positions, activations and element-wise arithmetic in plain C.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

static void layer_norm_scalar(float *y, const float *x, const float *weight, const float *bias,
                              size_t n, float eps)
{
    double sum = 0, var = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    const double mean = n ? sum / (double)n : 0;
    for (size_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    const double f = 1 / sqrt(n ? var / (double)n + eps : 1);
    for (size_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * f) * weight[i] + (bias ? bias[i] : 0);
}

static void rms_norm_scalar(float *y, const float *x, const float *weight, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    const float f = (float)(1 / sqrt(n ? sum / (double)n + eps : 1));
    for (size_t i = 0; i < n; i++) y[i] = x[i] * f * (weight ? weight[i] : 1);
}

static void rope_apply_scalar(float *x, size_t heads, size_t head_dim, size_t half, const float *cos,
                              const float *sin, bool pairs)
{
    const size_t step = pairs ? 2 : 1, apart = pairs ? 1 : half;
    for (size_t h = 0; h < heads; h++, x += head_dim)
        for (size_t i = 0; i < half; i++) {
            const float a = x[step * i], b = x[step * i + apart];
            x[step * i] = a * cos[i] - b * sin[i];
            x[step * i + apart] = a * sin[i] + b * cos[i];
        }
}

static float silu_one_scalar(float x) { return x / (1 + expf(-x)); }
/* x/2 (1 + tanh(u)) as x / (1 + exp(-2u)): the same without cancellation where x is
 * far below zero. */
static float gelu_one_scalar(float x)
{
    const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return x / (1 + expf(-2 * u));
}

static void silu_inplace_scalar(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = silu_one_scalar(x[i]);
}
static void gelu_inplace_scalar(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = gelu_one_scalar(x[i]);
}
static void relu_inplace_scalar(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

static void softplus_inplace_scalar(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 20 ? x[i] : (float)log(1 + exp(x[i]));
}

void qsf_hadamard_scalar(float *x, size_t n, size_t apart)
{
    const size_t whole = n & (~n + 1);
    for (size_t half = apart; half < whole; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t j = i; j < i + half; j++) {
                const float a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
    const float scale = qsf_hadamard_scale(whole, apart);
    for (size_t i = 0; i < n; i++) x[i] *= scale;
}

static void vec_add_scalar(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}
static void vec_mul_scalar(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}
static void vec_scale_scalar(float *x, float f, size_t n) { for (size_t i = 0; i < n; i++) x[i] *= f; }

static void silu_mul_scalar(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = silu_one_scalar(gate[i]) * up[i];
}
static void gelu_mul_scalar(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = gelu_one_scalar(gate[i]) * up[i];
}
static void softcap_inplace_scalar(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = cap * tanhf(x[i] / cap);
}

void qsf_vector_scalar(qsf_kernels *k)
{
    k->layer_norm = layer_norm_scalar;
    k->rms_norm = rms_norm_scalar;
    k->rope_apply = rope_apply_scalar;
    k->silu_inplace = silu_inplace_scalar;
    k->gelu_inplace = gelu_inplace_scalar;
    k->relu_inplace = relu_inplace_scalar;
    k->softplus_inplace = softplus_inplace_scalar;
    k->hadamard_inplace = qsf_hadamard_scalar;
    k->vec_add = vec_add_scalar;
    k->vec_mul = vec_mul_scalar;
    k->vec_scale = vec_scale_scalar;
    k->silu_mul = silu_mul_scalar;
    k->gelu_mul = gelu_mul_scalar;
    k->softcap_inplace = softcap_inplace_scalar;
}
