/* The kernel table test: every variant of every entry that this machine has against the scalar
 * reference, the reference against plain arithmetic and published values, and the checks against
 * wrong kernels.
 * SPDX-License-Identifier: MIT
 *
 *   kernels_test [FILTER]          checks; names look like "avx2 matmul 4z"
 *   kernels_test --time [FILTER]   times every entry of every set
 *   QSF_TEST_SEED=N                another random sequence
 *   QSF_TEST_BEST=NAME             the set that this processor must choose, so that a lost option
 *                                  of the emulator is noticed
 *   QSF_TEST_SETS="NAME..."        only these sets; tests of no particular set run with "scalar" */
#if !defined(_WIN32)
#  define _DEFAULT_SOURCE
#  define _DARWIN_C_SOURCE
#endif
#include "broken.h"
#include "iq.h"
#include "look_ups.h"
#include "timing.h"
#include "amx.h"
#include "avxvnni.h"
#include "tensor/types.h"

#if defined(__x86_64__)
#  include <cpuid.h>
#  if defined(QSF_AMX)
#    include <sys/syscall.h>
#  endif
#elif defined(__aarch64__) && defined(__linux__)
#  include <sys/auxv.h>
#endif

/* What the processor has, asked of the compiler's own run time so that this program
 * needs no platform. */
static uint32_t host_cpu(void)
{
    uint32_t cpu = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3")) cpu |= QSF_CPU_SSE42;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) cpu |= QSF_CPU_AVX2;
    if ((cpu & QSF_CPU_AVX2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512vnni"))
        cpu |= QSF_CPU_AVX512;
    if ((cpu & QSF_CPU_AVX512) && __builtin_cpu_supports("avx512vbmi")
        && __builtin_cpu_supports("avx512vbmi2"))
        cpu |= QSF_CPU_AVX512_VBMI;
    /* __builtin_cpu_supports("avxvnni") is too new a question for some compilers */
    unsigned a, b, c, d;
    if ((cpu & QSF_CPU_AVX2) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1
        && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        if (a & 1 << 4) cpu |= QSF_CPU_AVXVNNI;
        if ((cpu & QSF_CPU_AVX512) && (a & 1 << 5)) cpu |= QSF_CPU_AVX512_BF16;
    }
#  if defined(QSF_AMX)      /* AMX-TILE, AMX-INT8; then Linux is asked for the registers, by its numbers */
    if ((cpu & QSF_CPU_AVX512_VBMI) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3
        && !syscall(SYS_arch_prctl, 0x1023, 18))
        cpu |= QSF_CPU_AMX;
#  endif
#elif defined(__aarch64__)
    cpu |= QSF_CPU_NEON;
#  if defined(__linux__)
    if (getauxval(AT_HWCAP) >> 20 & 1) cpu |= QSF_CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) >> 13 & 1) cpu |= QSF_CPU_I8MM;
#  endif
#elif defined(__wasm_simd128__)
    cpu = qsf_cpu_wasm(UINT64_MAX);
    if (cpu & QSF_CPU_WASM_RELAXED) cpu |= QSF_CPU_WASM_DOT;       /* slow or not, it has to be right */
#endif
    return cpu;
}

typedef struct table_entry { const char *name; size_t at; check_fn *check; int form; } table_entry;
#define ENTRY(member, check) { #member, offsetof(qsf_kernels, member), check, 0 }
#define FORM(f) { "matvec", offsetof(qsf_kernels, matvec[f]), check_matvec, f }, \
                { "matmul", offsetof(qsf_kernels, matmul[f]), check_matmul, f }, \
                { "f32 bounds", offsetof(qsf_kernels, matvec[f]), check_f32_bounds, f }
#define IQ(f) { "matvec", offsetof(qsf_kernels, matvec[f]), check_iq_matvec, f }, \
              { "matmul", offsetof(qsf_kernels, matmul[f]), check_iq_matmul, f }
