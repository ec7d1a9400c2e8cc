/* Tiles times activations with relaxed SIMD's dot product of two bytes, which is one instruction on
 * every x86: sums stay in 16 bits for as long as they fit.
 * SPDX-License-Identifier: MIT
 *
 * As in matmul_wasm_dot.c codes have 7 bits.  This set is also what is left where the product of
 * four bytes is wrong, so it must not contain it: compilers make one of a product of two bytes, a
 * widening and an addition. */
#include "super_v128.h"

#if defined(__wasm_relaxed_simd__)
#define SET wasm_pairs
#define SET_WIDTH 2
#define SET_QUAD v128_t
#define SET_SUM sum_of_wasm_pairs

typedef struct sum_of_wasm_pairs { v128_t s16, s32, signs; } sum_of_wasm_pairs;

/* How many pairs of products an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 127 * 127
 * for the low bits of 8. */
QSF_TEMPLATE int sums16_wasm_pairs(int bits)
{
    return bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}

QSF_TEMPLATE v128_t quad_wasm_pairs(const int8_t *q) { return wasm_v128_load32_splat(q); }
QSF_TEMPLATE void expand_wasm_pairs(v128_t out[2], v128_t code, int bits)
{
    out[0] = bits == 8 ? wasm_v128_and(code, wasm_i8x16_splat(127)) : code;
    if (bits == 8) out[1] = wasm_v128_and(wasm_u16x8_shr(code, 7), wasm_i8x16_splat(1));
}
QSF_TEMPLATE sum_of_wasm_pairs zero_wasm_pairs(void)
{
    const v128_t zero = wasm_i32x4_splat(0);
    return (sum_of_wasm_pairs){ zero, zero, zero };
}
QSF_TEMPLATE void add_wasm_pairs(sum_of_wasm_pairs *s, const v128_t c[2], v128_t q, int j, int n,
                                 bool fresh, int bits)
{
    const int full = QSF_MIN(sums16_wasm_pairs(bits), n);
    v128_t two = wasm_i16x8_relaxed_dot_i8x16_i7x16(q, c[0]);
    if (full == 1) __asm__("" : "+r"(two));     /* keeps the three apart */
    s->s16 = j % full == 0 ? two : wasm_i16x8_add(s->s16, two);
    if (j % full == full - 1) {
        const v128_t wide = wasm_i32x4_extadd_pairwise_i16x8(s->s16);
        s->s32 = fresh && j < full ? wide : wasm_i32x4_add(s->s32, wide);
    }
    if (bits == 8) {        /* sign bits: 16 sums of 2 * 127 fit */
        const v128_t sign = wasm_i16x8_relaxed_dot_i8x16_i7x16(q, c[1]);
        s->signs = fresh && j == 0 ? sign : wasm_i16x8_add(s->signs, sign);
    }
}
QSF_TEMPLATE v128_t end_wasm_pairs(const sum_of_wasm_pairs *s, int bits)
{
    if (bits == 8)
        return wasm_i32x4_sub(s->s32, wasm_i32x4_shl(wasm_i32x4_extadd_pairwise_i16x8(s->signs), 7));
    return s->s32;
}
#include "matmul_wasm.h"
#endif
