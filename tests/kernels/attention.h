/* Checks of attention over cached keys and values.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include "harness.h"

static const size_t attention_dims[] = { 64, 64, 128, 96, 80, 256, 1, 63, 65, 8, 16, 112 };

typedef struct attention_case { size_t n, head_dim, rep, lds; float *q; uint16_t *f16; } attention_case;

static attention_case random_attention(table_test *t)
{
    attention_case c = { .n = pick_size(t, 70), .rep = pick(t, 1, 9),
                         .head_dim = attention_dims[t->round % QSF_ARRAY_LEN(attention_dims)] };
    c.n = QSF_MAX(c.n, (size_t)1);
    c.lds = c.n + pick(t, 0, 3);
    SHAPE(t, "n %zu, head_dim %zu, rep %zu, lds %zu", c.n, c.head_dim, c.rep, c.lds);
    c.q = guard_f32(t, c.rep * c.head_dim);
    c.f16 = (uint16_t *)(void *)guard_alloc(t, 2 * c.n * c.head_dim);
    fill_f32(t, c.q, c.rep * c.head_dim, 2, 1000);
    for (size_t i = 0; i < c.n * c.head_dim; i++) {
        float f;
        fill_f32(t, &f, 1, 4, 65504);
        c.f16[i] = qsf_f32_to_f16(f);
    }
    return c;
}

/* A block of 8-bit keys or values, with n of its positions in use, and codes for rep vectors. */
typedef struct block_case {
    size_t n, head_dim, dim, rep, lds;
    int8_t *block, *q;
    float *d, *qd;
    int32_t *qs;
} block_case;

static int8_t any_code(table_test *t)
{
    return (int8_t)(t->round == 0 ? 0 : t->round == 1 ? -127 : t->round == 2 ? 127
                    : (int)pick(t, 0, 254) - 127);
}

static block_case random_block(table_test *t)
{
    block_case c = { .n = pick(t, 1, QSF_KV_BLOCK), .rep = pick(t, 1, 26),
                     .head_dim = attention_dims[t->round % QSF_ARRAY_LEN(attention_dims)] };
    c.dim = qsf_kv_dim(c.head_dim);
    c.lds = QSF_KV_BLOCK + pick(t, 0, 3);
    SHAPE(t, "n %zu, head_dim %zu, rep %zu, lds %zu", c.n, c.head_dim, c.rep, c.lds);
    c.block = (int8_t *)guard_alloc(t, QSF_KV_BLOCK * c.dim);
    c.q = (int8_t *)guard_alloc(t, c.rep * c.dim);
    c.d = guard_f32(t, c.n);
    c.qd = guard_f32(t, c.rep);
    c.qs = (int32_t *)(void *)guard_alloc(t, c.rep * sizeof *c.qs);
    for (size_t i = 0; i < QSF_KV_BLOCK * c.dim; i++) c.block[i] = any_code(t);
    for (size_t i = 0; i < c.n; i++) c.d[i] = fabsf(pick_f32(t, 0.1f));
    for (size_t r = 0; r < c.rep; r++) {
        c.qd[r] = fabsf(pick_f32(t, 0.1f));
        c.qs[r] = 0;
        for (size_t i = 0; i < c.dim; i++) c.qs[r] += c.q[r * c.dim + i] = i < c.head_dim ? any_code(t) : 0;
    }
    return c;
}

static void check_attention_scores_f16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 80) {
        const attention_case c = random_attention(t);
        const size_t total = (c.rep - 1) * c.lds + c.n;
        float *s[2];
        for (int v = 0; v < 2; v++) {
            s[v] = guard_f32(t, total);
            for (size_t i = 0; i < total; i++) s[v][i] = 12345;
            (v ? var : ref)->attention_scores_f16(s[v], c.lds, c.q, c.f16, c.n, c.head_dim, c.rep, 0.125f);
        }
        same_f32(t, "s", s[0], s[1], total, 1e-5);
        for (size_t i = 0; i < total; i++)
            if (i % c.lds >= c.n && s[1][i] != 12345) miss(t, "wrote between rows");
    }
}

static void check_attention_scores_q8(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const block_case c = random_block(t);
        const size_t total = (c.rep - 1) * c.lds + c.n;
        float *s[2];
        for (int v = 0; v < 2; v++) {
            s[v] = guard_f32(t, total);
            for (size_t i = 0; i < total; i++) s[v][i] = 12345;
            (v ? var : ref)->attention_scores_q8(s[v], c.lds, c.q, c.qd, c.qs, c.block, c.d, c.n, c.dim,
                                                 c.rep, 0.125f, t->round % 2 ? c.block : NULL);
        }
        same_f32(t, "s", s[0], s[1], total, 0);
        for (size_t i = 0; i < total; i++)
            if (i % c.lds >= c.n && s[1][i] != 12345) miss(t, "wrote between rows");
        for (size_t i = 0; i < c.n; i++) {         /* the layout, once more in words */
            double sum = 0;
            for (size_t d = 0; d < c.head_dim; d++) sum += (double)c.q[d] * c.block[qsf_kv_k_at(i, d, c.dim)];
            const double want = sum * c.d[i] * c.qd[0] * 0.125;
            if (fabs(s[0][i] - want) > 1e-5 * fabs(want)) miss(t, "the reference is wrong");
        }
    }
}

