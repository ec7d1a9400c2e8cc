/* Checks of number formats: int8 activations, half floats, quantised keys and values, patterns.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_CONVERT_H
#define KERNELS_CONVERT_H

#include "harness.h"
#include "matmul.h"

static void fill_any_float(table_test *t, float *x, size_t n)
{
    fill_f32(t, x, n, t->round % 5 == 4 ? 1e-38f : 3, FLT_MAX);
    for (size_t i = 0; i < n && t->round % 6 == 5; i++)
        if (pick(t, 0, 7) == 0) x[i] = pick(t, 0, 2) == 0 ? NAN : pick(t, 0, 1) ? INFINITY : -INFINITY;
    /* ties */
    if (t->round % 7 == 6) for (size_t i = 0; i < n; i++) x[i] = 0.5f * (float)((int)pick(t, 0, 254) - 127);
    if (t->round % 7 == 6 && n) x[0] = 127;
}

static void check_quantize_act(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t cols = pick_size(t, 2000), n = pick(t, 1, 3), m = pick(t, 0, n - 1);
        SHAPE(t, "cols %zu, row %zu of %zu", cols, m, n);
        float *x = guard_f32(t, cols);
        fill_any_float(t, x, cols);
        qsf_act a = guard_act(t, n, cols), b = guard_act(t, n, cols);
        for (int v = 0; v < 2; v++) {
            qsf_act *o = v ? &b : &a;
            memset(o->q, 99, n * o->cols);
            memset(o->d, 99, n * o->cols / 16);
            memset(o->s, 99, n * o->cols / 8);
            memset(o->h, 99, n * o->cols / 4);
            (v ? var : ref)->quantize_act(o, m, x, cols);
        }
        same_bytes(t, "q", a.q, b.q, n * a.cols);
        same_bytes(t, "d", a.d, b.d, n * a.cols / 16);
        same_bytes(t, "s", a.s, b.s, n * a.cols / 8);
        same_bytes(t, "h", a.h, b.h, n * a.cols / 4);
        for (size_t i = 0; i < b.cols; i++) {
            const float d = b.d[m * (b.cols / 64) + i / 64], want = i < cols ? x[i] : 0;
            const int q = b.q[m * b.cols + i];
            if (q < -127 || !isfinite(d)
                || (isfinite(want) && d > 0 && !(fabs((double)q * d - want) <= 0.5001 * d))) {
                miss(t, "x[%zu] = %g became %d * %g", i, want, q, d);
                break;
            }
        }
        for (size_t i = 0; i < b.cols / 32; i++) {
            int sum = 0;
            for (size_t c = 0; c < 32; c++) sum += b.q[m * b.cols + 32 * i + c];
            if (b.s[m * (b.cols / 32) + i] != (float)sum) {
                miss(t, "s[%zu] is %g, not %d", i, b.s[m * (b.cols / 32) + i], sum);
                break;
            }
        }
        for (size_t i = 0; i < b.cols / 8; i++) {
            int sum = 0;
            for (size_t c = 0; c < 16; c++) if (c / 2 % 2 == i % 2) sum += b.q[m * b.cols + 16 * (i / 2) + c];
            if (b.h[m * (b.cols / 8) + i] != sum) {
                miss(t, "h[%zu] is %d, not %d", i, b.h[m * (b.cols / 8) + i], sum);
                break;
            }
        }
    }
}

static void check_kv_8bit(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 300);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n), d[2];
        fill_any_float(t, x, n);
        int8_t *a = (int8_t *)guard_alloc(t, n), *b = (int8_t *)guard_alloc(t, n);
        ref->quantize_kv_8bit(a, &d[0], x, n);
        var->quantize_kv_8bit(b, &d[1], x, n);
        same_bytes(t, "out", a, b, n);
        same_bytes(t, "scale", &d[0], &d[1], 4);
        for (size_t i = 0; i < n; i++)
            if (isfinite(x[i]) && d[1] > 0 && !(fabs((double)b[i] * d[1] - x[i]) <= 0.5001 * d[1])) {
                miss(t, "x[%zu] = %g became %d * %g", i, x[i], b[i], d[1]);
                break;
            }
    }
}

