/* Checks of finding the largest: against the reference, and the reference against counting ranks.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_TOP_K_H
#define KERNELS_TOP_K_H

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

static bool ranks_before(const float *x, size_t a, size_t b)
{
    return x[a] > x[b] || (x[a] == x[b] && a < b) || (x[a] == x[a] && x[b] != x[b]);
}

static void check_top_k(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, t->round % 10 == 9 ? 40000 : 900),
            k = t->round % 6 == 5 ? pick(t, 0, n + 1) : pick(t, 0, 60);
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

#endif
