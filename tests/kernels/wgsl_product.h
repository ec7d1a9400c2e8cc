/* Cases of the products: random tiles and activations, and what the reference kernels make of them.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_PRODUCT_H
#define KERNELS_WGSL_PRODUCT_H

#include "matmul.h"
#include "wgsl/product_rows_wgsl.h"
#include "wgsl/product_tiles_wgsl.h"
#include "wgsl_file.h"

/* Activations as shaders take them: x_ld vec4s a row. */
static uint32_t *act_words(const qsf_act *x, uint32_t cols, uint32_t x_ld)
{
    uint32_t *words = calloc((size_t)x->n * x_ld * 4, sizeof *words);
    if (!words) exit(1);
    for (uint32_t m = 0; m < x->n; m++)
        for (uint32_t at = 0; at < cols; at += 64) {
            uint32_t *to = words + ((size_t)m * x_ld + at / 64 * 5) * 4;
            const int8_t *q = x->q + (size_t)m * x->cols + at;
            to[0] = qsf_f32_bits(x->d[(m * x->cols + at) / 64]);
            for (uint32_t i = 0; i < 64 && at + i < cols; i++) {
                const uint32_t shift = i / 16 % 2 * 16, word = 1 + i / 32;
                const uint32_t sum = (to[word] >> shift) + (uint32_t)q[i];
                to[word] = (to[word] & ~(0xffffu << shift)) | (sum & 0xffff) << shift;
                to[4 + i / 4] |= (uint32_t)(uint8_t)q[i] << i % 4 * 8;
            }
        }
    return words;
}

/* Rows of a matrix of whole tiles, all but the last few of which are the matrix's. */
static uint32_t rows_of(const matmul_case *c) { return (uint32_t)(16 * c->tiles - c->n % 3); }

/* What z of the dispatch adds up: its share of K. */
static double product_share(const matmul_case *c, int form, const qsf_wgsl_product *p, uint32_t z,
                            uint32_t shares, size_t m, size_t row)
{
    matmul_case part = *c;
    part.x.q = malloc((size_t)c->x.n * c->x.cols);
    if (!part.x.q) exit(1);
    for (size_t i = 0; i < (size_t)c->x.n * c->x.cols; i++)
        part.x.q[i] = i % c->x.cols / 32 / p->slices % shares == z ? c->x.q[i] : 0;
    const int32_t sum = integer_sum(&part, form, m, row);
    free(part.x.q);
    return sum;
}

/* One run: unit scales, so that sums are integers, or random ones. */
static void product_run(wgsl_folder *f, table_test *t, const qsf_kernels *ref, const qsf_wgsl_product *p,
                        bool unit, size_t n)
{
    t->n_slots = 0;
    const matmul_case c = random_case(t, unit, n);
    const uint32_t cols = (uint32_t)(c.blocks * c.block), x_ld = (cols + 63) / 64 * 5 + 5, rows = rows_of(&c),
        shares = p->split ? 2 : 1, y_ld = rows + 5, tiled = p->rows == 0;
    const qsf_wgsl_product_numbers numbers = {
        .rows = rows, .tiles = (uint32_t)c.tiles, .blocks = (uint32_t)c.blocks, .n = (uint32_t)n,
        .x_ld = x_ld, .y_ld = y_ld, .y_at = 2, .scale = 0.5f, .times = 4,
    };
    const size_t stride = tiled ? n : p->rows, floats = (shares > 1 ? shares * stride : n) * y_ld;
    float *y = malloc(floats * sizeof *y), *want = malloc(floats * sizeof *want),
        *ours = malloc(n * 16 * c.tiles * sizeof *ours), *bias = malloc(rows * sizeof *bias);
    if (!y || !want || !ours || !bias) exit(1);
    for (size_t i = 0; i < floats; i++) want[i] = y[i] = unit ? (float)pick(t, 0, 100) : pick_f32(t, 1);
    for (size_t i = 0; i < rows; i++) bias[i] = unit ? (float)pick(t, 0, 100) : pick_f32(t, 1);
    ref->matmul[t->form](ours, 16 * c.tiles, c.w, &c.x, c.tiles, c.blocks, c.block);
    for (uint32_t z = 0; z < shares; z++)
        for (size_t m = 0; m < n; m++)
            for (size_t r = 0; r < rows; r++) {
                float *to = want + (z * stride + m) * y_ld + 2 + r;
                const float sum = shares > 1 ? (float)product_share(&c, t->form, p, z, shares, m, r)
                    : unit ? (float)integer_sum(&c, t->form, m, r) : ours[m * 16 * c.tiles + r];
                const float more = p->bias ? bias[r] : 0;
                *to = (p->add ? *to : 0) + (p->scaled ? (sum / 2 + more) * 4 : sum + more);
            }
    uint32_t groups[3], *x = act_words(&c.x, cols, x_ld);
    const uint32_t units = (uint32_t)c.tiles * QSF_MAX(p->parts, 1u);
    qsf_wgsl_dispatch(tiled ? (uint32_t)(c.tiles + 3) / 4 : units, groups);
    groups[2] = tiled ? (uint32_t)(n + 63) / 64 : p->split ? shares : (uint32_t)(n + p->rows - 1) / p->rows;
    if (unit && !tiled) groups[0] = 1, groups[1] = units + 1;   /* as beyond 65535 tile rows */
    wgsl_run(f, groups);
    wgsl_buffer(f, &numbers, sizeof numbers, false);
    wgsl_buffer(f, c.w, c.tiles * c.blocks * qsf_tile_bytes((qsf_form)t->form, c.block), false);
    wgsl_buffer(f, x, n * x_ld * 16, false);
    wgsl_buffer(f, y, floats * sizeof *y, !p->bias);
    if (p->bias) wgsl_buffer(f, bias, rows * sizeof *bias, true);
    wgsl_expect(f, 3, "f32", unit ? 0 : 1e-5, want, floats * sizeof *want);
    free(x), free(y), free(want), free(ours), free(bias);
}

