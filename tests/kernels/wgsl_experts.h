/* Cases of experts: the choice, the batch sorted by expert, products of slots, and their sum.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_EXPERTS_H
#define KERNELS_WGSL_EXPERTS_H

#include "layers/router.h"
#include "wgsl/experts_wgsl.h"
#include "wgsl_fused.h"

/* ---- the choice ---- */

typedef struct choice_case {
    uint32_t experts, used, groups, groups_used;
    bool     same, damaged;     /* some logits are equal; one is not a number */
} choice_case;

static float *choice_logits(table_test *t, const choice_case *c, uint32_t rows, uint32_t ld)
{
    float *x = random_floats(t, (size_t)rows * ld, 2);
    for (uint32_t m = 0; m < rows; m++) {
        float *row = x + (size_t)m * ld;
        for (uint32_t e = 0; c->same && e < c->experts; e++) row[e] = (float)(e * 5 % 3);
        if (c->damaged && m == 1) row[c->experts / 2] = NAN;
    }
    return x;
}

static void choice_run(wgsl_folder *f, table_test *t, const qsf_wgsl_choice *of, const choice_case *c)
{
    const uint32_t rows = 3, ld = c->experts + 5;
    const qsf_wgsl_choice_numbers p = {
        .experts = c->experts, .used = c->used, .a_ld = ld, .slots = c->used + (of->shared != 0),
        .groups = c->groups, .groups_used = c->groups_used, .scale = 2.5f,
    };
    const qsf_layer l = { .n_experts = c->experts, .n_used = c->used, .router = (uint8_t)of->router,
                          .n_groups = of->groups ? c->groups : 0, .n_groups_used = c->groups_used,
                          .router_norm = of->norm, .router_scale = p.scale };
    float *x = choice_logits(t, c, rows, ld), *bias = random_floats(t, c->experts, 0.1f),
        *scales = random_floats(t, c->experts, 2),
        *row = malloc(qsf_router_columns(c->experts) * sizeof *row),
        *weights = malloc(c->used * sizeof *weights);
    uint32_t *chosen = malloc(c->used * sizeof *chosen), *want = malloc(8 * (size_t)rows * p.slots);
    if (!row || !weights || !chosen || !want) exit(1);
    for (uint32_t m = 0; m < rows; m++) {
        uint32_t *to = want + (size_t)m * 2 * p.slots;
        memcpy(row, x + (size_t)m * ld, c->experts * sizeof *row);
        qsf_router_choose(&l, row, of->bias ? bias : NULL, chosen, weights);
        for (uint32_t k = 0; k < c->used; k++) {
            const float w = weights[k] * (of->scales ? scales[chosen[k]] : 1);
            to[2 * k] = chosen[k];
            to[2 * k + 1] = qsf_f32_bits(c->damaged && m == 1 ? NAN : w);
        }
        const float gate = 1 / (1 + expf(-x[(size_t)m * ld + c->experts]));
        if (of->shared) to[2 * c->used] = QSF_WGSL_NO_EXPERT;
        if (of->shared) to[2 * c->used + 1] = qsf_f32_bits(of->shared == QSF_WGSL_BESIDE ? 1 : gate);
    }
    char *zeros = calloc(rows * (size_t)p.slots, 8);
    if (!zeros) exit(1);
    wgsl_run(f, (const uint32_t[3]){ 1, rows, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, x, (size_t)rows * ld * 4, false);
    if (of->bias) wgsl_buffer(f, bias, c->experts * 4, false);
    if (of->scales) wgsl_buffer(f, scales, c->experts * 4, false);
    wgsl_buffer(f, zeros, rows * (size_t)p.slots * 8, true);
    wgsl_expect(f, f->out.n_bindings - 1, c->damaged ? "slots:any" : "slots", 1e-5, want,
                rows * (size_t)p.slots * 8);
    free(x), free(bias), free(scales), free(row), free(weights), free(chosen), free(want), free(zeros);
}

static void choice_cases(wgsl_folder *f, table_test *t)
{
    static const choice_case cases[] = {
        { 8, 2, 4, 2, false, false }, { 60, 4, 6, 3, false, false }, { 256, 8, 8, 4, false, false },
        { 1024, 30, 32, 3, false, false }, { 16, 16, 2, 2, false, false }, { 24, 5, 8, 5, true, false },
        { 300, 1, 300, 2, false, false }, { 32, 4, 4, 3, false, true },
    };
    static const char *const routers[] = { "all", "each", "chosen" },
        *const shared[] = { "", "_shared", "_gate" };
    for (uint32_t i = 0; i < 3 * 3 * 16; i++) {
        const qsf_wgsl_choice c = { .router = (qsf_wgsl_router)(i / 48),
                                    .shared = (qsf_wgsl_shared)(i / 16 % 3), .bias = i & 1, .norm = i & 2,
                                    .groups = i & 4, .scales = i & 8 };
        char name[96];
        qsf_wgsl_choice_text(wgsl_shader(f), &c);
        snprintf(name, sizeof name, "choice_%s%s%s%s%s%s", routers[c.router], shared[c.shared],
                 c.bias ? "_bias" : "", c.norm ? "_norm" : "", c.groups ? "_groups" : "",
                 c.scales ? "_scales" : "");
        wgsl_shader_end(f, name);
        /* a plain one, one of groups, one of everything, one that is normed */
        if (i != 0 && i != 32 + 5 && i != 80 + 15 && i != 96 + 2) continue;
        for (size_t k = 0; k < QSF_ARRAY_LEN(cases); k++) choice_run(f, t, &c, &cases[k]);
    }
}

/* ---- slots by expert ---- */

/* Slots of n rows, each with different experts; the first expert is in none, the second in many. */
static uint32_t *random_slots(table_test *t, uint32_t n, uint32_t experts, uint32_t used, uint32_t slots)
{
    uint32_t *s = calloc((size_t)n * slots, 8);
    if (!s) exit(1);
    for (uint32_t m = 0; m < n; m++) {
        for (uint32_t k = 0; k < used; k++) {
            const uint32_t each = (experts - 1) / used;
            uint32_t *to = s + 2 * ((size_t)m * slots + k);
            to[0] = 1 + k * each + (uint32_t)pick(t, 0, each - 1);
            if (k == 0 && m % 4) to[0] = 1;
            to[1] = qsf_f32_bits(pick_f32(t, 1));
        }
        if (slots > used) s[2 * ((size_t)m * slots + used)] = QSF_WGSL_NO_EXPERT;
    }
    return s;
}

/* The list as the CPU makes it: `groups` records, then slots. */
static uint32_t *slots_list(const uint32_t *s, uint32_t n, const qsf_wgsl_sort_numbers *p)
{
    uint32_t *list = calloc(4 * (size_t)p->groups + n + 1, 4), g = 0, at = 0;
    if (!list) exit(1);
    for (uint32_t e = 0; e < p->experts; e++) {
        const uint32_t first = at;
        for (uint32_t i = 0; i < n; i++)
            if (s[2 * ((size_t)i / p->used * p->slots + i % p->used)] == e) list[4 * p->groups + at++] = i;
        for (uint32_t i = first; i < at; i += QSF_WGSL_GROUP, g++) {
            const uint32_t group[] = { e, i, QSF_MIN(at - i, QSF_WGSL_GROUP) };
            memcpy(list + 4 * (size_t)g, group, sizeof group);
        }
    }
    if (g > p->groups) exit(1);
    return list;
}

static void sort_cases(wgsl_folder *f, table_test *t)
{
    static const uint32_t sizes[][4] = { { 1, 8, 2, 2 }, { 100, 9, 2, 3 }, { 70, 257, 8, 9 },
                                         { 20, 1024, 4, 4 }, { 65, 2, 1, 1 } };
    qsf_wgsl_sort(wgsl_shader(f));
    wgsl_shader_end(f, "sort");
    for (size_t i = 0; i < QSF_ARRAY_LEN(sizes); i++) {
        const uint32_t *z = sizes[i], n = z[0] * z[2];
        const qsf_wgsl_sort_numbers p = { .n = n, .experts = z[1], .used = z[2], .slots = z[3],
                                          .groups = qsf_wgsl_expert_groups(n, z[1]) };
        const size_t bytes = (4 * (size_t)p.groups + n) * 4;
        uint32_t *s = random_slots(t, z[0], z[1], z[2], z[3]), *list = slots_list(s, n, &p);
        char type[32], *ones = malloc(bytes);
        if (!ones) exit(1);
        memset(ones, 255, bytes);
        snprintf(type, sizeof type, "list:%u", (unsigned)p.groups);
        wgsl_run(f, (const uint32_t[3]){ 1, 1, 1 });
        wgsl_buffer(f, &p, sizeof p, false);
        wgsl_buffer(f, s, 8 * (size_t)z[0] * z[3], false);
        wgsl_buffer(f, ones, bytes, true);
        wgsl_expect(f, 2, type, 0, list, bytes);
        free(s), free(list), free(ones);
    }
}

/* ---- products ---- */

enum { EXPERTS = 5, EXPERTS_USED = 2, EXPERTS_SLOTS = 3 };

/* Random tiles, as many as are wanted. */
static uint8_t *experts_tiles(table_test *t, uint32_t tiles, uint32_t blocks, uint32_t block)
{
    const size_t bytes = blocks * qsf_tile_bytes((qsf_form)t->form, block);
    uint8_t *w = malloc(tiles * bytes);
    if (!w) exit(1);
    for (uint32_t i = 0; i < tiles;) {
        t->n_slots = 0;
        const matmul_case c = random_case(t, false, 1);
        if (c.blocks < blocks || c.block != block) continue;
        memcpy(w + i++ * bytes, c.w, bytes);
    }
    return w;
}

/* down: each slot has a row of X and a place among all slots; else slots share a row.  part: not
 * all experts are bound. */
static void experts_run(wgsl_folder *f, table_test *t, const qsf_kernels *ref, const qsf_wgsl_experts *e,
                        bool list, bool down, bool part)
{
    const uint32_t n = list ? 41 : 3, n_slots = n * EXPERTS_USED, rows = list ? 70 : 24, cols = 256,
        blocks = cols / e->block, tiles = (EXPERTS * rows + 15) / 16, y_rows = n * EXPERTS_SLOTS,
        x_rows = down ? n_slots : n;
    qsf_wgsl_experts_numbers p = {
        .rows = rows, .blocks = blocks, .end = EXPERTS, .x_ld = cols / 64 * 5 + 5, .y_ld = rows + 3,
        .used = EXPERTS_USED, .slots = EXPERTS_SLOTS, .x_used = down ? 1 : EXPERTS_USED,
        .y_slots = down ? EXPERTS_SLOTS : EXPERTS_USED, .groups = qsf_wgsl_expert_groups(n_slots, EXPERTS),
    };
    if (part) p.first = 1, p.end = 3, p.tile = rows / 16;
    static const uint32_t sizes[] = { 32, 64, 128, 256 };
    for (t->round = 4; t->round < 8 && sizes[t->round % 4] != e->block;) t->round++;
    t->form = (int)e->form;
    uint8_t *w = experts_tiles(t, tiles, blocks, e->block);
    uint32_t *slots = random_slots(t, n, EXPERTS, EXPERTS_USED, EXPERTS_SLOTS);
    t->n_slots = 0;
    qsf_act x = guard_act(t, x_rows, cols);
    fill_act(t, &x, false);
    float *y = random_floats(t, (size_t)y_rows * p.y_ld, 1), *want = malloc((size_t)y_rows * p.y_ld * 4),
        *scales = random_floats(t, EXPERTS, 2), *bias = random_floats(t, EXPERTS * rows, 1),
        *all = malloc(16 * (size_t)tiles * 4);
    if (!want || !all) exit(1);
    memcpy(want, y, (size_t)y_rows * p.y_ld * 4);
    for (uint32_t s = 0; s < n_slots; s++) {
        const uint32_t m = s / EXPERTS_USED, k = s % EXPERTS_USED,
            one_of = slots[2 * (m * EXPERTS_SLOTS + k)];
        const size_t at = (size_t)(down ? s : m) * x.cols, to = (size_t)m * p.y_slots + k;
        const qsf_act one = { .q = x.q + at, .d = x.d + at / 64, .s = x.s + at / 32, .h = x.h + at / 8,
                              .n = 1, .cols = x.cols };
        if (one_of < p.first || one_of >= p.end) continue;
        ref->matvec[e->form](all, w, &one, tiles, blocks, e->block);
        for (uint32_t r = 0; r < rows; r++)
            want[to * p.y_ld + r] = all[one_of * rows + r] * (e->scales ? scales[one_of] : 1) +
                (e->bias ? bias[one_of * rows + r] : 0);
    }
    const qsf_wgsl_sort_numbers sort = { .experts = EXPERTS, .used = EXPERTS_USED, .slots = EXPERTS_SLOTS,
                                         .groups = p.groups };
    uint32_t *sorted = slots_list(slots, n_slots, &sort), *codes = act_words(&x, cols, p.x_ld);
    const uint32_t wide = qsf_wgsl_expert_tiles(rows);
    const size_t tile_row = blocks * qsf_tile_bytes(e->form, e->block);
    wgsl_run(f, (const uint32_t[3]){ list ? (wide + 3) / 4 : wide, 1, list ? p.groups : n_slots });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, w + p.tile * tile_row, ((p.end * rows + 15) / 16 - p.tile) * tile_row, false);
    wgsl_buffer(f, codes, x_rows * (size_t)p.x_ld * 16, false);
    wgsl_buffer(f, y, (size_t)y_rows * p.y_ld * 4, false);
    wgsl_buffer(f, slots, 8 * (size_t)y_rows, false);
    wgsl_buffer(f, sorted, (4 * (size_t)p.groups + n_slots) * 4, !e->scales && !e->bias);
    if (e->scales) wgsl_buffer(f, scales, EXPERTS * 4, !e->bias);
    if (e->bias) wgsl_buffer(f, bias, EXPERTS * rows * 4, true);
    wgsl_expect(f, 3, "f32", 1e-5, want, (size_t)y_rows * p.y_ld * 4);
    free(w), free(slots), free(y), free(want), free(scales), free(bias), free(all), free(sorted), free(codes);
}

