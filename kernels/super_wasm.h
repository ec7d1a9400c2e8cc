/* GGUF's rarer super-blocks in WebAssembly: one walk a form for both sets of a module and any
 * number of rows.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SUPER_WASM_H
#define QSF_SUPER_WASM_H

#include "super_v128.h"

#define FORM_V128(F)                                                                                         \
    static QSF_NOINLINE void super_rare_##F(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,        \
                                            size_t tiles, size_t blocks, super_sums_v128 *sums)              \
    { super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, sums); }
FORM_V128(Q2K) FORM_V128(Q3K) FORM_V128(IQ4XS)
#undef FORM_V128
static QSF_NOINLINE void super_rare_NV4(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,
                                        size_t tiles, size_t blocks, super_sums_v128 *sums)
{
    nv4_any_v128(y, ldy, w, x, tiles, blocks, sums);
}

#endif
