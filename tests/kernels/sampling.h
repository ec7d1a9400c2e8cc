/* Checks of choosing among a vocabulary: against the reference, and the reference against sorting.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_SAMPLING_H
#define KERNELS_SAMPLING_H

#include "harness.h"

static void fill_logits(table_test *t, float *x, size_t n)
{
    fill_f32(t, x, n, 15, 1e30f);
    for (size_t i = 0; i < n; i++) {
        if (t->round % 4 == 1) x[i] = floorf(x[i]);                             /* many equals */
        if (t->round % 7 == 3 && pick(t, 0, 3) == 0) x[i] = -INFINITY;
        if (t->round % 11 == 5 && pick(t, 0, 9) == 0) x[i] = NAN;
        if (t->round % 13 == 6 && pick(t, 0, 99) == 0) x[i] = INFINITY;
    }
}

static void check_softmax_temperature(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 5000);
        const float temperature = t->round % 9 == 4 ? 0 : 0.1f + fabsf(pick_f32(t, 2));
        SHAPE(t, "n %zu, temperature %g", n, temperature);
        float *x = guard_f32(t, n), *a = guard_f32(t, n), *b = guard_f32(t, n);
        fill_logits(t, x, n);
        ref->softmax_with_temperature(a, x, n, temperature);
        var->softmax_with_temperature(b, x, n, temperature);
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += b[i];
        near_f32(t, "probs", a, b, n, 1e-5, 1e-37);
        if (n && !(fabs(sum - 1) < 1e-4)) miss(t, "the sum is %g", sum);
    }
}

static bool ranks_before(const float *x, size_t a, size_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b) || (x[a] == x[a] && x[b] != x[b]); }

static void check_top_k(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, t->round % 10 == 9 ? 40000 : 900), k = t->round % 6 == 5 ? pick(t, 0, n + 1) : pick(t, 0, 60);
        SHAPE(t, "n %zu, k %zu", n, k);
        float *x = guard_f32(t, n);
        fill_logits(t, x, n);
        float *a = guard_f32_copy(t, x, n), *b = guard_f32_copy(t, x, n);
        ref->top_k_filter(a, n, k);
        var->top_k_filter(b, n, k);
        same_bytes(t, "logits", a, b, 4 * n);
        for (size_t i = 0; i < n && n < 200; i++) {         /* rank by counting */
            size_t rank = 0;
            for (size_t j = 0; j < n; j++) rank += ranks_before(x, j, i);
            const float want = rank < k && x[i] == x[i] ? x[i] : -INFINITY;
            if (b[i] != want) { miss(t, "logits[%zu] of rank %zu: %g, not %g", i, rank, b[i], want); break; }
        }
    }
}

static void random_probs(table_test *t, const qsf_kernels *ref, float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = t->round % 4 == 1 ? floorf(pick_f32(t, 4)) : pick_f32(t, 8);
    ref->softmax_with_temperature(p, p, n, t->round % 5 ? 1 : 0.1f);
    if (t->round % 3 == 2) for (size_t i = 0; i < n; i++) if (p[i] < 0.5f / (float)n) p[i] = 0;
}

static void check_top_p(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, 900);
        const float p = t->round % 8 == 7 ? 1 : t->round % 8 == 6 ? 0 : fabsf(pick_f32(t, 1));
        SHAPE(t, "n %zu, p %.9g", n, p);
        float *x = guard_f32(t, n);
        random_probs(t, ref, x, n);
        float *a = guard_f32_copy(t, x, n), *b = guard_f32_copy(t, x, n);
        ref->top_p_filter(a, n, p);
        var->top_p_filter(b, n, p);
        near_f32(t, "probs", a, b, n, 1e-6, 0);
        double total = 0, sum = 0;
        size_t least = n;                                    /* the last that stayed: without it the sum is under p */
        for (size_t i = 0; i < n; i++) {
            total += x[i];
            if (b[i] > 0 && (least == n || ranks_before(x, least, i))) least = i;
        }
        for (size_t i = 0; i < n; i++) {
            if (b[i] > 0) sum += x[i];
            else if (p < 1 && least < n && x[i] > 0 && ranks_before(x, i, least)) { miss(t, "probs[%zu] is gone, the less probable %zu is not", i, least); break; }
        }
        if (n && p < 1 && (sum < QSF_MIN((double)p, total) - 1e-9 || (least < n && sum - x[least] >= p + 1e-9 && sum > x[least])))
            miss(t, "kept %.9g, the last of it %.9g, for p = %.9g", sum, least < n ? x[least] : 0, p);
    }
}

static void check_sample(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = QSF_MAX(pick_size(t, 3000), (size_t)1);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n);
        random_probs(t, ref, x, n);
        for (int draw = 0; draw < 20; draw++) {
            const float u = draw == 0 ? 0 : draw == 1 ? 0x0.ffffffp0f : fabsf(pick_f32(t, 0.99999f));
            const size_t a = ref->sample_from_probs(x, n, u), b = var->sample_from_probs(x, n, u);
            if (a != b) miss(t, "u %.9g: %zu, not %zu", u, b, a);
            double below = 0, total = 0;
            for (size_t i = 0; i < n; i++) below += i < a ? x[i] : 0, total += x[i];
            if (a >= n || x[a] <= 0 || u < below - 1e-6 || QSF_MIN((double)u, total) > below + x[a] + 1e-5) miss(t, "u %.9g drew %zu, which begins at %.9g", u, a, below);
        }
    }
}

static void check_argmax(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, 3000);
        SHAPE(t, "n %zu", n);
        float *x = guard_f32(t, n);
        fill_logits(t, x, n);
        if (t->round == 12) for (size_t i = 0; i < n; i++) x[i] = NAN;
        if (t->round == 13) for (size_t i = 0; i < n; i++) x[i] = i % 3 ? -INFINITY : NAN;
        const size_t a = ref->argmax(x, n), b = var->argmax(x, n);
        if (a != b) miss(t, "%zu, not %zu", b, a);
        for (size_t i = 0; i < n; i++) if (ranks_before(x, i, b)) { miss(t, "x[%zu] is greater than x[%zu]", i, b); break; }
    }
}

#endif
