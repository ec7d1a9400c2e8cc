/* Times of every entry: weights a second for products, nanoseconds an element for the rest.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_TIMING_H
#define KERNELS_TIMING_H

#include "matmul.h"

#include "base/platform.h"

static double seconds(void)
{
    const qsf_platform *os = qsf_platform_native();
    return 1e-9 * (double)os->now_ns(os->user);
}

static const char *time_filter, *time_isa;
static bool time_wanted(const char *name)
{
    char full[120];
    snprintf(full, sizeof full, "%s %s", time_isa, name);
    return !time_filter || strstr(full, time_filter);
}

/* The best of several runs of about 2 ms and more. */
#define BEST(out, code) do {                                                        \
        double t0 = seconds();                                                      \
        size_t reps = 0;                                                            \
        do { code; reps++; } while (seconds() - t0 < 2e-3);                         \
        (out) = 1e9;                                                                \
        for (int run_ = 0; run_ < 9; run_++) {                                      \
            t0 = seconds();                                                         \
            for (size_t r_ = 0; r_ < reps; r_++) { code; }                          \
            const double t1_ = (seconds() - t0) / (double)reps;                     \
            if (t1_ < (out)) (out) = t1_;                                           \
        }                                                                           \
    } while (0)

typedef struct time_buffers {
    uint8_t *w;
    size_t w_bytes;
    float *a, *b, *y;
    qsf_act x;
    uint16_t *h;
} time_buffers;
enum { TIME_COLS = 2048, TIME_ROWS = 64, TIME_FLOATS = 1 << 18 };

static void time_products(const qsf_kernels *k, time_buffers *b)
{
    for (int form = 0; form < QSF_N_FORMS && form_names[form]; form++)
        for (uint32_t block = form_block(form) ? form_block(form) : 32;
             block <= (form_block(form) ? form_block(form) : 128); block *= 2) {
            char name[40];
            snprintf(name, sizeof name, "matmul %s block %u", form_names[form], (unsigned)block);
            if (!k->matvec[form] || !time_wanted(name)) continue;
            const size_t blocks = TIME_COLS / block, row = blocks * qsf_tile_bytes((qsf_form)form, block);
            const size_t near = (320 << 10) / row, far = b->w_bytes / row;
            double t;
            b->x.n = 1;
            BEST(t, k->matvec[form](b->y, b->w, &b->x, near, blocks, block));
            printf("%-8s %-24s G weights/s: %6.1f in cache", k->isa, name,
                   16e-9 * TIME_COLS * (double)near / t);
            BEST(t, k->matvec[form](b->y, b->w, &b->x, far, blocks, block));
            printf(", %6.1f (%5.1f GB/s) from memory; G products/s of rows",
                   16e-9 * TIME_COLS * (double)far / t, 1e-9 * (double)(row * far) / t);
            static const uint32_t counts[] = { 2, 3, 4, 5, 8, 64 };
            for (size_t i = 0; i < QSF_ARRAY_LEN(counts); i++) {
                b->x.n = counts[i];
                BEST(t, k->matmul[form](b->y, 16 * near, b->w, &b->x, near, blocks, block));
                printf(" %u: %.0f", (unsigned)counts[i], 16e-9 * TIME_COLS * counts[i] * (double)near / t);
            }
            printf("\n");
            fflush(stdout);
        }
}

#define TIME(label, count, code) do {                                                                       \
        double t_;                                                                                          \
        if (!time_wanted(label)) break;                                                                     \
        BEST(t_, code);                                                                                     \
        printf("%-8s %-36s %9.3f ns an element\n", k->isa, label, 1e9 * t_ / (double)(count));              \
    } while (0)

