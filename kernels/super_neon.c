/* GGUF's super-blocks times activations with plain NEON.
 * SPDX-License-Identifier: MIT */
#include "neon_tile.h"
#include "iq_v128.h"

#if defined(QSF_NEON_TILE)

/* Codes of `quads` vectors times q, without the offset. */
QSF_TEMPLATE int32x4_t sub_neon(const v16b *c, int quads, const int8_t *q, qsf_form form)
{
    const int full = QSF_MIN(quads, sums16_neon(form));
    int32x4_t low = vdupq_n_s32(0), high = low;        /* rows 0 and 1, 2 and 3: two lanes each */
    QSF_UNROLL
    for (int i = 0; i < quads; i += full) {
        const int8x16_t first = v16_quad(q + 4 * i);
        int16x8_t low16 = vmull_s8(vget_low_s8(c[i]), vget_low_s8(first)),
            high16 = vmull_high_s8(c[i], first);
        QSF_UNROLL
        for (int j = i + 1; j < i + full; j++) {
            const int8x16_t a = v16_quad(q + 4 * j);
            low16 = vmlal_s8(low16, vget_low_s8(c[j]), vget_low_s8(a));
            high16 = vmlal_high_s8(high16, c[j], a);
        }
        low = i ? vpadalq_s16(low, low16) : vpaddlq_s16(low16);
        high = i ? vpadalq_s16(high, high16) : vpaddlq_s16(high16);
    }
    return vpaddq_s32(low, high);
}

QSF_TEMPLATE void sums_neon(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx, size_t n,
                            const v4i *scale, qsf_form form, bool add)
{
    const int cols = qsf_form_sub(form);
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        int32x4_t s = vdupq_n_s32(0);
        if (add) s = (int32x4_t)sum[t];
        QSF_UNROLL
        for (int i = 0; i < super_sums_cols(form) / cols; i++) {
            int32x4_t part = sub_neon(c + 4 * i, cols / 4, q + 16 * i, form);
            if (qsf_form_offset(form))
                part = vsubq_s32(part, vdupq_n_s32(qsf_form_offset(form) * (h[2 * i] + h[2 * i + 1])));
            s = vmlaq_s32(s, part, (int32x4_t)scale[i]);
        }
        sum[t] = (v4i)s;
    }
}

#define FORM_NEON(F)                                                                                         \
    static void matvec_##F##_neon(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    { (void)block; super_one_v128(QSF_F_##F, y, w, x, tiles, blocks, sums_neon); }                           \
    static void matmul_##F##_neon(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks,                                                             \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_neon(y, w, x, tiles, blocks, block);                                     \
        else super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, sums_neon);                              \
    }
QSF_EACH_SUPER_FORM(FORM_NEON)
#undef FORM_NEON
QSF_NV4_V128(neon)

#define QSF_IQ_FORM_neon(F) QSF_IQ_FORM(F, neon)
QSF_IQ_SET(neon, sums_neon)
#undef QSF_IQ_FORM_neon

void qsf_super_neon(qsf_kernels *k)
{
#define FORM_NEON(F) k->matvec[QSF_F_##F] = matvec_##F##_neon; k->matmul[QSF_F_##F] = matmul_##F##_neon;
    QSF_EACH_SUPER_FORM(FORM_NEON)
#undef FORM_NEON
    k->matvec[QSF_F_NV4] = matvec_NV4_neon;
    k->matmul[QSF_F_NV4] = matmul_NV4_neon;
#define FORM_IQ(F) k->matvec[QSF_F_##F] = matvec_##F##_neon; k->matmul[QSF_F_##F] = matmul_##F##_neon;
    QSF_EACH_IQ_FORM(FORM_IQ)
#undef FORM_IQ
}
#endif
