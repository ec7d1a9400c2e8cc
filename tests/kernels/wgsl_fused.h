/* Cases of products that make their own codes: rows_wgsl in product_rows_wgsl.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_FUSED_H
#define KERNELS_WGSL_FUSED_H

#include "wgsl_tokens.h"

/* Y = W . codes of what `from` makes of A; the residual stream is in Y. */
static void fused_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, const qsf_wgsl_product *p)
{
    const qsf_wgsl_rows *from = p->from;
    const uint32_t cols = 9 * 64, n = p->rows, tiles = 2, blocks = cols / p->block,
        rows = (p->gated ? 16 : 16 * tiles) - 1;
    const qsf_wgsl_rows_numbers of = { .cols = cols, .a_ld = cols + 16, .a_at = 8, .b_ld = cols + 4,
                                       .b_at = 4, .eps = 1e-5f, .shares = 2, .share_ld = 4 };
    const qsf_wgsl_product_numbers numbers = {
        .rows = rows, .tiles = p->gated ? 1 : tiles, .blocks = blocks, .n = n,
        .x_ld = cols / 64 * 5, .y_ld = rows + 2, .y_at = 1, .cols = cols,
        .a_ld = of.a_ld, .a_at = of.a_at, .b_ld = of.b_ld, .b_at = of.b_at,
        .eps = of.eps, .shares = of.shares, .share_ld = of.share_ld,
    };
    float *a = random_floats(t, 8 * (size_t)of.a_ld, 3), *b = random_floats(t, n * (size_t)of.b_ld, 1),
        *weight = random_floats(t, cols, 2), *bias = random_floats(t, cols, 1),
        *made = random_floats(t, cols, 0), *y = random_floats(t, n * (size_t)numbers.y_ld, 1),
        *want = random_floats(t, 16 * tiles, 0);
    t->n_slots = 0;
    t->form = (int)p->form, t->round = 4;               /* tiles of 32 columns */
    matmul_case c = random_case(t, false, n);
    while (c.tiles < tiles || c.blocks < blocks || c.block != p->block) {
        t->n_slots = 0;
        c = random_case(t, false, n);
    }
    float *after = malloc(n * (size_t)numbers.y_ld * 4);
    if (!after) exit(1);
    memcpy(after, y, n * (size_t)numbers.y_ld * 4);
    for (uint32_t m = 0; m < n; m++) {
        rows_reference(made, k, from, &of, m, a, b, weight, bias);
        k->quantize_act(&c.x, m, made, cols);
        const size_t at = m * c.x.cols;
        const qsf_act one = { .q = c.x.q + at, .d = c.x.d + at / 64, .s = c.x.s + at / 32,
                              .h = c.x.h + at / 8, .n = 1, .cols = c.x.cols };
        k->matvec[p->form](want, c.w, &one, tiles, blocks, p->block);
        for (uint32_t r = 0; r < rows; r++) {
            float *to = &after[m * numbers.y_ld + 1 + r];
            *to = p->gated ? want[r] / (1 + expf(-want[r])) * want[16 + r] : *to + want[r];
        }
    }
    wgsl_run(f, (const uint32_t[3]){ p->gated ? 1 : tiles * QSF_MAX(p->parts, 1u), 1, 1 });
    wgsl_buffer(f, &numbers, sizeof numbers, false);
    wgsl_buffer(f, c.w, tiles * blocks * qsf_tile_bytes(p->form, p->block), false);
    wgsl_buffer(f, a, 8 * (size_t)of.a_ld * 4, false);
    if (from->source == QSF_WGSL_FROM_TWO) wgsl_buffer(f, b, n * (size_t)of.b_ld * 4, false);
    if (from->norm) wgsl_buffer(f, weight, cols * 4, false);
    if (from->bias) wgsl_buffer(f, bias, cols * 4, false);
    wgsl_buffer(f, y, n * (size_t)numbers.y_ld * 4, true);
    wgsl_expect(f, f->out.n_bindings - 1, "f32", 1e-3, after, n * (size_t)numbers.y_ld * 4);
    free(a), free(b), free(weight), free(bias), free(made), free(y), free(want), free(after);
}

static void fused_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    for (uint32_t i = 0; i < 4 * 3 * 2 * 4; i++) {
        const qsf_wgsl_source source = (qsf_wgsl_source)(i % 4);
        const qsf_wgsl_rows from = {
            .source = source, .norm = (qsf_wgsl_norm)(i / 4 % 3), .codes = true,
            .function = source != QSF_WGSL_FROM_TWO ? QSF_WGSL_UNCHANGED
                : i / 12 % 2 ? QSF_WGSL_GELU : QSF_WGSL_SILU,
            .bias = i / 4 % 3 == QSF_WGSL_LAYER_NORM,
            .sinks = source == QSF_WGSL_FROM_ATTENTION && i / 12 % 2,
        };
        /* a tile row, a half of one, or two matrices */
        qsf_wgsl_product p = { .form = i % 5 ? QSF_F_4 : QSF_F_IQ4, .block = 32, .rows = 1u << i / 24,
                               .slices = i % 3 == 0 ? 16 : i % 3 == 1 ? 32 : 8, .add = i % 3 != 2,
                               .parts = i % 3 == 1 ? 2 : 0, .gated = i % 3 == 2, .function = QSF_WGSL_SILU,
                               .from = &from };
        char name[64];
        for (p.cols = 8192; !qsf_wgsl_product_fits(&p);) p.cols -= 64;
        qsf_wgsl_product_rows(wgsl_shader(f), &p);
        snprintf(name, sizeof name, "fused_%u_%u_%u_%u", (unsigned)p.rows, (unsigned)source,
                 (unsigned)from.norm, (unsigned)i);
        wgsl_shader_end(f, name);
        /* gate and up; shares; an RMS norm of one row and of two: SwiftShader takes seconds */
        if (i == 1 || i == 2 || i == 6 || i == 24 + 4) fused_run(f, t, k, &p);
    }
}

#endif