static void check_quantize_kv_levels(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = QSF_MAX(pick_size(t, 300), (size_t)1), dim = qsf_kv_dim(n);
        const unsigned bits = t->round / 2 % 2 ? 4 : 2;
        SHAPE(t, "n %zu, bits %u", n, bits);
        float *x = guard_f32(t, dim);
        fill_any_float(t, x, n);
        for (size_t i = n; i < dim; i++) x[i] = 0;
        uint8_t *a = guard_alloc(t, dim), *b = guard_alloc(t, dim);
        uint16_t d[2];
        ref->quantize_kv_levels(a, &d[0], x, n, bits);
        var->quantize_kv_levels(b, &d[1], x, n, bits);
        same_bytes(t, "out", a, b, dim);
        same_bytes(t, "scale", &d[0], &d[1], 2);
        if (d[1] >= 0x7c00) miss(t, "scale %04x", d[1]);
        if (t->round % 7 == 1 || t->round % 6 == 5 || t->round % 5 == 4) continue;
        /* neither a much larger or smaller scale is better, nor another code */
        const double scale = qsf_f16_to_f32(d[1]);
        double left = 0, other[2] = { 0, 0 };
        for (size_t i = 0; i < n; i++) {
            const int most = (1 << bits) - 1;
            const double level = 2 * b[i] - most, miss_by = fabs(level * scale - x[i]),
                by = scale * (1 + 1e-4) + 1e-7;
            if (b[i] > most || (miss_by > by && !(x[i] > 0 ? b[i] == most : b[i] == 0))) {
                miss(t, "x[%zu] = %g became %g * %g", i, x[i], level, scale);
                break;
            }
            left += miss_by * miss_by;
            for (int o = 0; o < 2; o++) other[o] += pow(level * scale * (o ? 1.5 : 0.7) - x[i], 2);
        }
        if (n > 1 && t->round % 7 != 6 && (left > other[0] * 1.001 || left > other[1] * 1.001))
            miss(t, "scale %g leaves %g, beside it %g and %g", scale, left, other[0], other[1]);
    }
}
static void check_unpack_kv_levels(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 60) {
        const unsigned bits = t->round % 2 ? 4 : 2;
        const size_t part = t->round / 2 % 2 ? 64 : 8 * bits, n = 64 * pick(t, 0, 9);
        SHAPE(t, "n %zu, part %zu, bits %u", n, part, bits);
        uint8_t *in = guard_alloc(t, n);
        for (size_t i = 0; i < n; i++) in[i] = (uint8_t)(rng_next(t) >> 30);
        int8_t *a = (int8_t *)guard_alloc(t, n * (8 / bits)), *b = (int8_t *)guard_alloc(t, n * (8 / bits));
        ref->unpack_kv_levels(a, in, n, part, bits);
        var->unpack_kv_levels(b, in, n, part, bits);
        same_bytes(t, "out", a, b, n * (8 / bits));
        for (size_t i = 0; i < n * (8 / bits); i++) {
            const size_t whole = part * (8 / bits), in_part = i % whole;
            const int c = in[i / whole * part + in_part % part] >> in_part / part * bits & ((1 << bits) - 1);
            if (a[i] != 2 * c + 1 - (1 << bits)) { miss(t, "the reference is wrong"); break; }
        }
    }
}

static void check_fp16_to_fp32(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 60) {
        const size_t n = t->round == 59 ? 65536 : pick_size(t, 2000);
        SHAPE(t, "n %zu", n);
        uint16_t *in = (uint16_t *)(void *)guard_alloc(t, 2 * n);
        for (size_t i = 0; i < n; i++) in[i] = (uint16_t)(n == 65536 ? i : rng_next(t) >> 40);
        float *a = guard_f32(t, n), *b = guard_f32(t, n);
        ref->fp16_to_fp32_array(a, in, n);
        var->fp16_to_fp32_array(b, in, n);
        near_f32(t, "out", a, b, n, 0, 0);
        for (size_t i = 0; i < n; i++)
            if (signbit(a[i]) != signbit(b[i]) && a[i] == a[i]) miss(t, "sign of %zu", i);
    }
}
static void check_fp32_to_fp16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 200) {
        const size_t n = pick_size(t, 2000);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n);
        for (size_t i = 0; i < n; i++) {        /* any bits, or near a half float where rounding is close */
            const uint32_t near = qsf_f32_bits(qsf_f16_to_f32((uint16_t)(rng_next(t) >> 40)));
            x[i] = qsf_f32_from_bits(t->round % 2 ? (uint32_t)(rng_next(t) >> 32)
                                     : near + (uint32_t)pick(t, 0, 2) * 0xfff + (uint32_t)pick(t, 0, 2));
        }
        uint16_t *a = (uint16_t *)(void *)guard_alloc(t, 2 * n),
            *b = (uint16_t *)(void *)guard_alloc(t, 2 * n);
        ref->fp32_to_fp16_array(a, x, n);
        var->fp32_to_fp16_array(b, x, n);
        for (size_t i = 0; i < n; i++) {
            const bool nan = (a[i] & 0x7fff) > 0x7c00;
            if (nan ? (b[i] & 0x7fff) <= 0x7c00 : a[i] != b[i]) {
                miss(t, "out[%zu] of %.9g: %04x, not %04x", i, x[i], b[i], a[i]);
                break;
            }
        }
    }
}

#endif