static const table_entry table_entries[] = {
    FORM(QSF_F_2Z), FORM(QSF_F_3Z), FORM(QSF_F_4Z), FORM(QSF_F_TERNARY), FORM(QSF_F_8), FORM(QSF_F_3),
    FORM(QSF_F_4), FORM(QSF_F_5), FORM(QSF_F_6),
    FORM(QSF_F_5Z), FORM(QSF_F_IQ4), FORM(QSF_F_Q4K), FORM(QSF_F_Q5K), FORM(QSF_F_Q6K), FORM(QSF_F_Q2K),
    FORM(QSF_F_Q3K), FORM(QSF_F_IQ4XS),
    FORM(QSF_F_TQ1), FORM(QSF_F_MX4), FORM(QSF_F_NV4), FORM(QSF_F_Q1), FORM(QSF_F_8K),
    FORM(QSF_F_T2), FORM(QSF_F_T5), FORM(QSF_F_QK256), FORM(QSF_F_2S),
    IQ(QSF_F_IQ2XXS), IQ(QSF_F_IQ2XS), IQ(QSF_F_IQ2S), IQ(QSF_F_IQ3XXS), IQ(QSF_F_IQ3S), IQ(QSF_F_IQ1S),
    IQ(QSF_F_IQ1M),
    FORM(QSF_F_TR2), FORM(QSF_F_TR3), FORM(QSF_F_TR4), FORM(QSF_F_TR5),
    FORM(QSF_F_TB4), FORM(QSF_F_TB3),
    ENTRY(matmul_f32, check_matmul_f32),
    ENTRY(matmul_f16, check_matmul_f16),
    ENTRY(matmul_bf16, check_matmul_bf16),
    ENTRY(add_narrow, check_add_narrow),
    ENTRY(attention_scores_f16, check_attention_scores_f16),
    ENTRY(attention_scores_q8, check_attention_scores_q8),
    ENTRY(attention_softmax_inplace, check_attention_softmax),
    ENTRY(attention_softmax_q8, check_attention_softmax_q8),
    ENTRY(attention_weighted_sum_f16, check_attention_weighted_sum_f16),
    ENTRY(attention_weighted_sum_f32, check_attention_weighted_sum_f32),
    ENTRY(attention_weighted_sum_q8, check_attention_weighted_sum_q8),
    ENTRY(causal_mask_apply, check_causal_mask),
    ENTRY(layer_norm, check_layer_norm),
    ENTRY(rms_norm, check_rms_norm),
    ENTRY(rope_apply, check_rope_apply),
    ENTRY(silu_inplace, check_silu),
    ENTRY(gelu_inplace, check_gelu),
    ENTRY(relu_inplace, check_relu),
    ENTRY(softplus_inplace, check_softplus),
    ENTRY(hadamard_inplace, check_hadamard),
    ENTRY(vec_add, check_vec_add),
    ENTRY(vec_mul, check_vec_mul),
    ENTRY(vec_scale, check_vec_scale),
    ENTRY(silu_mul, check_silu_mul),
    ENTRY(gelu_mul, check_gelu_mul),
    ENTRY(softcap_inplace, check_softcap),
    ENTRY(scan_rows, check_scan_rows),
    ENTRY(scan_steps, check_scan_steps),
    ENTRY(convolve_inplace, check_convolve),
    ENTRY(top_k_filter, check_top_k),
    ENTRY(exp_weights, check_exp_weights),
    ENTRY(weight_sums, check_weight_sums),
    ENTRY(weight_levels, check_weight_levels),
    ENTRY(weights_within, check_weights_within),
    ENTRY(weighted_logs, check_weighted_logs),
    ENTRY(logit_moments, check_logit_moments),
    ENTRY(largest_logit, check_largest_logit),
    ENTRY(quantize_act, check_quantize_act),
    ENTRY(quantize_kv_8bit, check_kv_8bit),
    ENTRY(quantize_kv_levels, check_quantize_kv_levels),
    ENTRY(unpack_kv_levels, check_unpack_kv_levels),
    ENTRY(fp16_to_fp32_array, check_fp16_to_fp32),
    ENTRY(fp32_to_fp16_array, check_fp32_to_fp16),
};
#undef FORM
#undef IQ
#undef ENTRY

static uint64_t test_seed = 0x9e3779b97f4a7c15;

/* The set and entry that run_entry is to check; test.h's tests take no arguments. */
static struct { const qsf_kernels *scalar, *set; const table_entry *entry; } current;
static void run_entry(void)
{
    static table_test t;
    t.rng = test_seed ^ (uint64_t)(current.entry - table_entries) << 32, t.entry = current.entry->name,
        t.form = current.entry->form;
    if (run_check(&t, current.entry->check, current.scalar, current.set)) test_failed = true;
}

