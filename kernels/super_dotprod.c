/* GGUF's super-blocks times activations with NEON's dot product.
 * SPDX-License-Identifier: MIT */
#include "neon_tile.h"
#include "iq_v128.h"

#if defined(QSF_NEON_TILE)
QSF_TARGET_BEGIN(QSF_TARGET_DOTPROD)

QSF_TEMPLATE void sums_dotprod(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx,
                               size_t n, const v4i *scale, qsf_form form, bool add)
{
    const int quads = qsf_form_sub(form) / 4;
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        const int8x16_t a[2] = { vld1q_s8(q), vld1q_s8(q + super_sums_cols(form) - 16) };
        int32x4_t s = vdupq_n_s32(0);
        if (add) s = (int32x4_t)sum[t];
        QSF_UNROLL
        for (int i = 0; i < super_sums_cols(form) / 4; i += quads) {
            int32x4_t part = vdupq_n_s32(qsf_form_offset(form)
                                         ? -qsf_form_offset(form) * (h[i / 2] + h[i / 2 + 1]) : 0);
            QSF_UNROLL
            for (int j = i; j < i + quads; j++) part = sdot_neon(part, c[j], a[j / 4], j % 4);
            s = vmlaq_s32(s, part, (int32x4_t)scale[i / quads]);
        }
        sum[t] = (v4i)s;
    }
}

#define FORM_DOTPROD(F)                                                                                      \
    static void matvec_##F##_dotprod(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                     size_t blocks, uint32_t block)                                          \
    { (void)block; super_one_v128(QSF_F_##F, y, w, x, tiles, blocks, sums_dotprod); }                        \
    static void matmul_##F##_dotprod(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                     size_t blocks,                                                          \
                                     uint32_t block)                                                         \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_dotprod(y, w, x, tiles, blocks, block);                                  \
        else super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, sums_dotprod);                           \
    }
QSF_EACH_SUPER_FORM(FORM_DOTPROD)
#undef FORM_DOTPROD
QSF_NV4_V128(dotprod)

#define QSF_IQ_FORM_dotprod(F) QSF_IQ_FORM(F, dotprod)
QSF_IQ_SET(dotprod, sums_dotprod)
#undef QSF_IQ_FORM_dotprod

void qsf_super_dotprod(qsf_kernels *k)
{
#define FORM_DOTPROD(F)                                  \
    k->matvec[QSF_F_##F] = matvec_##F##_dotprod;         \
    k->matmul[QSF_F_##F] = matmul_##F##_dotprod;
    QSF_EACH_SUPER_FORM(FORM_DOTPROD)
#undef FORM_DOTPROD
    k->matvec[QSF_F_NV4] = matvec_NV4_dotprod;
    k->matmul[QSF_F_NV4] = matmul_NV4_dotprod;
#define FORM_IQ(F) k->matvec[QSF_F_##F] = matvec_##F##_dotprod; k->matmul[QSF_F_##F] = matmul_##F##_dotprod;
    QSF_EACH_IQ_FORM(FORM_IQ)
#undef FORM_IQ
}

QSF_TARGET_END
#endif