static void check_weighted_sum(table_test *t, const qsf_kernels *ref, const qsf_kernels *var, bool half)
{
    ROUNDS(t, 80) {
        const attention_case c = random_attention(t);
        float *values = guard_f32(t, c.n * c.head_dim);
        for (size_t i = 0; i < c.n * c.head_dim; i++) values[i] = qsf_f16_to_f32(c.f16[i]);
        const size_t total = (c.rep - 1) * c.lds + c.n;
        float *s = guard_f32(t, total), *factor = guard_f32(t, c.rep), *o[2];
        for (size_t i = 0; i < total; i++) s[i] = fabsf(pick_f32(t, 1));
        for (size_t i = 0; i < c.rep; i++) factor[i] = t->round % 3 ? fabsf(pick_f32(t, 1)) : 0;
        for (int v = 0; v < 2; v++) {
            o[v] = guard_f32(t, c.rep * c.head_dim);
            /* a factor of 0 does not read it */
            for (size_t i = 0; i < c.rep * c.head_dim; i++) o[v][i] = t->round % 3 ? c.q[i] : NAN;
            const qsf_kernels *k = v ? var : ref;
            if (half) k->attention_weighted_sum_f16(o[v], factor, s, c.lds, c.f16, c.n, c.head_dim, c.rep);
            else k->attention_weighted_sum_f32(o[v], factor, s, c.lds, values, c.n, c.head_dim, c.rep);
        }
        for (size_t i = 0; i < c.rep * c.head_dim; i++)
            if (o[0][i] != o[0][i]) miss(t, "the reference made NaN");
        same_f32(t, "o", o[0], o[1], c.rep * c.head_dim, 1e-5);
    }
}

static void check_attention_weighted_sum_f16(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    check_weighted_sum(t, ref, var, true);
}
static void check_attention_weighted_sum_f32(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    check_weighted_sum(t, ref, var, false);
}

static void check_attention_weighted_sum_q8(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const block_case c = random_block(t);
        float *factor = guard_f32(t, c.rep), *o[2];
        uint8_t *p = guard_alloc(t, c.rep * QSF_KV_BLOCK);
        for (size_t i = 0; i < c.rep * QSF_KV_BLOCK; i++)
            p[i] = i % QSF_KV_BLOCK >= c.n ? 0 : t->round == 1 ? 255 : (uint8_t)pick(t, 0, 255);
        for (size_t i = 0; i < c.rep; i++) factor[i] = t->round % 3 ? fabsf(pick_f32(t, 1)) : 0;
        for (int v = 0; v < 2; v++) {
            o[v] = guard_f32(t, c.rep * c.head_dim);
            for (size_t i = 0; i < c.rep * c.head_dim; i++) o[v][i] = t->round % 3 ? (float)(i % 17) : NAN;
            (v ? var : ref)->attention_weighted_sum_q8(o[v], factor, p, c.qd, c.block, c.head_dim, c.rep,
                                                       t->round % 2 ? c.block : NULL);
        }
        same_f32(t, "o", o[0], o[1], c.rep * c.head_dim, 1e-6);
        for (size_t d = 0; d < c.head_dim; d++) {
            double sum = factor[0] == 0 ? 0 : (double)(d % 17) * factor[0];
            for (size_t i = 0; i < c.n; i++) sum += (double)p[i] * c.qd[0] * c.block[qsf_kv_v_at(i, d)];
            if (fabs(o[0][d] - sum) > 1e-3 + 1e-5 * fabs(sum)) miss(t, "the reference is wrong");
        }
    }
}