static void run_set(const qsf_kernels *scalar, const qsf_kernels *below, const qsf_kernels *set)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(table_entries); i++) {
        const table_entry *e = &table_entries[i];
        void (*mine)(void), (*inherited)(void);
        memcpy(&mine, (const char *)set + e->at, sizeof mine);
        memcpy(&inherited, (const char *)below + e->at, sizeof inherited);
        if (!mine) { printf("%s has no %s\n", set->isa, e->name); test_failed_count++; continue; }
        if (mine == inherited && below != set) continue;        /* checked with the set that brought it */
        current.scalar = scalar, current.set = set, current.entry = e;
        char name[80];
        const bool tiles = e->at < offsetof(qsf_kernels, quantize_act);
        snprintf(name, sizeof name, "%s %s%s%s", set->isa, e->name, tiles ? " " : "",
                 tiles ? form_names[e->form] : "");
        test_run(name, run_entry);
    }
}

#if defined(QSF_AMX)
static void run_amx_bits(const qsf_kernels *below, const qsf_kernels *set)
{
    amx_bits.below = below, amx_bits.set = set, amx_bits.seed = test_seed;
    RUN(amx_has_the_bits_of_the_set_below);
}
#endif

TEST(every_form_of_broken_kernel_is_caught)
{
    printf("    %d wrong kernels\n", broken_kernels_caught(test_seed));
}

/* ---- the reference against published values ---- */
TEST(known_values)
{
    qsf_kernels k;
    qsf_kernels_scalar(&k);
    float x[4] = { 1, -1, 0, 3 };
    k.gelu_inplace(x, 4);                       /* tanh form, Hendrycks & Gimpel 2016 */
    CHECK_NEAR(x[0], 0.8411920, 1e-6);
    CHECK_NEAR(x[1], -0.1588080, 1e-6);
    CHECK_NEAR(x[3], 2.9963627, 1e-6);
    float s[3] = { 1, -1, 0 };
    k.silu_inplace(s, 3);
    CHECK_NEAR(s[0], 0.7310586, 1e-6);
    CHECK_NEAR(s[1], -0.2689414, 1e-6);
    float n[4] = { 1, 2, 3, 4 }, one[4] = { 1, 1, 1, 1 }, y[4];
    k.layer_norm(y, n, one, NULL, 4, 0);
    CHECK_NEAR(y[0], -1.3416408, 1e-6);
    CHECK_NEAR(y[2], 0.4472136, 1e-6);
    k.rms_norm(y, n, NULL, 4, 0);
    CHECK_NEAR(y[3], 4 / 2.7386128, 1e-6);
    float r[2] = { 1, 0 }, c = 0.5403023f, i = 0.8414710f;      /* one radian */
    k.rope_apply(r, 1, 2, 1, &c, &i, true);
    CHECK_NEAR(r[0], 0.5403023, 1e-7);
    CHECK_NEAR(r[1], 0.8414710, 1e-7);
    float cap[1] = { 30 };
    k.softcap_inplace(cap, 30, 1);
    CHECK_NEAR(cap[0], 30 * 0.7615942, 1e-5);
    const float f[6] = { 1, 65504, 65519, 65520, 0x1p-24f, -2 };
    uint16_t h[6];
    k.fp32_to_fp16_array(h, f, 6);
    CHECK_EQ(h[0], 0x3c00); CHECK_EQ(h[1], 0x7bff); CHECK_EQ(h[2], 0x7bff); CHECK_EQ(h[3], 0x7c00);
    CHECK_EQ(h[4], 1); CHECK_EQ(h[5], 0xc000);
}

TEST(attention_in_steps_equals_softmax)
{
    qsf_kernels k;
    qsf_kernels_scalar(&k);
    float s[48], m = -INFINITY, l = 0, o = NAN;
    table_test t = { .rng = test_seed, .round = 2 };
    fill_f32(&t, s, 48, 9, 9);
    double want = 0, sum = 0;
    uint16_t v[48];
    for (int i = 0; i < 48; i++) {
        v[i] = qsf_f32_to_f16((float)i);
        want += exp(s[i]) * i;
        sum += exp(s[i]);
    }
    for (int at = 0; at < 48; at += 16) {
        float factor;
        k.attention_softmax_inplace(s + at, 16, 16, 1, &factor, &m, &l);
        k.attention_weighted_sum_f16(&o, &factor, s + at, 16, v + at, 16, 1, 1);
    }
    CHECK_NEAR(o / l, want / sum, 1e-4);
}

