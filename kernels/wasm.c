/* The WebAssembly set: simd128, in modules that are compiled so with relaxed SIMD's dot product.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(__wasm_simd128__)
void qsf_kernels_wasm(qsf_kernels *k)
{
    k->isa = "wasm";
    qsf_matmul_wasm(k);
    qsf_float_v128(k);
    qsf_attention_v128(k);
    qsf_vector_v128(k);
    qsf_sampling_v128(k);
    qsf_convert_v128(k);
}

bool qsf_relaxed_dot_works(void)
{
#if defined(__wasm_relaxed_simd__)
    /* Sums that saturate in 16 bits (2 * 128 * 127 does not, 2 * 255 * 127 would), both signs, and a carry out of the accumulator's low half.
     * volatile, so that nothing of it is computed by the compiler. */
    static const int8_t q[16] = { 127, 127, 127, 127, -128, -128, -128, -128, 127, -128, 127, -128, 1, -1, 77, -5 };
    static const int8_t c[16] = { 127, 127, 127, 127, 127, 127, 127, 127, 127, 126, 0, 1, 3, 63, 127, 64 };
    static const int32_t add[4] = { 65535, -1, 0, 1 << 20 };
    for (volatile int round = 0; round < 64; round++) {
        volatile int32_t out[4];
        int32_t got[4];
        v128_t acc = wasm_v128_load(add);
        acc = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_v128_load(q), wasm_v128_load(c), acc);
        wasm_v128_store(got, acc);
        for (int i = 0; i < 4; i++) out[i] = got[i];
        for (int i = 0; i < 4; i++) {
            int32_t want = add[i];
            for (int b = 0; b < 4; b++) want += q[4 * i + b] * c[4 * i + b];
            if (out[i] != want) return false;
        }
    }
#endif
    return true;
}
#endif
