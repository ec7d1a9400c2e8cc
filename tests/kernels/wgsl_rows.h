/* Cases of rows_wgsl: norms, activations, sums; as floats and as codes.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_WGSL_ROWS_H
#define KERNELS_WGSL_ROWS_H

#include "wgsl/rows_wgsl.h"
#include "wgsl_product.h"

static float *random_floats(table_test *t, size_t n, float amp)
{
    float *x = malloc(n * sizeof *x);
    if (!x) exit(1);
    for (size_t i = 0; i < n; i++) x[i] = pick_f32(t, amp);
    return x;
}

/* What the CPU makes of a row: without adding and codes. */
static void rows_reference(float *y, const qsf_kernels *k, const qsf_wgsl_rows *r,
                           const qsf_wgsl_rows_numbers *n, uint32_t m, const float *a, const float *b,
                           const float *weight, const float *bias)
{
    const float *from = a + m * n->a_ld + n->a_at, *const f = n->of_function;
    float other[2048];
    for (uint32_t c = 0; c < n->cols; c++) {
        other[c] = r->source == QSF_WGSL_FROM_TWO ? b[m * n->b_ld + n->b_at + c] : 1;
        if (r->function == QSF_WGSL_SWIGLU_OAI) other[c] = QSF_MAX(QSF_MIN(other[c], 7), -7) + 1;
    }
    memcpy(y, from, n->cols * sizeof *y);
    for (uint32_t s = 1; r->source == QSF_WGSL_FROM_SHARES && s < n->shares; s++)
        k->vec_add(y, y, from + s * n->share_ld * n->a_ld, n->cols);
    if (r->source == QSF_WGSL_FROM_SHARES && r->bias && !r->norm) k->vec_add(y, y, bias, n->cols);
    if (r->function == QSF_WGSL_SILU) k->silu_inplace(y, n->cols);
    if (r->function == QSF_WGSL_GELU) k->gelu_inplace(y, n->cols);
    if (r->function == QSF_WGSL_RELU || r->function == QSF_WGSL_RELU2) k->relu_inplace(y, n->cols);
    if (r->function == QSF_WGSL_RELU2) k->vec_mul(y, y, y, n->cols);
    for (uint32_t c = 0; c < n->cols; c++) {
        const float v = y[c], g = QSF_MIN(v, 7);
        if (r->function == QSF_WGSL_XIELU)
            y[c] = v > 0 ? f[0] * v * v + f[2] * v : (float)(exp(QSF_MIN(v, f[3])) - 1 - v) * f[1] + f[2] * v;
        if (r->function == QSF_WGSL_CLAMP) y[c] = QSF_MIN(QSF_MAX(v, -f[0]), f[0]);
        if (r->function == QSF_WGSL_SWIGLU_OAI) y[c] = (float)(g / (1 + exp(-1.702f * g)));
    }
    if (r->source == QSF_WGSL_FROM_TWO) k->vec_mul(y, y, other, n->cols);
    for (uint32_t c = 0; r->bare && c < n->cols; c++) other[c] = 1;
    const float *const times = r->bare ? other : weight;
    if (r->norm == QSF_WGSL_RMS_NORM) k->rms_norm(y, y, times, n->cols, n->eps);
    if (r->norm == QSF_WGSL_LAYER_NORM) k->layer_norm(y, y, times, r->bias ? bias : NULL, n->cols, n->eps);
    if (r->scaled) k->vec_scale(y, n->gain, n->cols);
}

/* Codes of rows as words; the end of each row is zeros. */
static uint32_t *rows_codes(const qsf_kernels *k, const float *y, uint32_t n, uint32_t cols, uint32_t x_ld)
{
    const uint32_t padded = qsf_act_cols(cols);
    const size_t all = (size_t)n * padded;
    qsf_act x = { .n = n, .cols = padded, .q = malloc(all), .d = malloc(all / 16), .s = malloc(all / 8),
                  .h = malloc(all / 4) };
    if (!x.q || !x.d || !x.s || !x.h) exit(1);
    for (uint32_t m = 0; m < n; m++) k->quantize_act(&x, m, y + (size_t)m * cols, cols);
    uint32_t *words = act_words(&x, (cols + 63) / 64 * 64, x_ld);
    free(x.q), free(x.d), free(x.s), free(x.h);
    return words;
}

