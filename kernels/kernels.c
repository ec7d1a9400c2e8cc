/* Filling the kernel table: the only place that knows the order of the instruction sets.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

static void fill_scalar(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_scalar(k); }
#if defined(__x86_64__)
static void fill_sse42(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_sse42(k); }
static void fill_avx2(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_avx2(k); }
static void fill_avxvnni(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_avxvnni(k); }
static void fill_avx512(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_avx512(k); }
static void fill_avx512vbmi(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_avx512vbmi(k); }
static void fill_avx512bf16(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_avx512bf16(k); }
#  if defined(QSF_AMX)
static void fill_amx(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_amx(k); }
#  endif
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
static void fill_neon(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_neon(k, QSF_CPU_NEON); }
static void fill_dotprod(qsf_kernels *k, uint32_t cpu)
{
    (void)cpu;
    qsf_kernels_neon(k, QSF_CPU_NEON | QSF_CPU_DOTPROD);
}
static void fill_i8mm(qsf_kernels *k, uint32_t cpu)
{
    (void)cpu;
    qsf_kernels_neon(k, QSF_CPU_NEON | QSF_CPU_DOTPROD | QSF_CPU_I8MM);
}
#elif defined(__wasm_relaxed_simd__)
static void fill_wasm_relaxed(qsf_kernels *k, uint32_t cpu)
{
    (void)cpu;
    qsf_kernels_wasm(k, QSF_CPU_WASM_RELAXED);
}
static void fill_wasm_dot(qsf_kernels *k, uint32_t cpu)
{
    (void)cpu;
    qsf_kernels_wasm(k, QSF_CPU_WASM_RELAXED | QSF_CPU_WASM_DOT);
}
#elif defined(__wasm_simd128__)
static void fill_wasm(qsf_kernels *k, uint32_t cpu) { (void)cpu; qsf_kernels_wasm(k, QSF_CPU_WASM); }
#endif

/* Best last; each set fills what it does better than those before it. */
static const struct kernel_set {
    const char *isa;
    uint32_t    needs;
    void      (*fill)(qsf_kernels *k, uint32_t cpu);
    bool      (*agrees)(const qsf_kernels *below);      /* NULL: no need to ask */
} kernel_sets[] = {
    { "scalar", 0,              fill_scalar, NULL },
#if defined(__x86_64__)
    { "sse42",  QSF_CPU_SSE42,  fill_sse42, NULL },
    { "avx2",   QSF_CPU_AVX2,   fill_avx2, NULL },
    { "avxvnni", QSF_CPU_AVX2 | QSF_CPU_AVXVNNI, fill_avxvnni, NULL },
    { "avx512", QSF_CPU_AVX2 | QSF_CPU_AVX512, fill_avx512, NULL },
    { "avx512vbmi", QSF_CPU_AVX2 | QSF_CPU_AVX512 | QSF_CPU_AVX512_VBMI, fill_avx512vbmi, NULL },
    { "avx512bf16", QSF_CPU_AVX2 | QSF_CPU_AVX512 | QSF_CPU_AVX512_BF16, fill_avx512bf16, NULL },
#  if defined(QSF_AMX)
    { "amx", QSF_CPU_AVX2 | QSF_CPU_AVX512 | QSF_CPU_AVX512_VBMI | QSF_CPU_AMX, fill_amx, qsf_amx_agrees },
#  endif
#elif defined(__aarch64__) && !defined(__AARCH64EB__)
    { "neon",   QSF_CPU_NEON,   fill_neon, NULL },
    { "dotprod", QSF_CPU_NEON | QSF_CPU_DOTPROD, fill_dotprod, NULL },
    { "i8mm",   QSF_CPU_NEON | QSF_CPU_DOTPROD | QSF_CPU_I8MM, fill_i8mm, NULL },
/* a module with relaxed instructions does not need the plain set: the loader picks the module */
#elif defined(__wasm_relaxed_simd__)
    { "wasm-relaxed", QSF_CPU_WASM | QSF_CPU_WASM_RELAXED, fill_wasm_relaxed, NULL },
    { "wasm-dot", QSF_CPU_WASM | QSF_CPU_WASM_RELAXED | QSF_CPU_WASM_DOT, fill_wasm_dot, NULL },
#elif defined(__wasm_simd128__)
    { "wasm",   QSF_CPU_WASM,   fill_wasm, NULL },
#endif
};

qsf_status qsf_kernels_init(qsf_kernels *k, uint32_t cpu, const char *isa, qsf_error *err)
{
    const bool best = !isa || !*isa;
    for (size_t i = 0; i < QSF_ARRAY_LEN(kernel_sets); i++) {
        const struct kernel_set *s = &kernel_sets[i];
        const bool has = (cpu & s->needs) == s->needs, here = has && (!s->agrees || s->agrees(k));
        if (here) s->fill(k, cpu);
        if (best || strcmp(isa, s->isa) != 0) continue;
        return here ? QSF_OK : qsf_fail(err, QSF_E_UNSUPPORTED, "instruction set %s: %s", isa,
                                        has ? "its products are wrong on this machine"
                                        : "this processor does not have it");
    }
    return best ? QSF_OK : qsf_fail(err, QSF_E_UNSUPPORTED,
        "instruction set %s: not in this build; scalar, sse42, avx2, avxvnni, avx512, avx512vbmi, "
        "avx512bf16, amx, neon, dotprod, i8mm, wasm, wasm-relaxed and wasm-dot are names that exist", isa);
}

/* The first set with this entry; the sets after it left it unchanged. */
const char *qsf_kernels_set(const qsf_kernels *k, size_t at)
{
    qsf_kernels made;
    const size_t each = sizeof k->matvec[0];
    for (size_t i = 0; i < QSF_ARRAY_LEN(kernel_sets); i++) {
        kernel_sets[i].fill(&made, UINT32_MAX);
        if (!memcmp((const char *)&made + at, (const char *)k + at, each)) return kernel_sets[i].isa;
        if (!strcmp(kernel_sets[i].isa, k->isa)) break;
    }
    return k->isa;
}
