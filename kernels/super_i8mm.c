/* GGUF's super-blocks times several rows of activations with NEON's 8-bit matrices; for one row the
 * dot product's stay.
 * SPDX-License-Identifier: MIT */
#include "neon_tile.h"
#include "iq_v128.h"

#if defined(QSF_NEON_TILE)
QSF_TARGET_BEGIN(QSF_TARGET_I8MM)

/* Two rows of activations at a time; sums are { row 0 first, row 0 second, row 1 first, row 1
 * second } and the same of rows 2 and 3. */
QSF_TEMPLATE void sums_i8mm(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx, size_t n,
                            const v4i *scale, qsf_form form, bool add)
{
    const int eights = qsf_form_sub(form) / 8;
    int8x16_t codes[2][4];              /* [rows 0 and 1, 2 and 3], 8 columns each */
    QSF_UNROLL
    for (int i = 0; i < super_sums_cols(form) / 8; i++) {
        const int32x4_t even = vreinterpretq_s32_s8(c[2 * i]), odd = vreinterpretq_s32_s8(c[2 * i + 1]);
        codes[0][i] = vreinterpretq_s8_s32(vzip1q_s32(even, odd));
        codes[1][i] = vreinterpretq_s8_s32(vzip2q_s32(even, odd));
    }
    for (size_t t = 0; t < n; t += 2, q += 2 * ldx, h += ldx / 4) {
        const size_t next = t + 1 < n ? ldx : 0;        /* the last of an odd number is paired with itself */
        int32x4_t s[2] = { vdupq_n_s32(0), vdupq_n_s32(0) };
        if (add) {
            s[0] = (int32x4_t)sum[t];
            if (next) s[1] = (int32x4_t)sum[t + 1];
        }
        QSF_UNROLL
        for (int i = 0; i < super_sums_cols(form) / 8; i += eights) {
            int32x4_t low = vdupq_n_s32(0), high;
            if (qsf_form_offset(form)) {
                const int16_t *g = h + next / 8;
                const int32x2_t off = vset_lane_s32(h[i] + h[i + 1], vdup_n_s32(g[i] + g[i + 1]), 0);
                low = vmulq_n_s32(vcombine_s32(off, off), -qsf_form_offset(form));
            }
            high = low;
            QSF_UNROLL
            for (int j = i; j < i + eights; j++) {
                const int8x16_t a = vcombine_s8(vld1_s8(q + 8 * j), vld1_s8(q + next + 8 * j));
                low = smmla_neon(low, codes[0][j], a);
                high = smmla_neon(high, codes[1][j], a);
            }
            s[0] = vmlaq_s32(s[0], vuzp1q_s32(low, high), (int32x4_t)scale[i / eights]);
            s[1] = vmlaq_s32(s[1], vuzp2q_s32(low, high), (int32x4_t)scale[i / eights]);
        }
        sum[t] = (v4i)s[0];
        if (next) sum[t + 1] = (v4i)s[1];
    }
}

#define FORM_I8MM(F)                                                                                      \
    static void matmul_##F##_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                  size_t blocks,                                                          \
                                  uint32_t block)                                                         \
    { (void)block; super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, sums_i8mm); }
QSF_EACH_SUPER_FORM(FORM_I8MM)
#undef FORM_I8MM
static void matmul_NV4_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                            size_t blocks, uint32_t block)
{ (void)block; nv4_any_v128(y, ldy, w, x, tiles, blocks, sums_i8mm); }

#define QSF_IQ_FORM_i8mm(F) QSF_IQ_MATMUL(F, i8mm)
QSF_IQ_SET(i8mm, sums_i8mm)
#undef QSF_IQ_FORM_i8mm

void qsf_super_i8mm(qsf_kernels *k)
{
#define FORM_I8MM(F) k->matmul[QSF_F_##F] = matmul_##F##_i8mm;
    QSF_EACH_SUPER_FORM(FORM_I8MM)
#undef FORM_I8MM
    k->matmul[QSF_F_NV4] = matmul_NV4_i8mm;
#define FORM_IQ(F) k->matmul[QSF_F_##F] = matmul_##F##_i8mm;
    QSF_EACH_IQ_FORM(FORM_IQ)
#undef FORM_IQ
}

QSF_TARGET_END
#endif
