/* Cases of the embedding, of weights stored as floats, and of the largest logit.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_TOKENS_H
#define KERNELS_WGSL_TOKENS_H

#include "wgsl/embed_wgsl.h"
#include "wgsl/largest_wgsl.h"
#include "wgsl_attend.h"

/* ---- floats ---- */

/* n random numbers: as a matrix stores them, and, in x, what that stands for. */
static void *stored_floats(table_test *t, qsf_wgsl_storage storage, float *x, size_t n)
{
    uint16_t *halves = calloc(n + 1, 2);
    if (!halves) exit(1);
    for (size_t i = 0; i < n; i++) {
        x[i] = pick_f32(t, i % 7 ? 1 : 0x1p-15f);       /* also subnormal halves */
        if (storage == QSF_WGSL_F16) x[i] = qsf_f16_to_f32(halves[i] = qsf_f32_to_f16(x[i]));
        if (storage == QSF_WGSL_BF16) x[i] = qsf_bf16_to_f32(halves[i] = qsf_f32_to_bf16(x[i]));
    }
    if (storage != QSF_WGSL_F32) return halves;
    free(halves);
    void *same = malloc(n * sizeof *x);
    if (!same) exit(1);
    return memcpy(same, x, n * sizeof *x);
}
static size_t stored_bytes(qsf_wgsl_storage storage, size_t n)
{
    return storage == QSF_WGSL_F32 ? 4 * n : 2 * n;
}

static void floats_run(wgsl_folder *f, table_test *t, const qsf_wgsl_floats *of)
{
    const uint32_t rows = 21, cols = 333, n = of->rows + 1;
    const qsf_wgsl_floats_numbers p = { rows, cols, n, cols + 7, 3, rows + 2, 1, 0.5f, 4 };
    float *w = random_floats(t, rows * cols, 0), *x = random_floats(t, (size_t)n * p.x_ld, 2),
        *b = random_floats(t, rows, 2), *y = random_floats(t, (size_t)n * p.y_ld, 1),
        *want = malloc((size_t)n * p.y_ld * 4);
    void *stored = stored_floats(t, of->storage, w, rows * cols);
    if (!want) exit(1);
    memcpy(want, y, (size_t)n * p.y_ld * 4);
    for (uint32_t m = 0; m < n; m++)
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0;
            for (uint32_t c = 0; c < cols; c++) {
                float v = x[m * p.x_ld + 3 + c];
                if (of->storage == QSF_WGSL_BF16) v = qsf_bf16_to_f32(qsf_f32_to_bf16(v));
                sum += (double)w[r * cols + c] * (double)v;
            }
            const double all = (of->scaled ? sum / 2 : sum) + (of->bias ? (double)b[r] : 0);
            float *to = want + m * p.y_ld + 1 + r;
            *to = (float)((of->scaled ? 4 * all : all) + (of->add ? (double)*to : 0));
        }
    wgsl_run(f, (const uint32_t[3]){ rows, 1, 2 });
    wgsl_buffer(f, &p, sizeof p, false);
    wgsl_buffer(f, stored, stored_bytes(of->storage, rows * cols), false);
    wgsl_buffer(f, x, (size_t)n * p.x_ld * 4, false);
    wgsl_buffer(f, y, (size_t)n * p.y_ld * 4, !of->bias);
    if (of->bias) wgsl_buffer(f, b, rows * 4, true);
    wgsl_expect(f, 3, "f32", 1e-5, want, (size_t)n * p.y_ld * 4);
    free(w), free(x), free(b), free(y), free(want), free(stored);
}

static const char *const storage_names[] = { "f32", "f16", "bf16" };

static void floats_cases(wgsl_folder *f, table_test *t)
{
    for (uint32_t i = 0; i < 3 * 8 * 4; i++) {
        const qsf_wgsl_floats of = { .storage = (qsf_wgsl_storage)(i / 32), .rows = 1 + i / 4 % 8,
                                     .bias = i & 1, .add = i & 2, .scaled = i / 4 % 3 == 2 };
        char name[64];
        qsf_wgsl_product_floats(wgsl_shader(f), &of);
        snprintf(name, sizeof name, "product_%s_%u%s%s%s", storage_names[of.storage], (unsigned)of.rows,
                 of.scaled ? "_scaled" : "", of.bias ? "_bias" : "", of.add ? "_add" : "");
        wgsl_shader_end(f, name);
        if (of.rows == 3 + i / 64 && of.bias == of.add && (of.bias || of.storage)) floats_run(f, t, &of);
    }
}

/* ---- embedding ---- */

enum { E_TOKENS = 4 };
static const uint32_t e_tokens[E_TOKENS] = { 5, 40, 16, 120 };          /* W has 5 to 52; so the last stays */