/* Two matrices, the halves of one: gate and up of a feed-forward. */
static void gated_run(wgsl_folder *f, table_test *t, const qsf_kernels *ref, const qsf_wgsl_product *p,
                      size_t n)
{
    matmul_case c;
    do t->n_slots = 0, c = random_case(t, false, n); while (c.tiles % 2 || c.block != p->block);
    const uint32_t cols = (uint32_t)(c.blocks * c.block), x_ld = (cols + 63) / 64 * 5,
        half = 8 * (uint32_t)c.tiles, rows = half - 3, y_ld = half;
    const qsf_wgsl_product_numbers numbers = {
        .rows = rows, .tiles = (uint32_t)c.tiles / 2, .blocks = (uint32_t)c.blocks, .n = (uint32_t)n,
        .x_ld = x_ld, .y_ld = y_ld,
    };
    float *y = calloc(n * y_ld, sizeof *y), *want = calloc(n * y_ld, sizeof *want),
        *ours = malloc(n * 16 * c.tiles * sizeof *ours), *bias = malloc(2 * rows * sizeof *bias);
    if (!y || !want || !ours || !bias) exit(1);
    for (size_t i = 0; i < 2 * rows; i++) bias[i] = pick_f32(t, 1);
    ref->matmul[t->form](ours, 16 * c.tiles, c.w, &c.x, c.tiles, c.blocks, c.block);
    for (size_t m = 0; m < n; m++)
        for (size_t r = 0; r < rows; r++) {
            const float gate = ours[m * 16 * c.tiles + r] + (p->bias ? bias[r] : 0),
                up = ours[m * 16 * c.tiles + half + r] + (p->bias ? bias[rows + r] : 0);
            want[m * y_ld + r] = gate / (1 + expf(-gate)) * up;
        }
    uint32_t groups[3], *x = act_words(&c.x, cols, x_ld);
    qsf_wgsl_dispatch(numbers.tiles, groups);
    groups[2] = (uint32_t)(n + p->rows - 1) / p->rows;
    wgsl_run(f, groups);
    wgsl_buffer(f, &numbers, sizeof numbers, false);
    wgsl_buffer(f, c.w, c.tiles * c.blocks * qsf_tile_bytes((qsf_form)t->form, c.block), false);
    wgsl_buffer(f, x, n * x_ld * 16, false);
    wgsl_buffer(f, y, n * y_ld * sizeof *y, !p->bias);
    if (p->bias) wgsl_buffer(f, bias, 2 * rows * sizeof *bias, true);
    wgsl_expect(f, 3, "f32", 1e-5, want, n * y_ld * sizeof *want);
    free(x), free(y), free(want), free(ours), free(bias);
}