TEST(tile_bytes_and_forms)
{
    static const uint8_t types[] = {
        QSF_T_2BIT, QSF_T_3BIT, QSF_T_4BIT, QSF_T_TERNARY, QSF_T_8BIT, QSF_T_3BIT_S, QSF_T_4BIT_S,
        QSF_T_5BIT_S, QSF_T_6BIT_S, QSF_T_Q5_1, QSF_T_IQ4_NL, QSF_T_Q4_K, QSF_T_Q5_K, QSF_T_Q6_K,
        QSF_T_Q2_K, QSF_T_Q3_K, QSF_T_IQ4_XS,
        QSF_T_TERNARY2, QSF_T_TERNARY5, QSF_T_QK256, QSF_T_2BIT_S,
        [QSF_F_TQ1] = QSF_T_TQ1_0, [QSF_F_MX4] = QSF_T_MXFP4, [QSF_F_NV4] = QSF_T_NVFP4,
        [QSF_F_Q1] = QSF_T_Q1_0, [QSF_F_8K] = QSF_T_Q8_K,
    };
    static const uint32_t bare_bytes[] = { 64, 52, 64, 66 };
    static const uint32_t small_bytes[] = { 54, 17, 36, 18, 292 };              /* GGUF's as well */
    static const uint32_t super_bytes[] = { 144, 176, 210, 84, 110, 136 };      /* GGUF's */
    for (int f = QSF_F_TQ1; f <= QSF_F_8K; f++) {
        CHECK_EQ(qsf_form_of_type(types[f]), f);
        CHECK_EQ(qsf_tile_bytes((qsf_form)f, form_block(f)), 16 * small_bytes[f - QSF_F_TQ1]);
    }
    for (int f = QSF_F_T2; f <= QSF_F_2S; f++) {
        CHECK_EQ(qsf_form_of_type(types[f]), f);
        CHECK_EQ(qsf_tile_bytes((qsf_form)f, 256), 16 * bare_bytes[f - QSF_F_T2]);
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(iq_forms); i++) {
        CHECK_EQ(qsf_form_of_type(iq_forms[i].type), QSF_F_IQ2XXS + i);
        CHECK_EQ(qsf_tile_bytes((qsf_form)(QSF_F_IQ2XXS + i), 256), 16 * iq_forms[i].bytes);
    }
    for (int f = QSF_F_Q4K; f <= QSF_F_IQ4XS; f++) {
        CHECK_EQ(qsf_form_of_type(types[f]), f);
        CHECK_EQ(qsf_tile_bytes((qsf_form)f, 256), 16 * super_bytes[f - QSF_F_Q4K]);
    }
    for (int f = 0; f < QSF_F_Q4K; f++) {
        CHECK_EQ(qsf_form_of_type(types[f]), f);
        for (uint32_t block = 32; block <= 256; block *= 2)
            CHECK_EQ(qsf_tile_bytes((qsf_form)f, block),
                     16 * (2 + (form_has_zero(f) ? 2 : 0) + block * (uint32_t)form_bits[f] / 8));
    }
    for (int k = 0; k < 4; k++) {
        CHECK_EQ(qsf_form_of_type(QSF_T_TRELLIS2 + (uint32_t)k), QSF_F_TR2 + k);
        CHECK_EQ(qsf_tile_bytes((qsf_form)(QSF_F_TR2 + k), 64), 16 + 128 * (2 + k));
    }
    for (int f = QSF_F_TB4; f <= QSF_F_TB3; f++) {
        CHECK_EQ(qsf_form_of_type(QSF_T_TABLE4 + (uint32_t)(f - QSF_F_TB4)), f);
        for (uint32_t block = 32; block <= 256; block *= 2)
            CHECK_EQ(qsf_tile_bytes((qsf_form)f, block), 16 * (1 + block * (uint32_t)form_bits[f] / 8));
    }
    CHECK_EQ(qsf_form_of_type(QSF_T_2BIT_SYM), QSF_F_2Z);
    CHECK_EQ(qsf_form_of_type(QSF_T_MIXED), -1);
    CHECK_EQ(qsf_form_of_type(QSF_T_F16), -1);
    CHECK_EQ(qsf_form_of_type(QSF_T_Q4_0), -1);
    CHECK_EQ(qsf_form_of_type(QSF_T_TQ2_0), QSF_F_TERNARY);
    CHECK_EQ(qsf_tile_bytes(QSF_F_TERNARY, 256), 16 * qsf_block_bytes(QSF_T_TQ2_0, 256));
    CHECK_EQ(qsf_form_of_type(QSF_T_Q2_0), QSF_F_TERNARY);
    CHECK_EQ(qsf_tile_bytes(QSF_F_TERNARY, 64), 16 * qsf_block_bytes(QSF_T_Q2_0, 64));
}