static void rows_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, const qsf_wgsl_rows *r,
                     uint32_t cols)
{
    const uint32_t rows = 3;
    const qsf_wgsl_rows_numbers n = {
        .n = rows, .cols = cols, .a_ld = cols + 16, .a_at = 8, .b_ld = cols + 4, .b_at = 4,
        .x_ld = (cols + 255) / 256 * 20, .y_ld = cols + 3, .y_at = 2, .eps = 1e-5f, .shares = 2,
        .share_ld = 4, .gain = 0.3f, .of_function = { 0.9f, 0.6f, 0.4f, -1e-4f },
    };
    float *a = random_floats(t, 8 * (size_t)n.a_ld, 3), *b = random_floats(t, rows * (size_t)n.b_ld, 1),
        *weight = random_floats(t, cols, 2), *bias = random_floats(t, cols, 1),
        *made = random_floats(t, rows * (size_t)cols, 0), *y = random_floats(t, rows * (size_t)n.y_ld, 1),
        *want = malloc(rows * (size_t)n.y_ld * sizeof *want);
    if (!want) exit(1);
    memcpy(want, y, rows * (size_t)n.y_ld * sizeof *want);
    for (uint32_t i = 0; r->source == QSF_WGSL_FROM_ITSELF && i < rows * cols; i++)
        a[i / cols * n.a_ld + n.a_at + i % cols] = y[i / cols * n.y_ld + n.y_at + i % cols];
    for (uint32_t m = 0; m < rows; m++) {
        rows_reference(made + (size_t)m * cols, k, r, &n, m, a, b, weight, bias);
        for (uint32_t c = 0; c < cols; c++) {
            float *to = want + m * n.y_ld + n.y_at + c;
            *to = made[m * cols + c] + (r->add ? *to : 0);
        }
    }
    uint32_t *codes = rows_codes(k, made, rows, cols, n.x_ld);
    char *zeros = calloc(rows * (size_t)n.x_ld, 16);
    if (!zeros) exit(1);
    const uint32_t groups[3] = { r->norm ? 1 : (n.x_ld / 5 * 64 + 1023) / 1024, rows, 1 };
    for (uint32_t floats = !r->codes; floats <= r->floats; floats++) {
        uint32_t binding = 1;
        wgsl_run(f, groups);
        wgsl_buffer(f, &n, sizeof n, false);
        if (r->source != QSF_WGSL_FROM_ITSELF) wgsl_buffer(f, a, 8 * (size_t)n.a_ld * 4, false), binding++;
        if (r->source == QSF_WGSL_FROM_TWO) wgsl_buffer(f, b, rows * (size_t)n.b_ld * 4, false), binding++;
        if (r->norm && !r->bare) wgsl_buffer(f, weight, cols * sizeof(float), false), binding++;
        if (r->bias) wgsl_buffer(f, bias, cols * sizeof(float), false), binding++;
        if (r->flags) wgsl_buffer(f, (uint32_t[4]){ 0 }, 16, false), binding++;
        if (r->codes) wgsl_buffer(f, zeros, rows * (size_t)n.x_ld * 16, !r->floats);
        if (r->floats) wgsl_buffer(f, y, rows * (size_t)n.y_ld * 4, true);
        if (floats) wgsl_expect(f, binding + r->codes, "f32", 1e-5, want, rows * (size_t)n.y_ld * 4);
        else wgsl_expect(f, binding, "act", 0, codes, rows * (size_t)n.x_ld * 16);
    }
    free(a), free(b), free(weight), free(bias), free(made), free(y), free(want), free(codes), free(zeros);
}

static void join_run(wgsl_folder *f, table_test *t, const qsf_kernels *k, const qsf_wgsl_rows *r);

static void rows_variant(wgsl_folder *f, table_test *t, const qsf_kernels *k, qsf_wgsl_rows r, bool runs)
{
    static const char *const sources[] = { "floats", "two", "shares", "attention", "itself" },
        *const norms[] = { "", "_rms", "_layer" },
        *const functions[] = { "", "_silu", "_gelu", "_relu", "_relu2", "_xielu", "_clamp", "_swiglu_oai" };
    char name[128];
    qsf_wgsl_rows_text(wgsl_shader(f), &r);
    snprintf(name, sizeof name, "rows_%s%s%s%s%s%s%s%s%s%s%s%s", sources[r.source], functions[r.function],
             norms[r.norm], r.bare ? "_bare" : "", r.bias ? "_bias" : "", r.sinks ? "_sinks" : "",
             r.gated ? "_gated" : "", r.scaled ? "_scaled" : "", r.codes ? "_to_codes" : "",
             r.floats ? "_to_floats" : "", r.add ? "_add" : "", r.flags ? "_flags" : "");
    wgsl_shader_end(f, name);
    if (r.source == QSF_WGSL_FROM_ATTENTION && (!r.norm || r.gated) && r.codes != r.floats && !r.add)
        join_run(f, t, k, &r);
    if (!runs) return;
    rows_run(f, t, k, &r, 1500);
    rows_run(f, t, k, &r, 64);
}