static void experts_variant(wgsl_folder *f, table_test *t, const qsf_kernels *ref, const qsf_wgsl_experts *e,
                            bool runs)
{
    char name[128];
    const bool list = e->slices == 0;
    if (list) qsf_wgsl_experts_tiles(wgsl_shader(f), e);
    else qsf_wgsl_experts_slots(wgsl_shader(f), e);
    snprintf(name, sizeof name, "experts_%s_%u_%s_%u%s%s", form_names[e->form], (unsigned)e->block,
             list ? "tiles" : "slots", (unsigned)e->slices, e->scales ? "_scales" : "",
             e->bias ? "_bias" : "");
    wgsl_shader_end(f, name);
    if (!runs) return;
    experts_run(f, t, ref, e, list, false, false);
    experts_run(f, t, ref, e, list, true, true);
}

/* The decoders are those of product_rows, whose cases have them all. */
static void experts_cases(wgsl_folder *f, table_test *t, const qsf_kernels *ref)
{
    for (int form = 0; form < QSF_N_FORMS; form++) {
        if (!qsf_wgsl_has_form((qsf_form)form)) continue;
        const bool digits = form == QSF_F_TQ1;
        t->form = form;
        qsf_wgsl_experts e = { .form = (qsf_form)form, .block = form_block(form) ? form_block(form)
                                   : digits ? 256 : 64, .slices = 16 };
        const bool runs = form == QSF_F_MX4 || form == QSF_F_Q6K;
        experts_variant(f, t, ref, &e, runs || form == QSF_F_TR3);
        e.slices = 0;
        experts_variant(f, t, ref, &e, runs);
        e.scales = e.bias = true;
        experts_variant(f, t, ref, &e, false);
        e.slices = 8;
        experts_variant(f, t, ref, &e, form == QSF_F_8);
    }
}