static void time_others(const qsf_kernels *k, time_buffers *b)
{
    enum { N = 4096, V = 150000, P = 32, D = 64, R = 4 };
    float *a = b->a, *c = b->b, *y = b->y, m[R] = { 0 }, l[R] = { 0 }, f[R] = { 1, 1, 1, 1 };
    int8_t *q = b->x.q;
    int32_t qs[R] = { 0 };
    uint8_t p[R * P] = { 0 };
    b->x.n = 1;
    TIME("matmul_f32 1 row", 64 * 2048, k->matmul_f32(y, 64, a, c, 2048, 1, 64, 2048));
    TIME("matmul_f32 8 rows", 8 * 64 * 2048, k->matmul_f32(y, 64, a, c, 2048, 8, 64, 2048));
    TIME("matmul_f16 1 row", 64 * 2048, k->matmul_f16(y, 64, b->h, c, 2048, 1, 64, 2048, y + 4096));
    TIME("matmul_f16 8 rows", 8 * 64 * 2048, k->matmul_f16(y, 64, b->h, c, 2048, 8, 64, 2048, y + 4096));
    TIME("matmul_bf16 1 row", 64 * 2048, k->matmul_bf16(y, 64, b->h, c, 2048, 1, 64, 2048, y + 4096));
    TIME("matmul_bf16 8 rows", 8 * 64 * 2048, k->matmul_bf16(y, 64, b->h, c, 2048, 8, 64, 2048, y + 4096));
    TIME("add_narrow 16 1 row", 16 * 1024, k->add_narrow(y, 1024, b->w, 4, 64, q, 16, a, 1, 1));
    TIME("add_narrow 16 8 rows", 8 * 16 * 1024, k->add_narrow(y, 1024, b->w, 4, 64, q, 16, a, 1, 8));
    TIME("quantize_act", 2048, k->quantize_act(&b->x, 0, a, 2048));
    TIME("attention_scores_f16", P * D * R, k->attention_scores_f16(y, P, a, b->h, P, D, R, 1));
    TIME("attention_scores_q8", P * D * R, k->attention_scores_q8(y, P, q, c, qs, q, c, P, D, R, 1, NULL));
    TIME("attention_weighted_sum_f16", P * D * R, k->attention_weighted_sum_f16(y, f, a, P, b->h, P, D, R));
    TIME("attention_weighted_sum_f32", P * D * R, k->attention_weighted_sum_f32(y, f, a, P, c, P, D, R));
    TIME("attention_weighted_sum_q8", P * D * R, k->attention_weighted_sum_q8(y, f, p, c, q, D, R, NULL));
    TIME("attention_softmax_inplace", P * R, (memcpy(y, a, 4 * P * R),
                                              k->attention_softmax_inplace(y, P, P, R, f, m, l)));
    TIME("attention_softmax_q8", P * R, (memcpy(y, a, 4 * P * R),
                                         k->attention_softmax_q8(p, y + P * R, y, P, c, P, R, f, m, l)));
    TIME("causal_mask_apply", P, k->causal_mask_apply(y, P, 0, 20, 10));
    TIME("layer_norm", N, k->layer_norm(y, a, c, c, N, 1e-5f));
    TIME("rms_norm", N, k->rms_norm(y, a, c, N, 1e-5f));
    TIME("rope_apply", N, k->rope_apply(y, N / D, D, D / 2, a, c, false));
    TIME("rope_apply pairs", N, k->rope_apply(y, N / D, D, D / 2, a, c, true));
    TIME("silu_mul", N, k->silu_mul(y, a, c, N));
    TIME("gelu_mul", N, k->gelu_mul(y, a, c, N));
    TIME("silu_inplace", N, (memcpy(y, a, 4 * N), k->silu_inplace(y, N)));
    TIME("gelu_inplace", N, (memcpy(y, a, 4 * N), k->gelu_inplace(y, N)));
    TIME("relu_inplace", N, (memcpy(y, a, 4 * N), k->relu_inplace(y, N)));
    TIME("softcap_inplace", N, (memcpy(y, a, 4 * N), k->softcap_inplace(y, 30, N)));
    TIME("vec_add", N, k->vec_add(y, a, c, N));
    TIME("vec_mul", N, k->vec_mul(y, a, c, N));
    TIME("vec_scale", N, k->vec_scale(y, 1, N));
    const qsf_scan s = { .k = a, .q = c, .v = a, .y = y, .keep = c, .gain = c, .n = 128, .tokens = 16,
                         .ld = 256, .ld_y = 256, .correct = true };
    TIME("scan_rows 16 tokens", 64 * 128 * 16, k->scan_rows(y + (1 << 16), y + (1 << 16), 64, &s));
    TIME("softplus_inplace", N, (memcpy(y, a, 4 * N), k->softplus_inplace(y, N)));
    TIME("convolve_inplace 16 tokens", 16 * N, (memcpy(y, a, 64 * N), k->convolve_inplace(
             y, N, 16, N, y + 20 * N, c, N, c, NULL, 4)));
    TIME("top_k_filter 40 (with a copy)", V, (memcpy(y, a, 4 * V), k->top_k_filter(y, V, 40)));
    TIME("fp16_to_fp32_array", N, k->fp16_to_fp32_array(y, b->h, N));
    TIME("fp32_to_fp16_array", N, k->fp32_to_fp16_array(b->h, a, N));
    TIME("quantize_kv_8bit", D, k->quantize_kv_8bit(q, m, a, D));
    TIME("quantize_kv_levels 4", D, k->quantize_kv_levels((uint8_t *)q, b->h, a, D, 4));
    TIME("quantize_kv_levels 2", D, k->quantize_kv_levels((uint8_t *)q, b->h, a, D, 2));
    TIME("unpack_kv_levels 4 keys", P * D, k->unpack_kv_levels(q, (const uint8_t *)c, P * D / 2, 64, 4));
    TIME("unpack_kv_levels 4 values", P * D, k->unpack_kv_levels(q, (const uint8_t *)c, P * D / 2, 32, 4));
    TIME("unpack_kv_levels 2 keys", P * D, k->unpack_kv_levels(q, (const uint8_t *)c, P * D / 4, 64, 2));
    TIME("unpack_kv_levels 2 values", P * D, k->unpack_kv_levels(q, (const uint8_t *)c, P * D / 4, 16, 2));
    TIME("hadamard_inplace", D, (memcpy(y, a, 4 * D), k->hadamard_inplace(y, D, 1)));
}

