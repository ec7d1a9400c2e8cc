/* Nanoseconds per element of every kernel other than the products with quantised weights.
 * SPDX-License-Identifier: MIT */
#include "bench_kernels.h"

/* Sizes as models have them: N floats of a row, V of a vocabulary, P cached positions of D
 * dimensions for R query heads. */
enum { EB_N = 4096, EB_V = 150000, EB_P = QSF_KV_BLOCK, EB_D = 64, EB_R = 4 };

static const float eb_ones[EB_R] = { 1, 1, 1, 1 };
static const int32_t eb_sums[EB_R] = { 0 };
static const qsf_exp_weights eb_weights = { 1, 1, -INFINITY, 0 };
static const float eb_levels[QSF_SAMPLE_LEVELS] = { 0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.3f, 0.2f };

static void eb_softmax_step(kernel_bench *e, bool codes)
{
    float factor[EB_R], m[EB_R], l[EB_R] = { 0 }, *s = memcpy(e->c, e->a, sizeof(float) * EB_P * EB_R);
    uint8_t p[EB_R * EB_P];
    for (size_t r = 0; r < EB_R; r++) m[r] = -INFINITY;
    if (codes) e->k.attention_softmax_q8(p, e->y, s, EB_P, e->b, EB_P, EB_R, factor, m, l);
    else e->k.attention_softmax_inplace(s, EB_P, EB_P, EB_R, factor, m, l);
}
static float *eb_copy(kernel_bench *e, size_t n) { return memcpy(e->c, e->a, n * sizeof(float)); }

/* 64 rows of 128 sums, 16 tokens: an element is one sum that one token moves on. */
enum { EB_ROWS = 64, EB_STATE = 128, EB_TOKENS = 16 };
static void eb_scan(kernel_bench *e, bool correct)
{
    const qsf_scan s = { .k = e->b, .q = e->b, .v = e->b, .y = e->y, .keep = e->b, .gain = e->b,
                         .ld = EB_STATE, .ld_y = EB_ROWS, .n = EB_STATE, .tokens = EB_TOKENS,
                         .correct = correct };
    e->k.scan_rows(eb_copy(e, EB_ROWS * EB_STATE), e->c, EB_ROWS, &s);
}
static void eb_scan_steps(kernel_bench *e)
{
    const qsf_scan s = { .k = e->b, .q = e->b, .v = e->b, .y = e->y, .ld = EB_STATE, .ld_y = EB_ROWS,
                         .n = EB_TOKENS, .tokens = EB_TOKENS };
    memset(e->y, 0, EB_ROWS * EB_TOKENS * sizeof(float));
    e->k.scan_steps(eb_copy(e, EB_ROWS * EB_TOKENS), e->c, EB_ROWS, e->b, e->b, &s);
}

/* X(test, elements, call): kernels that change their input get a copy,
 * whose time is in the figure. */
