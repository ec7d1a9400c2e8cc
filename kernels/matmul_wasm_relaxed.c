/* Tiles times activations with relaxed SIMD, in two ways.
 * SPDX-License-Identifier: MIT
 *
 * Both take bytes and 7-bit codes, a combination for which every lowering of the product is the
 * same integer sum; int8 codes go in as their low 7 bits and their sign bits. */
#include "five_v128.h"
#include "iq_v128.h"
#include "super_v128.h"
#include "trellis_v128.h"

#if defined(__wasm_relaxed_simd__)
#include "super_wasm.h"

/* ---- the product of two bytes, which is one instruction on every x86 ---- */

/* Sums stay in 16 bits for as long as they fit.  This set is also the fallback if the product of
 * four bytes is wrong, so it must not contain that: compilers combine a product of two bytes, a
 * widening and an addition into it. */
#define SET wasm_pairs
#define SET_WIDTH 2
#define SET_QUAD v128_t
#define SET_SUM sum_of_wasm_pairs

typedef struct sum_of_wasm_pairs { v128_t s16, s32, signs, one; } sum_of_wasm_pairs;

/* How many pairs of products an int16 lane can add up: 2 * (2^bits - 1) * 127 each, 2 * 127 * 127
 * for the low bits of 8. */
QSF_TEMPLATE int sums16_wasm_pairs(int bits)
{
    return bits < 4 ? 16 : bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}

/* For engines that make the ones of a widening anew each time. */
QSF_TEMPLATE v128_t one_wasm_pairs(void)
{
    v128_t one = wasm_i16x8_splat(1);
    __asm__("" : "+r"(one));
    return one;
}
QSF_TEMPLATE v128_t quad_wasm_pairs(const int8_t *q) { return wasm_v128_load32_splat(q); }
QSF_TEMPLATE void quads_wasm_pairs(v128_t out[4], const int8_t *q)
{
    for (int i = 0; i < 4; i++) out[i] = v16_quad(q + 4 * i);
}
QSF_TEMPLATE void expand_wasm_pairs(v128_t out[2], v128_t code, int bits)
{
    out[0] = bits == 8 ? wasm_v128_and(code, wasm_i8x16_splat(127)) : code;
    if (bits == 8) out[1] = wasm_v128_and(wasm_u16x8_shr(code, 7), wasm_i8x16_splat(1));
}
QSF_TEMPLATE sum_of_wasm_pairs zero_wasm_pairs(void)
{
    const v128_t zero = wasm_i32x4_splat(0);
    return (sum_of_wasm_pairs){ zero, zero, zero, one_wasm_pairs() };
}
QSF_TEMPLATE void add_wasm_pairs(sum_of_wasm_pairs *s, const v128_t c[2], v128_t q, int j, int n,
                                 bool fresh, int bits)
{
    const int full = QSF_MIN(sums16_wasm_pairs(bits), n);
    v128_t two = wasm_i16x8_relaxed_dot_i8x16_i7x16(q, c[0]);
    if (full == 1) __asm__("" : "+r"(two));     /* keeps the three apart */
    s->s16 = j % full == 0 ? two : wasm_i16x8_add(s->s16, two);
    if (j % full == full - 1) {
        const v128_t wide = wasm_i32x4_dot_i16x8(s->s16, s->one);
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
QSF_TEMPLATE void settle_wasm_pairs(sum_of_wasm_pairs *s) { __asm__("" : "+r"(s->s16)); }
/* 8 products of 4 bits or fewer fit into 16 bits. */
QSF_TEMPLATE int alike_wasm_pairs(int bits) { return QSF_MAX(bits, 4); }
#define SET_TRELLIS_QUADS NULL
#define SET_PANEL true
QSF_TEMPLATE v4i trellis_add_wasm_pairs(v4i sum, v16b level, const trellis_columns_v128 *x, int j)
{
    v128_t two = wasm_i16x8_relaxed_dot_i8x16_i7x16(level, v16_quad(&x->quad[j]));
    __asm__("" : "+r"(two));    /* as above */
    return sum + (v4i)wasm_i32x4_dot_i16x8(two, one_wasm_pairs());
}
#include "matmul_wasm.h"

/* ---- the product of four bytes, if an engine compiles it to one instruction: ARM with dotprod,
 * x86 with AVX-VNNI ---- */
#define SET wasm_dot
#define SET_WIDTH 2
#define SET_QUAD v128_t
#define SET_SUM sum_of_wasm_dot

typedef struct sum_of_wasm_dot { v128_t s32, signs; } sum_of_wasm_dot;

QSF_TEMPLATE v128_t quad_wasm_dot(const int8_t *q) { return wasm_v128_load32_splat(q); }
QSF_TEMPLATE void quads_wasm_dot(v128_t out[4], const int8_t *q)
{
    for (int i = 0; i < 4; i++) out[i] = v16_quad(q + 4 * i);
}
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
QSF_TEMPLATE void settle_wasm_dot(sum_of_wasm_dot *s) { (void)s; }
QSF_TEMPLATE int alike_wasm_dot(int bits) { return bits == 8 ? 8 : 4; }
#define SET_TRELLIS_QUADS NULL
#define SET_PANEL false
QSF_TEMPLATE v4i trellis_add_wasm_dot(v4i sum, v16b level, const trellis_columns_v128 *x, int j)
{
    return (v4i)wasm_i32x4_relaxed_dot_i8x16_i7x16_add(level, v16_quad(&x->quad[j]), (v128_t)sum);
}
#include "matmul_wasm.h"

/* Functions are placed in the module in the order in which they are named here.  The two of a form
 * are nearly the same, and next to each other they compress to half. */
void qsf_matmul_wasm_relaxed(qsf_kernels *k, bool dot)
{
#define FORM_WASM(F) k->matvec[QSF_F_##F] = dot ? matvec_##F##_wasm_dot : matvec_##F##_wasm_pairs;
    QSF_EACH_FORM(FORM_WASM)
    QSF_EACH_GGML_FORM(FORM_WASM)
    QSF_EACH_SUPER_FORM(FORM_WASM)
    FORM_WASM(TQ1) FORM_WASM(NV4)
    FORM_WASM(T5)
    FORM_WASM(TR2) FORM_WASM(TR3) FORM_WASM(TR4) FORM_WASM(TR5)
    QSF_EACH_IQ_FORM(FORM_WASM)
#undef FORM_WASM
#define FORM_WASM(F) k->matmul[QSF_F_##F] = dot ? matmul_##F##_wasm_dot : matmul_##F##_wasm_pairs;
    QSF_EACH_FORM(FORM_WASM)
    QSF_EACH_GGML_FORM(FORM_WASM)
    QSF_EACH_SUPER_FORM(FORM_WASM)
    FORM_WASM(TQ1) FORM_WASM(NV4)
    FORM_WASM(T5)
    FORM_WASM(TR2) FORM_WASM(TR3) FORM_WASM(TR4) FORM_WASM(TR5)
    QSF_EACH_IQ_FORM(FORM_WASM)
#undef FORM_WASM
}
#endif
