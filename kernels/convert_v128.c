/* From one number format to another over four floats, SSE4.2 and NEON: int8 activations, half
 * floats, keys and values.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* NaN to 0, infinities to the largest float. */
QSF_TEMPLATE v4f finite_v128(v4f x)
{
    const v4f most = v4_set1(FLT_MAX);
    return v4_max(v4_min(v4_and(x, v4_eq(x, x)), most), -most);
}

/* The largest finite |x| of n. */
static float largest_finite_v128(const float *x, size_t n)
{
    v4f a = v4_set1(0), b = a;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        a = v4_max(v4_abs(v4_load(x + i)), a);              /* NaN as first operand is passed over */
        b = v4_max(v4_abs(v4_load(x + i + 4)), b);
    }
    for (; i < n; i += 4) a = v4_max(v4_abs(v4_load_part(x + i, QSF_MIN(n - i, (size_t)4))), a);
    return QSF_MIN(v4_greatest(v4_max(a, b)), FLT_MAX);
}

/* 16 floats to codes, to nearest even; *sum gets their four partial sums on top. */
QSF_TEMPLATE v16b codes16_v128(const float *x, v4f f, v4i *sum)
{
    v4i c[4];
    QSF_UNROLL
    for (int j = 0; j < 4; j++) c[j] = v4_nearest(finite_v128(v4_load(x + 4 * j)) * f), *sum += c[j];
    return v4_pack16(c[0], c[1], c[2], c[3]);
}

static void quantize_act_v128(qsf_act *a, size_t m, const float *x, size_t cols)
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
        const float scale = largest_finite_v128(from, 64) / 127;
        *d = scale < FLT_MIN ? 0 : scale;
        const v4f f = v4_set1(*d > 0 ? 1 / *d : 0);
        for (int g = 0; g < 4; g++) {
            v4i sum = { 0, 0, 0, 0 };
            v16_store(q + 16 * g, codes16_v128(from + 16 * g, f, &sum));
            h[2 * g] = (int16_t)(sum[0] + sum[1]);
            h[2 * g + 1] = (int16_t)(sum[2] + sum[3]);
        }
        for (int g = 0; g < 2; g++) s[g] = (float)(h[4 * g] + h[4 * g + 1] + h[4 * g + 2] + h[4 * g + 3]);
    }
}

/* Codes of 16 values at once; the last part goes through a buffer. */
static void quantize_kv_8bit_v128(int8_t *out, float *scale, const float *in, size_t n)
{
    const float d = largest_finite_v128(in, n) / 127;
    *scale = d < FLT_MIN ? 0 : d;
    const v4f f = v4_set1(*scale > 0 ? 1 / *scale : 0);
    v4i sum = { 0, 0, 0, 0 };
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(out + i, codes16_v128(in + i, f, &sum));
    if (i == n) return;
    float tail[16] = { 0 };
    int8_t codes[16];
    memcpy(tail, in + i, (n - i) * sizeof *in);
    v16_store(codes, codes16_v128(tail, f, &sum));
    memcpy(out + i, codes, n - i);
}

/* ---- levels of 4 and 2 bits ---- */
static void levels_reach_v128(float *top, float *sum, const float *x, size_t dim)
{
    v4f a = v4_set1(0), b = a, most = a;
    for (size_t i = 0; i < dim; i += 8) {
        const v4f low = v4_abs(v4_load(x + i)), high = v4_abs(v4_load(x + i + 4));
        most = v4_max(high, v4_max(low, most));             /* NaN as first operand is passed over */
        a += low;
        b += high;
    }
    *top = v4_greatest(most);
    *sum = v4_sum(a + b);
}
QSF_TEMPLATE v4i level_v128(const float *x, v4f inverse, v4f most)
{
    const v4f c = v4_load(x) * inverse + v4_set1(0.5f) * (most + v4_set1(1));
    return v4_trunc(v4_min(v4_max(c, v4_set1(0)), most));
}
static void levels_fit_v128(float *with, float *of, const float *x, size_t dim, float inverse, float most)
{
    const v4f f = v4_set1(inverse), m = v4_set1(most);
    v4f w[2] = { v4_set1(0), v4_set1(0) }, o[2] = { v4_set1(0), v4_set1(0) };
    for (size_t i = 0; i < dim; i += 8)
        QSF_UNROLL
        for (int j = 0; j < 2; j++) {
            const v4f v = v4_set1(2) * v4_float(level_v128(x + i + 4 * j, f, m)) - m;
            w[j] += v * v4_load(x + i + 4 * j);
            o[j] += v * v;
        }
    *with = v4_sum(w[0] + w[1]);
    *of = v4_sum(o[0] + o[1]);
}
static void levels_codes_v128(uint8_t *out, const float *x, size_t dim, float inverse, float most)
{
    const v4f f = v4_set1(inverse), m = v4_set1(most);
    for (size_t i = 0; i < dim; i += 16)
        v16_store(out + i, v4_pack16(level_v128(x + i, f, m), level_v128(x + i + 4, f, m),
                                     level_v128(x + i + 8, f, m), level_v128(x + i + 12, f, m)));
}
static void quantize_kv_levels_v128(uint8_t *out, uint16_t *scale, const float *in, size_t n, unsigned bits)
{
    qsf_quantize_levels(out, scale, in, n, bits, levels_reach_v128, levels_fit_v128, levels_codes_v128);
}

QSF_TEMPLATE void unpack_any_v128(int8_t *out, const uint8_t *in, size_t n, size_t part, int bits)
{
    const v16b most = v16_set1((1 << bits) - 1);
    for (size_t at = 0; at < n; at += part, in += part, out += part * (8 / (size_t)bits))
        for (size_t i = 0; i < part; i += 16) {
            const v16b v = v16_fetch(in + i);
            QSF_UNROLL
            for (int f = 0; f < 8 / bits; f++) {
                const v16b c = v16_cut(v16_shift(v, -f * bits), bits, f + 1 == 8 / bits);
                v16_store(out + (size_t)f * part + i, v16_minus(v16_shift(c, 1), most));
            }
        }
}
static void unpack_kv_levels_v128(int8_t *out, const uint8_t *in, size_t n, size_t part, unsigned bits)
{
    if (bits == 4) unpack_any_v128(out, in, n, part, 4);
    else unpack_any_v128(out, in, n, part, 2);
}

static void fp16_to_fp32_array_v128(float *out, const uint16_t *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v4f x[2];
        v8_halves(x, in + i);
        v4_store(out + i, x[0]);
        v4_store(out + i + 4, x[1]);
    }
    for (; i < n; i++) out[i] = qsf_f16_to_f32(in[i]);
}
static void fp32_to_fp16_array_v128(uint16_t *out, const float *in, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) v8_store_halves(out + i, v4_load(in + i), v4_load(in + i + 4));
    for (; i < n; i++) out[i] = qsf_f32_to_f16(in[i]);
}

void qsf_convert_v128(qsf_kernels *k)
{
    k->quantize_act = quantize_act_v128;
    k->quantize_kv_8bit = quantize_kv_8bit_v128;
    k->quantize_kv_levels = quantize_kv_levels_v128;
    k->unpack_kv_levels = unpack_kv_levels_v128;
    k->fp16_to_fp32_array = fp16_to_fp32_array_v128;
    k->fp32_to_fp16_array = fp32_to_fp16_array_v128;
}

QSF_V128_END
#endif