/* ---- the sum of slots ---- */

static void slots_sum_cases(wgsl_folder *f, table_test *t)
{
    for (uint32_t i = 0; i < 2; i++) {
        const qsf_wgsl_rows r = { .source = QSF_WGSL_FROM_SLOTS, .floats = true, .add = i == 0 };
        const uint32_t n = 3, used = 4, cols = 1030;
        const qsf_wgsl_rows_numbers p = { .n = n, .cols = cols, .a_ld = cols + 3, .a_at = 1, .y_ld = cols + 2,
                                          .y_at = 2, .shares = used };
        float *a = random_floats(t, (size_t)n * used * p.a_ld, 2),
            *y = random_floats(t, (size_t)n * p.y_ld, 1), *want = malloc((size_t)n * p.y_ld * 4);
        uint32_t *slots = random_slots(t, n, 9, used, used);
        if (!want) exit(1);
        memcpy(want, y, (size_t)n * p.y_ld * 4);
        for (uint32_t m = 0; m < n; m++)
            for (uint32_t c = 0; c < cols; c++) {
                double sum = 0;
                for (uint32_t k = 0; k < used; k++)
                    sum += (double)qsf_f32_from_bits(slots[2 * (m * used + k) + 1])
                        * (double)a[(m * used + k) * p.a_ld + 1 + c];
                want[m * p.y_ld + 2 + c] = (float)sum + (r.add ? y[m * p.y_ld + 2 + c] : 0);
            }
        qsf_wgsl_rows_text(wgsl_shader(f), &r);
        wgsl_shader_end(f, r.add ? "rows_slots_to_floats_add" : "rows_slots_to_floats");
        wgsl_run(f, (const uint32_t[3]){ (cols + 1023) / 1024, n, 1 });
        wgsl_buffer(f, &p, sizeof p, false);
        wgsl_buffer(f, a, (size_t)n * used * p.a_ld * 4, false);
        wgsl_buffer(f, slots, 8 * (size_t)n * used, false);
        wgsl_buffer(f, y, (size_t)n * p.y_ld * 4, true);
        wgsl_expect(f, 3, "f32", 1e-5, want, (size_t)n * p.y_ld * 4);
        free(a), free(y), free(want), free(slots);
    }
}

#endif
