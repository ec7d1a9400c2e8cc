/* The WebAssembly sets: simd128, or in modules that are compiled so relaxed SIMD in two ways.
 * SPDX-License-Identifier: MIT */
#include "lut.h"
#include "v128.h"

#if defined(__wasm_simd128__)
void qsf_kernels_wasm(qsf_kernels *k, uint32_t cpu)
{
#if defined(__wasm_relaxed_simd__)
    k->isa = cpu & QSF_CPU_WASM_DOT ? "wasm-dot" : "wasm-relaxed";
    qsf_matmul_wasm_relaxed(k, cpu & QSF_CPU_WASM_DOT);
#else
    (void)cpu;
    k->isa = "wasm";
    qsf_matmul_wasm(k);
#endif
    qsf_lut_v128(k);
    qsf_float_v128(k);
    qsf_narrow_v128(k);
    qsf_attention_v128(k);
    qsf_vector_v128(k);
    qsf_top_k_v128(k);
    qsf_convert_v128(k);
    qsf_scan_v128(k);
    qsf_sample_v128(k);
}

#if defined(__wasm_relaxed_simd__)
/* 255 is not a 7-bit code.  If 127 * 255 * 2 saturates to 32767, four instructions of older x86 do
 * the work of one. */
static bool relaxed_four_is_slow(void)
{
    volatile int8_t q = 127, c = -1;            /* operands that the compiler cannot know */
    const v128_t none = wasm_i32x4_splat(0);
    return wasm_i32x4_extract_lane(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_i8x16_splat(q),
                                   wasm_i8x16_splat(c), none), 2) == 2 * 32767;
}
#endif

uint32_t qsf_cpu_wasm(uint64_t forms)
{
    const uint32_t cpu = QSF_CPU_WASM;
#if defined(__wasm_relaxed_simd__)
    const uint32_t pairs = cpu | QSF_CPU_WASM_RELAXED, dot = pairs | QSF_CPU_WASM_DOT;
    if (!relaxed_four_is_slow() && qsf_wasm_agrees(dot, forms)) return dot;
    if (qsf_wasm_agrees(pairs, forms)) return pairs;
#else
    (void)forms;
#endif
    return cpu;
}
#endif