static void embed_run(wgsl_folder *f, table_test *t, const qsf_wgsl_embed *e)
{
    t->form = (int)e->form, t->n_slots = 0;
    matmul_case c = random_case(t, false, 1);
    while (c.tiles != 3) t->n_slots = 0, c = random_case(t, false, 1);
    const uint32_t cols = e->floats ? 101 : (uint32_t)(c.blocks * c.block) - 5,
        tile = e->floats ? 0 : (uint32_t)qsf_tile_bytes(e->form, e->block);
    const qsf_wgsl_embed_numbers p = { E_TOKENS, cols, (uint32_t)c.blocks, 5, 48, cols + 1, 1, 3 };
    float *w = random_floats(t, 48 * (size_t)cols, 0), *y = random_floats(t, E_TOKENS * (size_t)p.y_ld, 1);
    void *stored = e->floats ? stored_floats(t, e->storage, w, 48 * (size_t)cols) : NULL;
    wgsl_run(f, (const uint32_t[3]){ (cols + 1023) / 1024, E_TOKENS, 1 });
    wgsl_buffer(f, &p, sizeof p, false);
    if (e->floats) wgsl_buffer(f, stored, stored_bytes(e->storage, 48 * (size_t)cols), false);
    else wgsl_buffer(f, c.w, 3 * c.blocks * tile, false);
    wgsl_buffer(f, e_tokens, sizeof e_tokens, false);
    wgsl_buffer(f, y, E_TOKENS * (size_t)p.y_ld * 4, true);
    for (uint32_t m = 0; m < E_TOKENS; m++)
        for (uint32_t i = 0; i < cols && e_tokens[m] < 53; i++) {
            const uint32_t row = e_tokens[m] - 5;
            const uint8_t *tiles = c.w + row / 16 * c.blocks * tile;
            y[m * p.y_ld + 1 + i] = (float)(3 * (e->floats ? (double)w[row * cols + i]
                : form_trellis(t->form) ? trellis_value(tiles, t->form, (int)(row % 16), i)
                : tile_value(tiles + i / c.block * tile, t->form, (int)(row % 16), i % c.block)));
        }
    wgsl_expect(f, 3, "f32", 1e-6, y, E_TOKENS * (size_t)p.y_ld * 4);
    free(w), free(y), free(stored);
}

static void embed_cases(wgsl_folder *f, table_test *t)
{
    static const uint32_t sizes[] = { 32, 64, 128, 256 };
    char name[64];
    for (uint32_t s = 0; s < 3; s++) {
        const qsf_wgsl_embed e = { .floats = true, .storage = (qsf_wgsl_storage)s, .form = QSF_F_4,
                                   .block = 32 };
        qsf_wgsl_embed_text(wgsl_shader(f), &e);
        snprintf(name, sizeof name, "embed_%s", storage_names[s]);
        wgsl_shader_end(f, name);
        t->round = 4;
        embed_run(f, t, &e);
    }
    for (int i = 0; i < 4 * QSF_N_FORMS; i++) {
        const int form = i / 4;
        const uint32_t own = form_block(form), block = sizes[i % 4];
        const qsf_wgsl_embed e = { .form = (qsf_form)form, .block = block };
        if (!qsf_wgsl_has_form(e.form) || (own ? own != block : form == QSF_F_TQ1 && block != 256)) continue;
        qsf_wgsl_embed_text(wgsl_shader(f), &e);
        snprintf(name, sizeof name, "embed_%s_%u", form_names[form], (unsigned)block);
        wgsl_shader_end(f, name);
        t->round = 4 + i % 4;
        if ((form == QSF_F_5 && block == 64) || form == QSF_F_Q6K || form == QSF_F_TR2 || form == QSF_F_Q4K
            || form == QSF_F_IQ4) embed_run(f, t, &e);
    }
}

/* ---- the largest logit ---- */

static void largest_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    enum { N = 4, COLS = 2000, PARTS = 3 };
    const qsf_wgsl_largest_numbers parts = { N, COLS, COLS + 3, 2 }, end = { N, PARTS, 0, 0 };
    float *x = random_floats(t, N * (size_t)parts.x_ld, 5), *row = x + 2;
    uint32_t of[N][PARTS][2], tokens[N];
    row[77] = row[1999] = 9;                                    /* equals: the first */
    row[parts.x_ld + 1500] = 0;                                 /* only negative numbers, NaN and -0 */
    for (uint32_t c = 0; c < COLS; c++)
        row[parts.x_ld + c] = c == 1500 ? -0.0f : -fabsf(row[parts.x_ld + c]) - 1;
    row[parts.x_ld + 3] = row[2 * parts.x_ld + 1] = NAN;
    row[2 * parts.x_ld + 1200] = INFINITY;
    for (uint32_t m = 0; m < N; m++) {
        tokens[m] = (uint32_t)k->largest_logit(row + m * parts.x_ld, COLS);
        for (uint32_t i = 0; i < PARTS; i++) {
            uint32_t c = UINT32_MAX;
            for (uint32_t at = 0; at < COLS; at++)
                if (at / 256 % PARTS == i && row[m * parts.x_ld + at] == row[m * parts.x_ld + at]
                    && (c == UINT32_MAX || row[m * parts.x_ld + at] > row[m * parts.x_ld + c])) c = at;
            const uint32_t bits = qsf_f32_bits(row[m * parts.x_ld + c] + 0.0f);
            of[m][i][0] = bits >> 31 ? ~bits : bits | 0x80000000u;
            of[m][i][1] = c;
        }
    }
    uint32_t none[N * PARTS * 2] = { 0 };
    qsf_wgsl_largest(wgsl_shader(f), false);
    wgsl_shader_end(f, "largest_parts");
    wgsl_run(f, (const uint32_t[3]){ PARTS, N, 1 });
    wgsl_buffer(f, &parts, sizeof parts, false);
    wgsl_buffer(f, x, N * (size_t)parts.x_ld * 4, false);
    wgsl_buffer(f, none, sizeof none, true);
    wgsl_expect(f, 2, "u32", 0, of, sizeof of);
    qsf_wgsl_largest(wgsl_shader(f), true);
    wgsl_shader_end(f, "largest_end");
    wgsl_run(f, (const uint32_t[3]){ 1, N, 1 });
    wgsl_buffer(f, &end, sizeof end, false);
    wgsl_buffer(f, of, sizeof of, false);
    wgsl_buffer(f, none, sizeof tokens, true);
    wgsl_expect(f, 2, "u32", 0, tokens, sizeof tokens);
    free(x);
}

#endif