TEST(unknown_set_is_refused_by_name)
{
    qsf_kernels k;
    CHECK_EQ(qsf_kernels_init(&k, 0, "mmx", NULL), QSF_E_UNSUPPORTED);
    CHECK_EQ(qsf_kernels_init(&k, 0, "scalar", NULL), QSF_OK);
    CHECK_EQ(qsf_kernels_init(&k, 0, NULL, NULL), QSF_OK);
    CHECK_STR(k.isa, "scalar");
#if defined(__x86_64__)
    CHECK_EQ(qsf_kernels_init(&k, 0, "avx2", NULL), QSF_E_UNSUPPORTED);
#endif
}

TEST(best_set_is_the_expected)
{
    qsf_kernels k;
    const char *best = getenv("QSF_TEST_BEST");
    CHECK_EQ(qsf_kernels_init(&k, host_cpu(), NULL, NULL), QSF_OK);
    printf("    the best set here: %s\n", k.isa);
    if (best) CHECK_STR(k.isa, best);
}

/* Whether QSF_TEST_SETS has this word, or is not set. */
static bool set_wanted(const char *name)
{
    const char *words = getenv("QSF_TEST_SETS");
    const size_t len = strlen(name);
    for (const char *at = words; at && (at = strstr(at, name)); at++)
        if ((at == words || at[-1] == ' ') && (!at[len] || at[len] == ' ')) return true;
    return !words;
}

int main(int argc, char **argv)
{
    const bool timing = argc > 1 && !strcmp(argv[1], "--time");
    test_begin(argc - timing, argv + timing);
    if (getenv("QSF_TEST_SEED")) test_seed = strtoull(getenv("QSF_TEST_SEED"), NULL, 0) | 1;
    printf("seed 0x%llx\n", (unsigned long long)test_seed);

    static const char *const sets[] = { "scalar", "sse42", "avx2", "avxvnni", "avx512", "avx512vbmi",
                                        "avx512bf16", "amx", "neon", "dotprod", "i8mm", "wasm",
                                        "wasm-relaxed", "wasm-dot" };
    qsf_kernels scalar, below, k;
    qsf_kernels_scalar(&scalar);
    below = scalar;
    if (!timing) {
        RUN(known_values);
        RUN(attention_in_steps_equals_softmax);
        RUN(tile_bytes_and_forms);
        RUN(unknown_set_is_refused_by_name);
        RUN(best_set_is_the_expected);
        RUN(turned_tiles_hold_the_codes_where_they_say);
        lut_cpu = host_cpu();
        RUN(look_ups_have_the_bits_of_products);
        if (set_wanted("scalar")) RUN(every_form_of_broken_kernel_is_caught);
    }
    for (size_t i = 0; i < QSF_ARRAY_LEN(sets); i++) {
        if (qsf_kernels_init(&k, host_cpu(), sets[i], NULL)) continue;
        if (timing) time_set(&k, test_filter);
        else if (!set_wanted(sets[i])) {}
        else if (i == 0) run_set(&scalar, &k, &k);
        else run_set(&scalar, &below, &k);
#if defined(QSF_AMX)
        if (!timing && !strcmp(k.isa, "amx")) run_amx_bits(&below, &k);
#endif
        below = k;
    }
#if defined(__x86_64__)
    if ((host_cpu() & QSF_CPU_AVX512) && !qsf_kernels_init(&below, host_cpu(), "avx2", NULL)) {
        k = below;
        k.isa = "avxvnni-by-evex";
        avxvnni_by_evex(&k);
        if (timing) time_set(&k, test_filter);
        else run_set(&scalar, &below, &k);
    }
#endif
#if defined(QSF_AMX)
    if (!timing && !qsf_kernels_init(&below, host_cpu(), "avx512vbmi", NULL)) {
        k = below;
        k.isa = "amx-by-model";
        amx_by_model(&k);
        run_amx_bits(&below, &k);
        RUN(amx_with_a_wrong_product_is_not_used);
    }
#endif
    return timing ? 0 : test_end();
}
