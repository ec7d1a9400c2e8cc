/* Tiles times activations with relaxed SIMD's dot product of four bytes, where an engine makes one
 * instruction of it: ARM with dotprod, x86 with AVX-VNNI.
 * SPDX-License-Identifier: MIT
 *
 * It takes bytes and 7-bit codes, a combination for which every lowering is the same integer sum;
 * int8 codes go in as their low 7 bits and their sign bits. */
#include "super_v128.h"

#if defined(__wasm_relaxed_simd__)
#define SET wasm_dot
#define SET_WIDTH 2
#define SET_QUAD v128_t
#define SET_SUM sum_of_wasm_dot

typedef struct sum_of_wasm_dot { v128_t s32, signs; } sum_of_wasm_dot;

QSF_TEMPLATE v128_t quad_wasm_dot(const int8_t *q) { return wasm_v128_load32_splat(q); }
QSF_TEMPLATE void expand_wasm_dot(v128_t out[2], v128_t code, int bits)
{
    out[0] = bits == 8 ? wasm_v128_and(code, wasm_i8x16_splat(127)) : code;
    if (bits == 8) out[1] = wasm_v128_and(wasm_u16x8_shr(code, 7), wasm_i8x16_splat(1));
}
QSF_TEMPLATE sum_of_wasm_dot zero_wasm_dot(void)
{
    return (sum_of_wasm_dot){ wasm_i32x4_splat(0), wasm_i32x4_splat(0) };
}
QSF_TEMPLATE void add_wasm_dot(sum_of_wasm_dot *s, const v128_t c[2], v128_t q, int j, int n,
                               bool fresh, int bits)
{
    (void)j, (void)n, (void)fresh;
    s->s32 = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q, c[0], s->s32);
    if (bits == 8) s->signs = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(q, c[1], s->signs);
}
QSF_TEMPLATE v128_t end_wasm_dot(const sum_of_wasm_dot *s, int bits)
{
    return bits == 8 ? wasm_i32x4_sub(s->s32, wasm_i32x4_shl(s->signs, 7)) : s->s32;
}
#include "matmul_wasm.h"
#endif
