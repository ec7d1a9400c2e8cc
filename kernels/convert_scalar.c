/* From one number format to another in plain C: int8 activations, half floats, keys and values.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

/* Rounds to the nearest integer, ties to even: after adding 1.5 * 2^23 a float's step is 1.  |x| <
 * 2^22. */
static int32_t round_scalar(float x)
{
    const float r = x + 12582912.0f;
    return (int32_t)(qsf_f32_bits(r) - 0x4b400000);
}

/* The largest finite |x| of n: infinities count as the largest float, NaN is ignored. */
static float largest_scalar(const float *x, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);
        top = a > top ? a : top;                        /* false for NaN */
    }
    return QSF_MIN(top, FLT_MAX);
}
static float finite_scalar(float x) { return x != x ? 0 : QSF_MAX(-FLT_MAX, QSF_MIN(x, FLT_MAX)); }

/* The scale of codes -127..127; if it would not be a normal number, all codes are zero. */
static float scale_127_scalar(const float *x, size_t n)
{
    const float d = largest_scalar(x, n) / 127;
    return d < FLT_MIN ? 0 : d;
}

static int32_t quantize_127_scalar(int8_t *q, const float *x, size_t n, float d)
{
    const float f = d > 0 ? 1 / d : 0;
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float scaled = finite_scalar(x[i]) * f;
        const int32_t c = round_scalar(scaled);
        q[i] = (int8_t)c;
        sum += c;
    }
    return sum;
}

static void quantize_act_scalar(qsf_act *a, size_t m, const float *x, size_t cols)
{
    int8_t *q = a->q + m * a->cols;
    float *d = a->d + m * (a->cols / 64), *s = a->s + m * (a->cols / 32);
    int16_t *h = a->h + m * (a->cols / 8);
    for (size_t at = 0; at < a->cols; at += 64) {
        const size_t n = at < cols ? QSF_MIN(cols - at, (size_t)64) : 0;
        d[at / 64] = scale_127_scalar(x + QSF_MIN(at, cols), n);
        for (size_t g = 0; g < 64; g += 32) {
            const size_t part = g < n ? QSF_MIN(n - g, (size_t)32) : 0;
            s[(at + g) / 32] = (float)quantize_127_scalar(q + at + g, x + QSF_MIN(at + g, cols), part,
                                                          d[at / 64]);
            memset(q + at + g + part, 0, 32 - part);
        }
    }
    for (size_t i = 0; i < a->cols / 8; i++) {
        int sum = 0;
        for (size_t j = 0; j < 16; j += 4)
            sum += q[i / 2 * 16 + j + i % 2 * 2] + q[i / 2 * 16 + j + i % 2 * 2 + 1];
        h[i] = (int16_t)sum;
    }
}

static void quantize_kv_8bit_scalar(int8_t *out, float *scale, const float *in, size_t n)
{
    *scale = scale_127_scalar(in, n);
    quantize_127_scalar(out, in, n, *scale);
}

/* Sums in eight lanes, so that vectors of four and of eight get the same floats. */
static float lanes_sum_scalar(const float l[8])
{
    return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

static void levels_reach_scalar(float *top, float *sum, const float *x, size_t dim)
{
    float lanes[8] = { 0 };
    *top = 0;
    for (size_t i = 0; i < dim; i++) {
        const float a = fabsf(x[i]);
        *top = a > *top ? a : *top;
        lanes[i % 8] += a;
    }
    *sum = lanes_sum_scalar(lanes);
}
static int32_t level_scalar(float x, float inverse, float most)
{
    const float c = x * inverse + 0.5f * (most + 1);
    return (int32_t)(c > 0 ? c < most ? c : most : 0);          /* NaN becomes 0 */
}
static void levels_fit_scalar(float *with, float *of, const float *x, size_t dim, float inverse, float most)
{
    float w[8] = { 0 }, o[8] = { 0 };
    for (size_t i = 0; i < dim; i++) {
        const float v = 2 * (float)level_scalar(x[i], inverse, most) - most;
        w[i % 8] += v * x[i];
        o[i % 8] += v * v;
    }
    *with = lanes_sum_scalar(w);
    *of = lanes_sum_scalar(o);
}
static void levels_codes_scalar(uint8_t *out, const float *x, size_t dim, float inverse, float most)
{
    for (size_t i = 0; i < dim; i++) out[i] = (uint8_t)level_scalar(x[i], inverse, most);
}
static void quantize_kv_levels_scalar(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits)
{
    qsf_quantize_levels(out, scale, in, n, bits, levels_reach_scalar, levels_fit_scalar, levels_codes_scalar);
}

static void unpack_kv_levels_scalar(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits)
{
    const int most = (1 << bits) - 1;
    for (size_t at = 0; at < n; at += part, in += part)
        for (unsigned f = 0; f < 8 / bits; f++, out += part)
            for (size_t i = 0; i < part; i++) out[i] = (int8_t)(2 * (in[i] >> f * bits & most) - most);
}

static void fp16_to_fp32_array_scalar(float *out, const uint16_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = qsf_f16_to_f32(in[i]);
}
static void fp32_to_fp16_array_scalar(uint16_t *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = qsf_f32_to_f16(in[i]);
}

void qsf_convert_scalar(qsf_kernels *k)
{
    k->quantize_act = quantize_act_scalar;
    k->quantize_kv_8bit = quantize_kv_8bit_scalar;
    k->quantize_kv_levels = quantize_kv_levels_scalar;
    k->unpack_kv_levels = unpack_kv_levels_scalar;
    k->fp16_to_fp32_array = fp16_to_fp32_array_scalar;
    k->fp32_to_fp16_array = fp32_to_fp16_array_scalar;
}