/* A variant; runs: whether numbers are computed too. */
static void product_variant(wgsl_folder *f, table_test *t, const qsf_kernels *ref, qsf_wgsl_product p,
                            bool runs)
{
    char name[128];
    if (p.rows) qsf_wgsl_product_rows(wgsl_shader(f), &p);
    else qsf_wgsl_product_tiles(wgsl_shader(f), &p);
    snprintf(name, sizeof name, "product_%s_%u_%s_%u_%u%s%s%s%s%s%s", form_names[p.form], (unsigned)p.block,
             p.rows ? "rows" : "tiles", (unsigned)p.rows, (unsigned)p.slices, p.split ? "_split" : "",
             p.scaled ? "_scaled" : "", p.bias ? "_bias" : "", p.add ? "_add" : "",
             p.parts ? "_parts" : "", p.gated ? "_gated" : "");
    wgsl_shader_end(f, name);
    if (!runs) return;
    for (uint32_t unit = 0; unit < 2; unit++) {
        /* the round decides the tiles' columns; above 2 it has no special values */
        static const uint32_t sizes[] = { 32, 64, 128, 256 };
        for (t->round = 4; sizes[t->round % 4] != p.block && t->round < 8;) t->round++;
        const size_t n = !p.rows ? 66 : p.parts ? 2 * p.rows + 1 : (p.rows + 1) / 2 + unit * (p.rows / 2);
        if (p.gated) gated_run(f, t, ref, &p, n);
        else product_run(f, t, ref, &p, unit || p.split, n);
    }
}

/* One of each way through product_tiles, which takes SwiftShader seconds; the decoders are those of
 * product_rows. */
static bool tiles_run(int form, uint32_t block)
{
    return form == QSF_F_Q4K || form == QSF_F_Q6K || form == QSF_F_TR3
        || ((form == QSF_F_3Z || form == QSF_F_8) && block == 64);
}

static void product_cases(wgsl_folder *f, const qsf_kernels *ref, table_test *t)
{
    static const uint32_t sizes[] = { 32, 64, 128, 256 };
    for (int form = 0; form < QSF_N_FORMS; form++) {
        if (!qsf_wgsl_has_form((qsf_form)form)) continue;
        t->form = form;
        for (int i = 0; i < 4; i++) {
            const uint32_t own = form_block(form), block = sizes[i];
            const bool plain = !own && (block == 32 || block == 64);
            if (own ? block != own : form == QSF_F_TQ1 && block != 256) continue;
            qsf_wgsl_product p = { .form = (qsf_form)form, .block = block };
            for (p.rows = 1; p.rows <= 8; p.rows *= 2)
                for (p.slices = 1; p.slices <= 16; p.slices *= 2)
                    product_variant(f, t, ref, p, p.rows == 2 && p.slices == 2
                                    && (plain ? block == 32 : own != 0));
            p.rows = 1, p.slices = 16, p.bias = p.add = true;
            product_variant(f, t, ref, p, form == QSF_F_4 && block == 32);
            p.scaled = true;
            product_variant(f, t, ref, p, form == QSF_F_4 && block == 32);
            p.rows = 8, p.slices = 4, p.split = true, p.bias = p.add = p.scaled = false;
            product_variant(f, t, ref, p, form == QSF_F_Q6K || (form == QSF_F_TERNARY && block == 64));
            /* parts of a tile row; two matrices */
            p.split = false, p.rows = 1;
            for (p.parts = 2; p.parts <= 4; p.parts *= 2) {
                p.slices = 16 * p.parts;
                product_variant(f, t, ref, p, form == QSF_F_4 && block == 32);
            }
            p.parts = 0, p.slices = 8, p.gated = true;
            p.function = QSF_WGSL_SILU, p.bias = block != 32;
            product_variant(f, t, ref, p, form == QSF_F_Q6K || form == QSF_F_4);
            p.gated = p.bias = false;
            p.rows = p.slices = 0;
            product_variant(f, t, ref, p, tiles_run(form, block));
            p.bias = p.add = true;
            product_variant(f, t, ref, p, form == QSF_F_4 && block == 64);
        }
    }
}

#endif
