/* Tiles times activations with NEON's dot product: sdot multiplies four columns of four rows with
 * one element of the activations.
 * SPDX-License-Identifier: MIT */
#include "five_v128.h"
#include "trellis.h"
#include "neon_tile.h"

#if defined(QSF_NEON_TILE)
QSF_TARGET_BEGIN(QSF_TARGET_DOTPROD)

/* Sums of the four quarters over `groups` groups from w on; q[2 * groups]: 16 columns each.  The
 * quarters take turns, so that no sdot waits for the one before it.  2-bit fields stay where they
 * are in their bytes but the last, which would be negative: three sums come together by shifts at
 * the end, which are exact. */
QSF_TEMPLATE void dot_dotprod(int32x4_t sum[4], const uint8_t *w, const int8x16_t *q, int groups,
                              qsf_form form)
{
    const int bits = qsf_form_bits(form);
    int32x4_t second[4], third[4];
    source_v128 from[4];
    QSF_UNROLL
    for (int i = 0; i < 4; i++) {
        sum[i] = second[i] = third[i] = vdupq_n_s32(0);
        from[i].low = from[i].high = vdupq_n_s8(0);
    }
    if (bits == 2 && !qsf_form_mapped(form)) {
        QSF_UNROLL
        for (int v = 0; v < 2 * groups; v++)
            QSF_UNROLL
            for (int i = 0; i < 4; i++) {
                const uint8x16_t c = vld1q_u8(w + 64 * v + 16 * i);
                sum[i] = sdot_neon(sum[i], vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(0x03))), q[v], 0);
                second[i] = sdot_neon(second[i], vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(0x0c))), q[v], 1);
                third[i] = sdot_neon(third[i], vreinterpretq_s8_u8(vandq_u8(c, vdupq_n_u8(0x30))), q[v], 2);
                sum[i] = sdot_neon(sum[i], vreinterpretq_s8_u8(vshrq_n_u8(c, 6)), q[v], 3);
            }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) sum[i] = vsraq_n_s32(vsraq_n_s32(sum[i], second[i], 2), third[i], 4);
        return;
    }
    QSF_UNROLL
    for (int j = 0; j < 8 * groups; j++)
        QSF_UNROLL
        for (int i = 0; i < 4; i++)
            sum[i] = sdot_neon(sum[i], code_v128(&from[i], w + (size_t)(j
                                                 / 8) * qsf_form_group(form) + 16 * i, j % 8, form),
                                                 q[j / 4], j % 4);
}

QSF_TEMPLATE void matvec_any_dotprod(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                     size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        float32x4_t acc[4];
        QSF_UNROLL
        for (int i = 0; i < 4; i++) acc[i] = vdupq_n_f32(0);
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            float32x4_t scale[4], zero[4];
            if (qsf_form_own_scales(form)) scales_v128(scale, w, form);
            QSF_UNROLL
            for (int i = 0; i < 4; i++) {
                if (!qsf_form_own_scales(form)) scale[i] = scale4_neon(w + 8 * i, form);
                zero[i] = qsf_form_has_zero(form) ? half4_neon(w + 32 + 8 * i) : scale[i];
            }
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const float d = x->d[small ? part / 2 : part], sq = small ? s[0] : s[0] + s[1];
                int8x16_t a[4];
                QSF_UNROLL
                for (int i = 0; i < 2 * groups; i++) a[i] = vld1q_s8(q + 16 * i);
                int32x4_t sum[4];
                dot_dotprod(sum, w, a, groups, form);
                QSF_UNROLL
                for (int i = 0; i < 4; i++)
                    acc[i] = value_neon(acc[i], sum[i], scale[i], zero[i], d, sq, qsf_form_has_zero(form),
                                        (float)qsf_form_offset(form));
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        QSF_UNROLL
        for (int i = 0; i < 4; i++) store_neon(y + 4 * i, acc[i], form);
    }
}

/* An unpacked part times T rows: 4 * T sums in registers. */
QSF_TEMPLATE void multiply_some_dotprod(part_neon *p, size_t t, int T)
{
    const int8_t *q[4];
    int32x4_t sum[4][4];
    QSF_UNROLL
    for (int i = 0; i < T; i++) {
        q[i] = p->x->q + (p->m + QSF_MIN(t + (size_t)i, p->n - 1)) * p->x->cols + p->at;
        QSF_UNROLL
        for (int h = 0; h < 4; h++) sum[i][h] = vdupq_n_s32(0);
    }
    for (int k = 0; k < 2 * p->groups; k++) {
        int8x16_t a[4];
        QSF_UNROLL
        for (int i = 0; i < T; i++) a[i] = vld1q_s8(q[i] + 16 * k);
        QSF_UNROLL
        for (int j = 0; j < 4; j++)
            QSF_UNROLL
            for (int h = 0; h < 4; h++) {
                const int8x16_t c = vld1q_s8(p->codes[4 * k + j][h]);
                QSF_UNROLL
                for (int i = 0; i < T; i++) sum[i][h] = sdot_neon(sum[i][h], c, a[i], j);
            }
    }
    QSF_UNROLL
    for (int i = 0; i < T; i++) if (t + (size_t)i < p->n) finish_neon(p, t + (size_t)i, sum[i]);
}
static void multiply_dotprod(part_neon *p)
{
    size_t t = 0;
    for (; p->n - t > 2; t += 4) {
        multiply_some_dotprod(p, t, 4);
        if (t + 4 >= p->n) return;
    }
    multiply_some_dotprod(p, t, 2);
}

#define FORM_DOTPROD(F)                                                                                      \
    static void matvec_##F##_dotprod(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                     size_t blocks, uint32_t block)                                          \
    {                                                                                                        \
        if (QSF_SMALL(F, block)) matvec_any_dotprod(QSF_F_##F, true, y, w, x, tiles, blocks, block);         \
        else matvec_any_dotprod(QSF_F_##F, false, y, w, x, tiles, blocks, block);                            \
    }                                                                                                        \
    static void matmul_##F##_dotprod(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                     size_t blocks,                                                          \
                                     uint32_t block)                                                         \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_dotprod(y, w, x, tiles, blocks, block);                                  \
        else matmul_any_neon(QSF_F_##F, y, ldy, w, x, tiles, blocks, block, false, multiply_dotprod);        \
    }
QSF_EACH_FORM(FORM_DOTPROD)
QSF_EACH_GGML_FORM(FORM_DOTPROD)
#undef FORM_DOTPROD
#define five_dotprod five_v128
QSF_FIVE_FORM(dotprod)
QSF_TQ1_FORM(dotprod)
#undef five_dotprod
QSF_TRELLIS_FORMS(dotprod, qsf_trellis_eight_v128)

void qsf_matmul_dotprod(qsf_kernels *k)
{
#define FORM_DOTPROD(F)                                  \
    k->matvec[QSF_F_##F] = matvec_##F##_dotprod;         \
    k->matmul[QSF_F_##F] = matmul_##F##_dotprod;
    QSF_EACH_FORM(FORM_DOTPROD)
    QSF_EACH_GGML_FORM(FORM_DOTPROD)
    FORM_DOTPROD(T5)
    FORM_DOTPROD(TR2) FORM_DOTPROD(TR3) FORM_DOTPROD(TR4) FORM_DOTPROD(TR5)
#undef FORM_DOTPROD
    k->matvec[QSF_F_TQ1] = matvec_TQ1_dotprod;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_dotprod;
    qsf_super_dotprod(k);
}

QSF_TARGET_END
#endif
