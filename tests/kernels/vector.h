/* Checks of norms, rotary positions, activations and element-wise arithmetic.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_VECTOR_H
#define KERNELS_VECTOR_H

#include "harness.h"

static void check_layer_norm(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 3000);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n), *w = guard_f32(t, n), *b = guard_f32(t, n), *y = guard_f32(t, n),
            *z = guard_f32_copy(t, x, n);
        fill_f32(t, x, n, 5, 1e15f);
        for (size_t i = 0; i < n; i++) x[i] += t->round % 4 == 3 ? 20 : 0;
        fill_f32(t, w, n, 2, 1);
        fill_f32(t, b, n, 1, 1);
        if (n) memcpy(z, x, 4 * n);
        ref->layer_norm(y, x, w, t->round % 2 ? b : NULL, n, 1e-5f);
        var->layer_norm(z, t->round % 3 ? z : x, w, t->round % 2 ? b : NULL, n, 1e-5f);
        same_f32(t, "y", y, z, n, 1e-5);
    }
}
static void check_rms_norm(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 3000);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n), *w = guard_f32(t, n), *y = guard_f32(t, n);
        fill_f32(t, x, n, 5, 1e25f);
        fill_f32(t, w, n, 2, 1);
        float *z = guard_f32_copy(t, x, n);
        ref->rms_norm(y, x, t->round % 2 ? w : NULL, n, 1e-6f);
        var->rms_norm(z, t->round % 3 ? z : x, t->round % 2 ? w : NULL, n, 1e-6f);
        near_f32(t, "y", y, z, n, 1e-6, 1e-37);
    }
}

static void check_rope_apply(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        static const size_t halves[] = { 32, 32, 64, 48, 1, 7, 40, 128, 33, 4 };
        const size_t half = halves[t->round % QSF_ARRAY_LEN(halves)];
        const size_t head_dim = 2 * half + pick(t, 0, 1) * pick(t, 0, 40), heads = pick(t, 1, 5),
            total = heads * head_dim;
        SHAPE(t, "half %zu, head_dim %zu, heads %zu", half, head_dim, heads);
        float *x = guard_f32(t, total), *cosine = guard_f32(t, half), *sine = guard_f32(t, half);
        fill_f32(t, x, total, 3, 1e30f);
        fill_f32(t, cosine, half, 1, 1);
        fill_f32(t, sine, half, 1, 1);
        float *y = guard_f32_copy(t, x, total);
        const bool pairs = t->round % 2;
        ref->rope_apply(x, heads, head_dim, half, cosine, sine, pairs);
        var->rope_apply(y, heads, head_dim, half, cosine, sine, pairs);
        same_f32(t, "x", x, y, total, 1e-6);
    }
}

/* x[n] in place. */
static void inplace_rounds(table_test *t, void (*ref)(float *, size_t), void (*var)(float *, size_t),
                           double tol, double floor)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 2000);
        SHAPE(t, "n %zu", n);
        float *a = guard_f32(t, n);
        fill_f32(t, a, n, t->round % 2 ? 3 : 30, 1e30f);
        float *b = guard_f32_copy(t, a, n);
        ref(a, n);
        var(b, n);
        near_f32(t, "x", a, b, n, tol, floor);
    }
}
static void check_silu(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    inplace_rounds(t, ref->silu_inplace, var->silu_inplace, 2e-6, 1e-33);
}
static void check_gelu(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    inplace_rounds(t, ref->gelu_inplace, var->gelu_inplace, 1e-5, 1e-9);
}
static void check_relu(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    inplace_rounds(t, ref->relu_inplace, var->relu_inplace, 0, 0);
}

static void check_softplus(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    inplace_rounds(t, ref->softplus_inplace, var->softplus_inplace, 2e-6, 1e-13);
}

static void check_hadamard(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = t->round % 3 ? 8 * pick(t, 1, 40) : pick_size(t, 300),
            apart = t->round % 4 ? 1 : (size_t)1 << pick(t, 0, 4);
        SHAPE(t, "n %zu, apart %zu", n, apart);
        float *x = guard_f32(t, n);
        fill_f32(t, x, n, 30, 1e30f);
        float *a = guard_f32_copy(t, x, n), *b = guard_f32_copy(t, x, n);
        ref->hadamard_inplace(a, n, apart);
        var->hadamard_inplace(b, n, apart);
        near_f32(t, "x", a, b, n, 0, 0);
        /* the first channel is the sum of those that are mixed with it */
        size_t whole = 1;
        while (n && n % (2 * whole) == 0) whole *= 2;
        double sum = 0;
        for (size_t i = 0; i < whole && n; i += apart) sum += x[i];
        if (n && whole > apart && fabs(a[0] - sum / sqrt((double)(whole / apart))) > 1e-5 * fabs(sum) + 1e-3)
            miss(t, "the reference is wrong");
        ref->hadamard_inplace(a, n, apart);
        same_f32(t, "x back", x, a, n, 1e-5);
    }
}

/* y[n] from a[n] and b[n], y apart or over a. */
typedef void binary_fn(float *, const float *, const float *, size_t);
static void binary_rounds(table_test *t, binary_fn *ref, binary_fn *var, double tol, double floor,
                          float extreme)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 2000);
        SHAPE(t, "n %zu", n);
        float *a = guard_f32(t, n), *b = guard_f32(t, n), *y = guard_f32(t, n);
        fill_f32(t, a, n, 20, extreme);
        fill_f32(t, b, n, 5, extreme);
        float *z = guard_f32_copy(t, a, n);
        ref(y, a, b, n);
        var(z, t->round % 2 ? z : a, b, n);
        near_f32(t, "y", y, z, n, tol, floor);
    }
}
static void check_vec_add(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    binary_rounds(t, ref->vec_add, var->vec_add, 0, 0, 1e38f);
}
static void check_vec_mul(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    binary_rounds(t, ref->vec_mul, var->vec_mul, 0, 0, 1e30f);
}
static void check_silu_mul(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    binary_rounds(t, ref->silu_mul, var->silu_mul, 2e-6, 1e-33, 1e15f);
}
static void check_gelu_mul(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    binary_rounds(t, ref->gelu_mul, var->gelu_mul, 1e-5, 1e-8, 1e12f);
}

static void scale_rounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool cap)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 2000);
        SHAPE(t, "n %zu", n);
        float *a = guard_f32(t, n);
        fill_f32(t, a, n, t->round % 2 ? 100 : 1, 1e30f);
        float *b = guard_f32_copy(t, a, n);
        if (cap) ref->softcap_inplace(a, 30, n), var->softcap_inplace(b, 30, n);
        else ref->vec_scale(a, 0.37f, n), var->vec_scale(b, 0.37f, n);
        near_f32(t, "x", a, b, n, cap ? 2e-6 : 0, 0);
    }
}
static void check_vec_scale(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    scale_rounds(t, ref, var, false);
}
static void check_softcap(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    scale_rounds(t, ref, var, true);
}

#endif
