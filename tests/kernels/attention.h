/* Checks of attention over cached keys and values.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "harness.h"

typedef struct attention_case { size_t n, head_dim, rep, lds; float *q, *kd; uint16_t *f16; int8_t *i8; } attention_case;

static attention_case random_attention(table_test *t)
{
    static const size_t dims[] = { 64, 64, 128, 96, 80, 256, 1, 63, 65, 8, 16, 112 };
    attention_case c = { .n = pick_size(t, 70), .rep = pick(t, 1, 9), .head_dim = dims[t->round % QSF_ARRAY_LEN(dims)] };
    c.n = QSF_MAX(c.n, (size_t)1);
    c.lds = c.n + pick(t, 0, 3);
    SHAPE(t, "n %zu, head_dim %zu, rep %zu, lds %zu", c.n, c.head_dim, c.rep, c.lds);
    c.q = guard_f32(t, c.rep * c.head_dim);
    c.kd = guard_f32(t, c.n);
    c.f16 = (uint16_t *)(void *)guard_alloc(t, 2 * c.n * c.head_dim);
    c.i8 = (int8_t *)guard_alloc(t, c.n * c.head_dim);
    fill_f32(t, c.q, c.rep * c.head_dim, 2, 1000);
    fill_f32(t, c.kd, c.n, 0.1f, 100);
    for (size_t i = 0; i < c.n * c.head_dim; i++) {
        float f;
        fill_f32(t, &f, 1, 4, 65504);
        c.f16[i] = qsf_f32_to_f16(f);
        c.i8[i] = (int8_t)(t->round == 0 ? 0 : t->round == 1 ? -128 : (int)pick(t, 0, 255) - 128);
    }
    return c;
}

static void scores_rounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool f16)
{
    ROUNDS(t, 80) {
        const attention_case c = random_attention(t);
        const size_t total = (c.rep - 1) * c.lds + c.n;
        float *s[2];
        for (int v = 0; v < 2; v++) {
            const qsf_kernels *k = v ? var : ref;
            s[v] = guard_f32(t, total);
            for (size_t i = 0; i < total; i++) s[v][i] = 12345;
            if (f16) k->attention_scores_f16(s[v], c.lds, c.q, c.f16, c.n, c.head_dim, c.rep, 0.125f);
            else k->attention_scores_q8(s[v], c.lds, c.q, c.i8, c.kd, c.n, c.head_dim, c.rep, 0.125f);
        }
        same_f32(t, "s", s[0], s[1], total, 1e-5);
        for (size_t i = 0; i < total; i++) if (i % c.lds >= c.n && s[1][i] != 12345) miss(t, "wrote between rows");
    }
}
static void check_attention_scores_f16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var) { scores_rounds(t, ref, var, true); }
static void check_attention_scores_q8(table_test *t, const qsf_kernels *ref, const qsf_kernels *var) { scores_rounds(t, ref, var, false); }

static void weighted_rounds(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool f16)
{
    ROUNDS(t, 80) {
        const attention_case c = random_attention(t);
        const size_t total = (c.rep - 1) * c.lds + c.n;
        float *s = guard_f32(t, total), *factor = guard_f32(t, c.rep), *o[2];
        for (size_t i = 0; i < total; i++) s[i] = fabsf(pick_f32(t, 1));
        for (size_t i = 0; i < c.rep; i++) factor[i] = t->round % 3 ? fabsf(pick_f32(t, 1)) : 0;
        for (int v = 0; v < 2; v++) {
            const qsf_kernels *k = v ? var : ref;
            o[v] = guard_f32(t, c.rep * c.head_dim);
            for (size_t i = 0; i < c.rep * c.head_dim; i++) o[v][i] = t->round % 3 ? c.q[i] : NAN;   /* a factor of 0 does not read it */
            if (f16) k->attention_weighted_sum_f16(o[v], factor, s, c.lds, c.f16, c.n, c.head_dim, c.rep);
            else k->attention_weighted_sum_q8(o[v], factor, s, c.lds, c.i8, c.kd, c.n, c.head_dim, c.rep);
        }
        for (size_t i = 0; i < c.rep * c.head_dim; i++) if (o[0][i] != o[0][i]) miss(t, "the reference made NaN");
        same_f32(t, "o", o[0], o[1], c.rep * c.head_dim, 1e-5);
    }
}
static void check_attention_weighted_sum_f16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var) { weighted_rounds(t, ref, var, true); }
static void check_attention_weighted_sum_q8(table_test *t, const qsf_kernels *ref, const qsf_kernels *var) { weighted_rounds(t, ref, var, false); }

static void check_attention_softmax(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 300);
        SHAPE(t, "n %zu", n);
        float *a = guard_f32(t, n), m[2], l[2];
        fill_f32(t, a, n, 20, 1e30f);
        for (size_t i = 0; i < n; i++) if (t->round % 4 == 3 && (t->round % 8 == 7 || rng_next(t) >> 63)) a[i] = -INFINITY;
        float *b = guard_f32_copy(t, a, n);
        m[0] = m[1] = t->round % 5 == 2 ? pick_f32(t, 40) : -INFINITY;
        l[0] = l[1] = m[0] > -INFINITY ? 3 : 0;
        const float fa = ref->attention_softmax_inplace(a, n, &m[0], &l[0]), fb = var->attention_softmax_inplace(b, n, &m[1], &l[1]);
        near_f32(t, "s", a, b, n, 2e-6, 1e-37);
        near_f32(t, "factor", &fa, &fb, 1, 2e-6, 1e-37);
        near_f32(t, "m", &m[0], &m[1], 1, 0, 0);
        near_f32(t, "l", &l[0], &l[1], 1, 1e-5, 0);
    }
}

static void check_causal_mask(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 300);
        const bool far = t->round == 1;
        const uint32_t first = far ? UINT32_MAX - 20 : (uint32_t)pick(t, 0, 200), current = far ? UINT32_MAX : (uint32_t)pick(t, 0, 400);
        const uint32_t window = t->round % 3 == 0 ? 0 : far ? UINT32_MAX : (uint32_t)pick(t, 1, 300);
        SHAPE(t, "n %zu, first %u, current %u, window %u", n, first, current, window);
        float *a = guard_f32(t, n);
        fill_f32(t, a, n, 1, 1);
        float *b = guard_f32_copy(t, a, n);
        ref->causal_mask_apply(a, n, first, current, window);
        var->causal_mask_apply(b, n, first, current, window);
        same_bytes(t, "s", a, b, 4 * n);
    }
}

#endif