static void check_attention_softmax(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = t->round % 2 ? QSF_KV_BLOCK : pick_size(t, 300), rep = pick(t, 1, 20),
            lds = n + pick(t, 0, 3), total = (rep - 1) * lds + n;
        SHAPE(t, "n %zu, rep %zu, lds %zu", n, rep, lds);
        float *s[3] = { guard_f32(t, total) }, *m[3], *l[3], *factor[3];
        fill_f32(t, s[0], total, 20, 1e30f);
        for (size_t i = 0; i < total; i++)
            if (t->round % 4 == 3 && ((t->round + i / lds) % 8 == 7 || rng_next(t) >> 63))
                s[0][i] = -INFINITY;
        for (int v = 0; v < 3; v++) {
            if (v) s[v] = guard_f32_copy(t, s[0], total);
            m[v] = guard_f32(t, rep), l[v] = guard_f32(t, rep), factor[v] = guard_f32(t, rep);
        }
        for (size_t r = 0; r < rep; r++) {
            m[0][r] = m[1][r] = m[2][r] = (t->round + r) % 5 == 2 ? pick_f32(t, 40) : -INFINITY;
            l[0][r] = l[1][r] = l[2][r] = m[0][r] > -INFINITY ? 3 : 0;
        }
        ref->attention_softmax_inplace(s[0], lds, n, rep, factor[0], m[0], l[0]);
        var->attention_softmax_inplace(s[1], lds, n, rep, factor[1], m[1], l[1]);
        for (size_t r = 0; r < rep; r++)
            var->attention_softmax_inplace(s[2] + r * lds, 0, n, 1, factor[2] + r, m[2] + r, l[2] + r);
        near_f32(t, "s", s[0], s[1], total, 2e-6, 1e-37);
        near_f32(t, "factor", factor[0], factor[1], rep, 2e-6, 1e-37);
        near_f32(t, "m", m[0], m[1], rep, 0, 0);
        near_f32(t, "l", l[0], l[1], rep, 1e-5, 0);
        same_bytes(t, "s of a vector alone", s[2], s[1], total * sizeof **s);
        same_bytes(t, "factor of a vector alone", factor[2], factor[1], rep * sizeof **s);
        same_bytes(t, "l of a vector alone", l[2], l[1], rep * sizeof **s);
    }
}

/* What a step of the softmax with codes gives. */
typedef struct softmax_codes { uint8_t *p; float *pd, *s, *factor, *m, *l; } softmax_codes;

/* Vectors of `each` at a time; of softmax's sums, every third case begins in the middle. */
static softmax_codes step_with_codes(table_test *t, const qsf_kernels *k, const block_case *c, const float *s,
                                     size_t each)
{
    const size_t total = (c->rep - 1) * c->lds + c->n;
    const softmax_codes o = { guard_alloc(t, c->rep * QSF_KV_BLOCK), guard_f32(t, c->rep),
                              guard_f32_copy(t, s, total), guard_f32(t, c->rep), guard_f32(t, c->rep),
                              guard_f32(t, c->rep) };
    memset(o.p, 77, c->rep * QSF_KV_BLOCK);
    for (size_t r = 0; r < c->rep; r++) {
        o.m[r] = (t->round + r) % 3 == 2 ? 20 * c->qd[r] : -INFINITY;
        o.l[r] = o.m[r] > -INFINITY ? 3 : 0;
    }
    for (size_t r = 0; r < c->rep; r += each)
        k->attention_softmax_q8(o.p + r * QSF_KV_BLOCK, o.pd + r, o.s + r * c->lds, c->lds, c->d, c->n, each,
                                o.factor + r, o.m + r, o.l + r);
    return o;
}
static void check_attention_softmax_q8(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 120) {
        const block_case c = random_block(t);
        const size_t total = (c.rep - 1) * c.lds + c.n, codes = c.rep * QSF_KV_BLOCK;
        float *s = guard_f32(t, total);
        fill_f32(t, s, total, 20, 1e30f);
        for (size_t i = 0; i < total; i++)
            if (t->round % 4 == 3 && ((t->round + i / c.lds) % 8 == 7 || rng_next(t) >> 63)) s[i] = -INFINITY;
        const softmax_codes a = step_with_codes(t, ref, &c, s, c.rep),
            b = step_with_codes(t, var, &c, s, c.rep),
            alone = step_with_codes(t, var, &c, s, 1);
        near_f32(t, "m", a.m, b.m, c.rep, 0, 0);
        near_f32(t, "l", a.l, b.l, c.rep, 1e-5, 0);
        near_f32(t, "factor", a.factor, b.factor, c.rep, 2e-6, 1e-37);
        near_f32(t, "pd", a.pd, b.pd, c.rep, 3e-6, 1e-30);
        same_bytes(t, "codes of a vector alone", alone.p, b.p, codes);
        same_bytes(t, "pd of a vector alone", alone.pd, b.pd, c.rep * sizeof *b.pd);
        same_bytes(t, "l of a vector alone", alone.l, b.l, c.rep * sizeof *b.l);
        for (size_t i = 0; i < codes; i++) {
            const size_t r = i / QSF_KV_BLOCK, at = i % QSF_KV_BLOCK;
            const double want = at >= c.n || a.m[r] == -INFINITY ? 0
                : exp((double)s[r * c.lds + at] - a.m[r]) * c.d[at];
            const double unit = a.pd[r];
            if (abs(a.p[i] - b.p[i]) > 1 || (at >= c.n && b.p[i])) miss(t, "other codes");
            if (fabs(a.p[i] * unit - want) > 0.501 * unit + 1e-30) miss(t, "the reference is wrong");
        }
    }
}

static void check_causal_mask(table_test *t, const qsf_kernels *ref, const qsf_kernels *var)
{
    ROUNDS(t, 100) {
        const size_t n = pick_size(t, 300);
        const bool far = t->round == 1;
        const uint32_t first = far ? UINT32_MAX - 20 : (uint32_t)pick(t, 0, 200),
            current = far ? UINT32_MAX : (uint32_t)pick(t, 0, 400);
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
