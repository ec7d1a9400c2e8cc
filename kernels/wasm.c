/* The WebAssembly sets: simd128, or in modules that are compiled so relaxed SIMD in two ways.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(__wasm_simd128__)
void qsf_kernels_wasm(qsf_kernels *k, uint32_t cpu)
{
#if defined(__wasm_relaxed_simd__)
    k->isa = cpu & QSF_CPU_WASM_DOT ? "wasm-dot" : "wasm-relaxed";
    if (cpu & QSF_CPU_WASM_DOT) qsf_matmul_wasm_dot(k);
    else qsf_matmul_wasm_pairs(k);
#else
    (void)cpu;
    k->isa = "wasm";
    qsf_matmul_wasm(k);
#endif
    qsf_float_v128(k);
    qsf_attention_v128(k);
    qsf_vector_v128(k);
    qsf_sampling_v128(k);
    qsf_convert_v128(k);
}

#if defined(__wasm_relaxed_simd__)
/* Of operands that the compiler cannot know. */
static v128_t relaxed_four(const volatile int8_t *q, const volatile int8_t *c)
{
    int8_t a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = q[i], b[i] = c[i];
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_v128_load(a), wasm_v128_load(b), wasm_i32x4_const(65535, -1, 0, 1 << 20));
}
static v128_t relaxed_two(const volatile int8_t *q, const volatile int8_t *c)
{
    int8_t a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = q[i], b[i] = c[i];
    return wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load(a), wasm_v128_load(b));
}

/* Both dot products on the largest sums of either sign, and on some others. */
static bool relaxed_works(void)
{
    static const volatile int8_t q[16] = { 127, 127, 127, 127, -127, -127, -127, -127, 127, -127, 127, -127, 1, -1, 77, -5 };
    static const volatile int8_t c[16] = { 127, 127, 127, 127, 127, 127, 127, 127, 127, 126, 0, 1, 3, 63, 127, 64 };
    static const int32_t add[4] = { 65535, -1, 0, 1 << 20 };
    int32_t four[4];
    int16_t two[8];
    wasm_v128_store(four, relaxed_four(q, c));
    wasm_v128_store(two, relaxed_two(q, c));
    for (int i = 0; i < 8; i++)
        if (two[i] != q[2 * i] * c[2 * i] + q[2 * i + 1] * c[2 * i + 1]) return false;
    for (int i = 0; i < 4; i++) {
        int32_t want = add[i];
        for (int b = 4 * i; b < 4 * i + 4; b++) want += q[b] * c[b];
        if (four[i] != want) return false;
    }
    return true;
}

/* 255 is no 7-bit code.  Where 127 * 255 * 2 stops at 32767, four instructions of old x86 do the work of one. */
static bool relaxed_four_is_slow(void)
{
    static const volatile int8_t q[16] = { 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127 };
    static const volatile int8_t c[16] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    return wasm_i32x4_extract_lane(relaxed_four(q, c), 2) == 2 * 32767;
}
#endif

uint32_t qsf_cpu_wasm(void)
{
    uint32_t cpu = QSF_CPU_WASM;
#if defined(__wasm_relaxed_simd__)
    if (!relaxed_works()) return cpu;
    cpu |= QSF_CPU_WASM_RELAXED;
    if (!relaxed_four_is_slow()) cpu |= QSF_CPU_WASM_DOT;
#endif
    return cpu;
}
#endif