/* A value of the second row is not finite: it sets the flag, also if the function hides it. */
static void flags_case(wgsl_folder *f, const char *name, bool hidden)
{
    enum { ROWS = 3, COLS = 64 };
    const qsf_wgsl_rows r = { .function = hidden ? QSF_WGSL_RELU : QSF_WGSL_UNCHANGED, .codes = true,
                              .flags = true };
    const qsf_wgsl_rows_numbers n = { .n = ROWS, .cols = COLS, .a_ld = COLS, .x_ld = 20, .flag = 2 };
    static float a[ROWS * COLS];
    static uint32_t zeros[ROWS * 80];
    for (uint32_t i = 0; i < ROWS * COLS; i++) a[i] = (float)(i % 7) - 3;
    for (uint32_t odd = 0; odd < 3; odd++) {
        a[70] = odd == 0 ? 0 : odd == 1 ? NAN : -INFINITY;
        if (!odd) qsf_wgsl_rows_text(wgsl_shader(f), &r), wgsl_shader_end(f, name);
        wgsl_run(f, (const uint32_t[3]){ 1, ROWS, 1 });
        wgsl_buffer(f, &n, sizeof n, false);
        wgsl_buffer(f, a, sizeof a, false);
        wgsl_buffer(f, zeros, 16, false);
        wgsl_buffer(f, zeros, sizeof zeros, true);
        wgsl_expect(f, 2, "f32", 0, (uint32_t[4]){ 0, 0, odd > 0, 0 }, 16);
    }
}

/* What fewer models need. */
static void more_rows(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    static const qsf_wgsl_rows more[] = {
        { .function = QSF_WGSL_RELU2, .codes = true },
        { .function = QSF_WGSL_XIELU, .codes = true, .floats = true },
        { .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_RELU2, .norm = QSF_WGSL_RMS_NORM,
          .floats = true },
        { .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_SWIGLU_OAI, .codes = true },
        { .source = QSF_WGSL_FROM_ITSELF, .function = QSF_WGSL_CLAMP, .floats = true },
        { .source = QSF_WGSL_FROM_ITSELF, .function = QSF_WGSL_CLAMP, .norm = QSF_WGSL_LAYER_NORM,
          .bias = true, .floats = true },
        { .source = QSF_WGSL_FROM_ITSELF, .norm = QSF_WGSL_LAYER_NORM, .bias = true, .codes = true,
          .floats = true },
        { .source = QSF_WGSL_FROM_ITSELF, .scaled = true, .floats = true },
        { .norm = QSF_WGSL_RMS_NORM, .scaled = true, .floats = true, .add = true },
        { .norm = QSF_WGSL_LAYER_NORM, .bare = true, .codes = true },
        { .norm = QSF_WGSL_RMS_NORM, .codes = true, .flags = true },
        { .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_RELU, .codes = true, .flags = true },
        { .source = QSF_WGSL_FROM_TWO, .function = QSF_WGSL_SILU, .floats = true, .add = true,
          .flags = true },
    };
    const qsf_wgsl_rows join = { .source = QSF_WGSL_FROM_ATTENTION, .norm = QSF_WGSL_RMS_NORM, .gated = true,
                                 .sinks = true, .floats = true };
    for (size_t i = 0; i < QSF_ARRAY_LEN(more); i++) rows_variant(f, t, k, more[i], true);
    rows_variant(f, t, k, join, false);
}

static void rows_cases(wgsl_folder *f, table_test *t, const qsf_kernels *k)
{
    for (uint32_t source = 0; source < 4; source++)
        for (uint32_t function = 0; function <= QSF_WGSL_RELU; function++)
            for (uint32_t norm = 0; norm < 3; norm++)
                for (uint32_t to = 0; to < 8; to++) {
                    const bool attention = source == QSF_WGSL_FROM_ATTENTION, sinks = attention && to & 4,
                        bias = norm == QSF_WGSL_LAYER_NORM
                            || (source == QSF_WGSL_FROM_SHARES && !norm && to & 4);
                    if ((norm && function) || (attention && function)) continue;
                    if (to >= 4 && !bias && !sinks) continue;
                    const qsf_wgsl_rows r = {
                        .source = (qsf_wgsl_source)source, .function = (qsf_wgsl_function)function,
                        .norm = (qsf_wgsl_norm)norm, .bias = bias, .sinks = sinks, .codes = to % 4 < 2,
                        .floats = to % 4 > 0, .add = to % 4 == 3,
                    };
                    if (norm == QSF_WGSL_LAYER_NORM && to >= 4) continue;
                    /* a few of the 100 ways */
                    const bool once = to == 0 || (norm == 0 && to == 7) || (norm == 1 && to == 3);
                    const bool runs = once && !attention && (source == 0 ? function == 0 || norm == 0
                        : source == 1 ? function == 1 || function == 2 : function == 0);
                    rows_variant(f, t, k, r, runs);
                }
    more_rows(f, t, k);
    flags_case(f, "rows_flagged", false);
    flags_case(f, "rows_hidden_flagged", true);
}

#endif
