/* Checks of the sampling kernels: bit-equal to the reference, and the reference against plain
 * loops.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_SAMPLE_H
#define KERNELS_SAMPLE_H

#include "top_k.h"

/* Typical weights: 0 to 1, some of them 0. */
static float *fill_weights(table_test *t, size_t n)
{
    float *w = guard_f32(t, n);
    for (size_t i = 0; i < n; i++) {
        w[i] = fabsf(pick_f32(t, 1));
        if (t->round % 3 == 1) w[i] = floorf(8 * w[i]) / 8;
        if (t->round % 3 == 2) w[i] *= w[i] * w[i] * 1e-3f;
        if (pick(t, 0, 5) == 0) w[i] = 0;
    }
    return w;
}

static void check_exp_weights(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const size_t n = pick_size(t, 1500), blocks = (n + QSF_SAMPLE_BLOCK - 1) / QSF_SAMPLE_BLOCK;
        float *x = guard_f32(t, n), *a = guard_f32(t, n), *b = guard_f32(t, n);
        float *sa = guard_f32(t, blocks), *sb = guard_f32(t, blocks), *sc = guard_f32(t, blocks);
        fill_logits(t, x, n);
        const float top = n ? x[ref->largest_logit(x, n)] : 0;
        qsf_exp_weights e = { top, 1 / (0.1f + fabsf(pick_f32(t, 2))), -INFINITY, 0 };
        if (t->round % 4 == 0) e.scale = FLT_MAX;
        if (t->round % 5 == 2) e.least = top - 3;
        if (t->round % 5 == 3) e.share = 0.05f;
        SHAPE(t, "n %zu, top %g, scale %g, least %g, share %g", n, top, e.scale, e.least, e.share);
        ref->exp_weights(a, sa, x, n, &e);
        var->exp_weights(b, sb, x, n, &e);
        var->exp_weights(NULL, sc, x, n, &e);
        same_bytes(t, "weights", a, b, 4 * n);
        same_bytes(t, "sums", sa, sb, 4 * blocks);
        same_bytes(t, "sums alone", sa, sc, 4 * blocks);
        for (size_t i = 0; i < n; i++) {
            const float d = (x[i] - top) * e.scale;
            const bool in = d >= -87.3f && x[i] >= e.least;
            const double want = in ? exp((double)d) : 0;
            if (in && fabs(want - (double)e.share) < 1e-6) continue;        /* at the limit, both are right */
            if (fabs((double)a[i] - (want >= (double)e.share ? want : 0)) <= 2.5e-7 * want) continue;
            miss(t, "weights[%zu]: %.9g, not %.9g", i, a[i], want);
            break;
        }
        for (size_t i = 0; i < blocks; i++) {
            double sum = 0;
            for (size_t j = i * QSF_SAMPLE_BLOCK; j < QSF_MIN(n, (i + 1) * QSF_SAMPLE_BLOCK); j++)
                sum += (double)a[j];
            if (fabs((double)sa[i] - sum) > 3e-6 * sum) miss(t, "sums[%zu]: %.9g, not %.9g", i, sa[i], sum);
        }
    }
}

static void check_weight_sums(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 1500), blocks = (n + QSF_SAMPLE_BLOCK - 1) / QSF_SAMPLE_BLOCK;
        float *w = fill_weights(t, n), *a = guard_f32(t, blocks), *b = guard_f32(t, blocks);
        double all = 0, sums = 0;
        SHAPE(t, "n %zu", n);
        ref->weight_sums(a, w, n);
        var->weight_sums(b, w, n);
        same_bytes(t, "sums", a, b, 4 * blocks);
        for (size_t i = 0; i < n; i++) all += (double)w[i];
        for (size_t i = 0; i < blocks; i++) sums += (double)a[i];
        if (fabs(all - sums) > 3e-6 * all) miss(t, "sums: %.9g, not %.9g", sums, all);
    }
}