static void time_set(const qsf_kernels *k, const char *filter)
{
    static time_buffers b;
    time_filter = filter, time_isa = k->isa;
    if (!b.w) {
        table_test t = { .rng = 1, .round = 3 };
        b.w_bytes = (size_t)128 << 20;
        b.w = malloc(b.w_bytes), b.y = malloc(4 << 23), b.a = malloc(4 * TIME_FLOATS),
            b.b = malloc(4 * TIME_FLOATS), b.h = malloc(2 * TIME_FLOATS);
        b.x.n = TIME_ROWS, b.x.cols = TIME_COLS;
        b.x.q = malloc(TIME_ROWS * TIME_COLS), b.x.d = malloc(TIME_ROWS * TIME_COLS / 16),
            b.x.s = malloc(TIME_ROWS * TIME_COLS / 8), b.x.h = malloc(TIME_ROWS * TIME_COLS / 4);
        if (!b.w || !b.y || !b.a || !b.b || !b.h || !b.x.q || !b.x.d || !b.x.s || !b.x.h) {
            perror("malloc");
            exit(1);
        }
        for (size_t i = 0; i < b.w_bytes / 8; i++) {
            const uint64_t r = rng_next(&t) & 0x3bff3bff3bff3bff;
            memcpy(b.w + 8 * i, &r, 8);
        }
        fill_act(&t, &b.x, false);
        fill_f32(&t, b.a, TIME_FLOATS, 4, 4);
        fill_f32(&t, b.b, TIME_FLOATS, 1, 1);
        for (size_t i = 0; i < TIME_FLOATS; i++) b.h[i] = qsf_f32_to_f16(b.b[i]);
    }
    time_products(k, &b);
    time_others(k, &b);
}

#endif
