/* Tiles times activations with simd128 alone: bytes widen to 16 bits, those at even places and
 * those at odd ones apart.
 * SPDX-License-Identifier: MIT */
#include "five_v128.h"
#include "iq_v128.h"
#include "super_v128.h"
#include "trellis_v128.h"

#if defined(__wasm_simd128__) && !defined(__wasm_relaxed_simd__)
#include "super_wasm.h"

#define SET wasm
#define SET_WIDTH 2
#define SET_QUAD quad_of_wasm
#define SET_SUM sum_of_wasm

typedef struct quad_of_wasm { v128_t even, odd; } quad_of_wasm;
typedef struct sum_of_wasm { v128_t s32; } sum_of_wasm;

QSF_TEMPLATE quad_of_wasm quad_wasm(const int8_t *q)
{
    const v128_t a = wasm_v128_load32_splat(q);
    return (quad_of_wasm){ v16_wide_even(a), v16_wide_odd(a) };
}
/* Widened together: a widening takes as many instructions as the product. */
QSF_TEMPLATE void quads_wasm(quad_of_wasm out[4], const int8_t *q)
{
    const v128_t a = v16_load(q), even = v16_wide_even(a), odd = v16_wide_odd(a);
#define QUAD_WASM(i)                                                  \
    out[i] = (quad_of_wasm){ wasm_i32x4_shuffle(even, even, i, i, i, i), \
                             wasm_i32x4_shuffle(odd, odd, i, i, i, i) }
    QUAD_WASM(0);
    QUAD_WASM(1);
    QUAD_WASM(2);
    QUAD_WASM(3);
#undef QUAD_WASM
}
QSF_TEMPLATE void expand_wasm(v128_t out[2], v128_t code, int bits)
{
    out[0] = bits == 8 ? v16_wide_even(code) : wasm_v128_and(code, wasm_i16x8_splat(0xff));
    out[1] = bits == 8 ? v16_wide_odd(code) : wasm_u16x8_shr(code, 8);
}
QSF_TEMPLATE sum_of_wasm zero_wasm(void) { return (sum_of_wasm){ wasm_i32x4_splat(0) }; }
QSF_TEMPLATE void add_wasm(sum_of_wasm *s, const v128_t c[2], quad_of_wasm q, int j, int n,
                           bool fresh, int bits)
{
    (void)n, (void)bits;
    const v128_t four = wasm_i32x4_add(wasm_i32x4_dot_i16x8(c[0], q.even), wasm_i32x4_dot_i16x8(c[1], q.odd));
    s->s32 = fresh && j == 0 ? four : wasm_i32x4_add(s->s32, four);
}
QSF_TEMPLATE v128_t end_wasm(const sum_of_wasm *s, int bits)
{
    (void)bits;
    return s->s32;
}
QSF_TEMPLATE void settle_wasm(sum_of_wasm *s) { __asm__("" : "+r"(s->s32)); }
/* a quad's codes have 16 bits whatever they had before */
QSF_TEMPLATE int alike_wasm(int bits) { (void)bits; return 4; }
#define SET_TRELLIS_QUADS trellis_quads_wasm
#define SET_PANEL true
QSF_TEMPLATE void trellis_quads_wasm(trellis_columns_v128 *to, const int8_t *q)
{
    for (int i = 0; i < 32; i += 16) {
        v16_store(to->quad + i / 4, v16_wide_even(v16_load(q + i)));
        v16_store(to->quad + 8 + i / 4, v16_wide_odd(v16_load(q + i)));
    }
}
QSF_TEMPLATE v4i trellis_add_wasm(v4i sum, v16b level, const trellis_columns_v128 *x, int j)
{
    sum += (v4i)wasm_i32x4_dot_i16x8(v16_wide_even(level), v16_quad(&x->quad[j]));
    return sum + (v4i)wasm_i32x4_dot_i16x8(v16_wide_odd(level), v16_quad(&x->quad[8 + j]));
}
#include "matmul_wasm.h"

void qsf_matmul_wasm(qsf_kernels *k)
{
#define FORM_WASM(F) k->matvec[QSF_F_##F] = matvec_##F##_wasm, k->matmul[QSF_F_##F] = matmul_##F##_wasm;
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