#define EB_ENTRIES(X)                                                                                       \
    X(quantize_act, KB_COLS, e->k.quantize_act(&e->x, 0, e->a, KB_COLS))                                    \
    X(matmul_f32_1, 64 * KB_COLS, e->k.matmul_f32(e->c, 64, e->a, e->b, KB_COLS, 1, 64, KB_COLS))           \
    X(matmul_f32_8, 8 * 64 * KB_COLS, e->k.matmul_f32(e->c, 64, e->a, e->b, KB_COLS, 8, 64, KB_COLS))       \
    X(matmul_f16_1, 64 * KB_COLS,                                                                           \
      e->k.matmul_f16(e->c, 64, e->h, e->b, KB_COLS, 1, 64, KB_COLS, e->c + KB_FLOATS / 2))                 \
    X(matmul_f16_8, 8 * 64 * KB_COLS,                                                                       \
      e->k.matmul_f16(e->c, 64, e->h, e->b, KB_COLS, 8, 64, KB_COLS, e->c + KB_FLOATS / 2))                 \
    X(matmul_bf16_1, 64 * KB_COLS,                                                                          \
      e->k.matmul_bf16(e->c, 64, e->h, e->b, KB_COLS, 1, 64, KB_COLS, e->c + KB_FLOATS / 2))                \
    X(matmul_bf16_8, 8 * 64 * KB_COLS,                                                                      \
      e->k.matmul_bf16(e->c, 64, e->h, e->b, KB_COLS, 8, 64, KB_COLS, e->c + KB_FLOATS / 2))                \
    X(attention_scores_f16, EB_P * EB_D * EB_R,                                                             \
      e->k.attention_scores_f16(e->c, EB_P, e->a, e->h, EB_P, EB_D, EB_R, 1))                               \
    X(attention_scores_q8, EB_P * EB_D * EB_R,                                                              \
      e->k.attention_scores_q8(e->c, EB_P, e->q, e->b, eb_sums, e->q, e->b, EB_P, EB_D, EB_R, 1, NULL))     \
    X(attention_weighted_sum_q8, EB_P * EB_D * EB_R,                                                        \
      e->k.attention_weighted_sum_q8(e->c, eb_ones, (const uint8_t *)e->q, e->b, e->q, EB_D, EB_R, NULL))   \
    X(attention_weighted_sum_f16, EB_P * EB_D * EB_R,                                                       \
      e->k.attention_weighted_sum_f16(e->c, eb_ones, e->b, EB_P, e->h, EB_P, EB_D, EB_R))                   \
    X(attention_weighted_sum_f32, EB_P * EB_D * EB_R,                                                       \
      e->k.attention_weighted_sum_f32(e->c, eb_ones, e->b, EB_P, e->a, EB_P, EB_D, EB_R))                   \
    X(attention_softmax_inplace, EB_P * EB_R, eb_softmax_step(e, false))                                    \
    X(attention_softmax_q8, EB_P * EB_R, eb_softmax_step(e, true))                                          \
    X(causal_mask_apply, EB_P, e->k.causal_mask_apply(e->c, EB_P, 0, 20, 10))                               \
    X(layer_norm, EB_N, e->k.layer_norm(e->c, e->a, e->b, e->b, EB_N, 1e-5f))                               \
    X(rms_norm, EB_N, e->k.rms_norm(e->c, e->a, e->b, EB_N, 1e-5f))                                         \
    X(rope_apply, EB_N, e->k.rope_apply(eb_copy(e, EB_N), EB_N / EB_D, EB_D, EB_D / 2, e->a, e->b, false))  \
    X(rope_apply_pairs, EB_N,                                                                               \
      e->k.rope_apply(eb_copy(e, EB_N), EB_N / EB_D, EB_D, EB_D / 2, e->a, e->b, true))                     \
    X(silu_mul, EB_N, e->k.silu_mul(e->c, e->a, e->b, EB_N))                                                \
    X(gelu_mul, EB_N, e->k.gelu_mul(e->c, e->a, e->b, EB_N))                                                \
    X(silu_inplace, EB_N, e->k.silu_inplace(eb_copy(e, EB_N), EB_N))                                        \
    X(gelu_inplace, EB_N, e->k.gelu_inplace(eb_copy(e, EB_N), EB_N))                                        \
    X(relu_inplace, EB_N, e->k.relu_inplace(eb_copy(e, EB_N), EB_N))                                        \
    X(softcap_inplace, EB_N, e->k.softcap_inplace(eb_copy(e, EB_N), 30, EB_N))                              \
    X(softplus_inplace, EB_N, e->k.softplus_inplace(eb_copy(e, EB_N), EB_N))                                \
    X(scan_rows, EB_ROWS * EB_STATE * EB_TOKENS, eb_scan(e, false))                                         \
    X(scan_rows_correct, EB_ROWS * EB_STATE * EB_TOKENS, eb_scan(e, true))                                  \
    X(scan_steps, EB_ROWS * EB_TOKENS * EB_TOKENS, eb_scan_steps(e))                                        \
    X(convolve_inplace, EB_N,                                                                               \
      e->k.convolve_inplace(eb_copy(e, EB_N), EB_N / EB_TOKENS, EB_TOKENS, EB_N / EB_TOKENS, e->y, e->b,    \
                            EB_N / EB_TOKENS, e->b, NULL, 4))                                               \
    X(vec_add, EB_N, e->k.vec_add(e->c, e->a, e->b, EB_N))                                                  \
    X(vec_mul, EB_N, e->k.vec_mul(e->c, e->a, e->b, EB_N))                                                  \
    X(vec_scale, EB_N, e->k.vec_scale(eb_copy(e, EB_N), 2, EB_N))                                           \
    X(top_k_filter, EB_V, e->k.top_k_filter(eb_copy(e, EB_V), EB_V, 40))                                    \
    X(exp_weights, EB_V, e->k.exp_weights(NULL, e->y, e->a, EB_V, &eb_weights))                             \
    X(weight_sums, EB_V, e->k.weight_sums(e->y, e->a, EB_V))                                                \
    X(weight_levels, EB_V, e->k.weight_levels(e->y, e->a, e->a, EB_V, eb_levels))                           \
    X(weights_within, EB_V, (void)e->k.weights_within((uint32_t *)(void *)e->c, e->a, EB_V, 0.5f, 1))       \
    X(logit_moments, EB_V, e->k.logit_moments(e->y, e->a, EB_V, 1))                                         \
    X(largest_logit, EB_V, (void)e->k.largest_logit(e->a, EB_V))                                            \
    X(fp16_to_fp32_array, EB_N, e->k.fp16_to_fp32_array(e->c, e->h, EB_N))                                  \
    X(fp32_to_fp16_array, EB_N, e->k.fp32_to_fp16_array((uint16_t *)(void *)e->c, e->a, EB_N))              \
    X(quantize_kv_8bit, EB_D, e->k.quantize_kv_8bit((int8_t *)e->c, e->y, e->a, EB_D))                      \
    X(quantize_kv_levels, EB_D,                                                                             \
      e->k.quantize_kv_levels((uint8_t *)e->c, (uint16_t *)(void *)e->y, e->a, EB_D, 4))                    \
    X(unpack_kv_levels, EB_P * EB_D,                                                                        \
      e->k.unpack_kv_levels((int8_t *)e->c, (const uint8_t *)e->q, EB_P * EB_D / 2, 64, 4))                 \
    X(hadamard_inplace, EB_D, e->k.hadamard_inplace(eb_copy(e, EB_D), EB_D, 1))

#define X(name, count, call) static void eb_run_##name(void *arg) { kernel_bench *e = arg; call; }
EB_ENTRIES(X)
#undef X

static const struct eb_entry { const char *test; double elements; bench_work *run; } eb_table[] = {
#define X(name, count, call) { #name, count, eb_run_##name },
    EB_ENTRIES(X)
#undef X
};
#undef EB_ENTRIES

int bench_entries(kernel_bench *kb)
{
    kb->x.n = 1;
    for (size_t i = 0; i < QSF_ARRAY_LEN(eb_table); i++) {
        bench_row r = { .threads = 1, .share = -1, .unit = "ns" };
        bench_samples s;
        if (interrupted()) return EXIT_INTERRUPTED;
        if (!bench_wanted(kb, kb->k.isa, eb_table[i].test)) continue;
        bench_time(kb, eb_table[i].run, kb, &s);
        for (size_t j = 0; j < s.n; j++) s.v[j] *= 1e9 / eb_table[i].elements;
        snprintf(r.test, sizeof r.test, "%s", eb_table[i].test);
        snprintf(r.isa, sizeof r.isa, "%s", kb->k.isa);
        bench_row_figures(&r, &s);
        bench_report_row(kb->report, &r);
    }
    return EXIT_OK;
}