static void check_weight_levels(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 1100);
        float *key = fill_weights(t, n), *w = fill_weights(t, n), levels[QSF_SAMPLE_LEVELS];
        float a[QSF_SAMPLE_LEVELS], b[QSF_SAMPLE_LEVELS], c[QSF_SAMPLE_LEVELS], d[QSF_SAMPLE_LEVELS];
        for (int l = 0; l < QSF_SAMPLE_LEVELS; l++)
            levels[l] = n && l % 2 ? key[pick(t, 0, n - 1)] : fabsf(pick_f32(t, 1));
        for (int l = 1; l < QSF_SAMPLE_LEVELS; l++)
            for (int j = l; j && levels[j] > levels[j - 1]; j--) {
                const float swap = levels[j];
                levels[j] = levels[j - 1];
                levels[j - 1] = swap;
            }
        SHAPE(t, "n %zu", n);
        ref->weight_levels(a, key, w, n, levels);
        var->weight_levels(b, key, w, n, levels);
        ref->weight_levels(c, key, NULL, n, levels);
        var->weight_levels(d, key, NULL, n, levels);
        same_bytes(t, "mass", a, b, sizeof a);
        same_bytes(t, "count", c, d, sizeof c);
        for (int l = 0; l < QSF_SAMPLE_LEVELS; l++) {
            double mass = 0, count = 0;
            for (size_t i = 0; i < n; i++)
                if (key[i] > levels[l]) mass += (double)w[i], count++;
            if (fabs((double)a[l] - mass) > 1e-5 * mass) miss(t, "mass[%d]: %.9g, not %.9g", l, a[l], mass);
            if ((double)c[l] != count) miss(t, "count[%d]: %g, not %g", l, c[l], count);
        }
    }
}

static void check_weights_within(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, 1100);
        float *w = t->round % 2 ? fill_weights(t, n) : guard_f32(t, n);
        if (t->round % 2 == 0) fill_logits(t, w, n);
        const float over = n && t->round % 3 ? w[pick(t, 0, n - 1)] : -INFINITY,
            most = n && t->round % 4 ? w[pick(t, 0, n - 1)] : INFINITY;
        uint32_t *a = (uint32_t *)(void *)guard_f32(t, n), *b = (uint32_t *)(void *)guard_f32(t, n);
        SHAPE(t, "n %zu, over %g, most %g", n, over, most);
        const size_t m = ref->weights_within(a, w, n, over, most);
        const size_t found = var->weights_within(b, w, n, over, most);
        if (m != found) miss(t, "%zu found, not %zu", found, m);
        else same_bytes(t, "places", a, b, 4 * m);
        size_t at = 0;
        for (size_t i = 0; i < n; i++)
            if (w[i] > over && w[i] <= most && (at == m || a[at++] != i)) {
                miss(t, "%zu is missing", i);
                break;
            }
        if (at != m) miss(t, "%zu found, not %zu", m, at);
    }
}

static void check_weighted_logs(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 1100);
        float *w = fill_weights(t, n), *x = guard_f32(t, n);
        double want = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = w[i] > 0 ? pick_f32(t, 9) : pick(t, 0, 1) ? NAN : -INFINITY;     /* weight 0 */
            if (w[i] > 0) want += (double)w[i] * ((double)x[i] - 9) * 0.7, size += (double)w[i] * 13;
        }
        SHAPE(t, "n %zu", n);
        const float a = ref->weighted_logs(w, x, n, 9, 0.7f), b = var->weighted_logs(w, x, n, 9, 0.7f);
        same_bytes(t, "sum", &a, &b, 4);
        if (fabs((double)a - want) > 1e-5 * size) miss(t, "sum: %.9g, not %.9g", a, want);
    }
}

static void check_logit_moments(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const size_t n = pick_size(t, 1100);
        float *x = guard_f32(t, n), a[3], b[3];
        double count = 0, sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = pick(t, 0, 3) ? pick_f32(t, 9) : pick(t, 0, 1) ? NAN : -INFINITY;
            if (x[i] > -INFINITY) count++, sum += (double)x[i] - 9, squares += pow((double)x[i] - 9, 2);
        }
        SHAPE(t, "n %zu", n);
        ref->logit_moments(a, x, n, 9);
        var->logit_moments(b, x, n, 9);
        same_bytes(t, "moments", a, b, sizeof a);
        if ((double)a[0] != count || fabs((double)a[1] - sum) > 1e-5 * fabs(sum)
            || fabs((double)a[2] - squares) > 1e-5 * squares)
            miss(t, "%g %.9g %.9g, not %g %.9g %.9g", a[0], a[1], a[2], count, sum, squares);
    }
}

static void check_largest_logit(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 150) {
        const size_t n = pick_size(t, 1500);
        float *x = guard_f32(t, n);
        fill_logits(t, x, n);
        for (size_t i = 0; i < n && t->round % 29 == 28; i++) x[i] = i % 3 ? NAN : -INFINITY;
        for (size_t i = 0; i < n && t->round % 31 == 30; i++) x[i] = NAN;
        SHAPE(t, "n %zu", n);
        size_t want = 0;
        while (want + 1 < n && x[want] != x[want]) want++;
        for (size_t i = want; i < n; i++) if (x[i] > x[want]) want = i;
        const size_t a = ref->largest_logit(x, n), b = var->largest_logit(x, n);
        if (a != want || b != want) miss(t, "%zu and %zu, not %zu", a, b, want);
    }
}

#endif
