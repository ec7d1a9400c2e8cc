/* Tiles times activations with plain NEON: products are summed in 16 bits for as long as they fit,
 * then pairs of them in 32.
 * SPDX-License-Identifier: MIT */
#include "five_v128.h"
#include "trellis.h"
#include "neon_tile.h"

#if defined(QSF_NEON_TILE)

/* A running sum of a quarter: rows 0 and 1 in low, 2 and 3 in high, two lanes a row in 32 bits. */
typedef struct sum_neon { int16x8_t low16, high16; int32x4_t low, high; } sum_neon;
QSF_TEMPLATE void sum_add_neon(sum_neon *s, int8x16_t c, int8x16_t q, int j, int full)
{
    if (j % full == 0) {
        s->low16 = vmull_s8(vget_low_s8(c), vget_low_s8(q));
        s->high16 = vmull_high_s8(c, q);
    } else {
        s->low16 = vmlal_s8(s->low16, vget_low_s8(c), vget_low_s8(q));
        s->high16 = vmlal_high_s8(s->high16, c, q);
    }
    if (j % full == full - 1) {
        s->low = j < full ? vpaddlq_s16(s->low16) : vpadalq_s16(s->low, s->low16);
        s->high = j < full ? vpaddlq_s16(s->high16) : vpadalq_s16(s->high, s->high16);
    }
}
QSF_TEMPLATE int32x4_t sum_end_neon(const sum_neon *s) { return vpaddq_s32(s->low, s->high); }

/* Two quarters at a time: their codes and sums fit the registers. */
QSF_TEMPLATE void matvec_any_neon(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                  size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2, full = QSF_MIN(sums16_neon(form), 8 * groups);
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        float32x4_t acc[4];
        for (int i = 0; i < 4; i++) acc[i] = vdupq_n_f32(0);
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const uint8_t *head = w;
            v4f own[4];
            if (qsf_form_own_scales(form)) scales_v128(own, head, form);
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const float d = x->d[small ? part / 2 : part], sq = small ? s[0] : s[0] + s[1];
                QSF_UNROLL
                for (int i = 0; i < 4; i += 2) {
                    sum_neon s0 = { 0 }, s1 = { 0 };
                    source_v128 from0 = { 0 }, from1 = { 0 };
                    QSF_UNROLL
                    for (int j = 0; j < 8 * groups; j++) {
                        const uint8_t *g = w + (size_t)(j / 8) * group + 16 * i;
                        const int8x16_t a = v16_quad(q + 4 * j);
                        sum_add_neon(&s0, code_v128(&from0, g, j % 8, form), a, j, full);
                        sum_add_neon(&s1, code_v128(&from1, g + 16, j % 8, form), a, j, full);
                    }
                    const int32x4_t sum[2] = { sum_end_neon(&s0), sum_end_neon(&s1) };
                    QSF_UNROLL
                    for (int h = 0; h < 2; h++) {
                        const float32x4_t scale = qsf_form_own_scales(form) ? own[i + h]
                            : scale4_neon(head + 8 * (i + h), form),
                            zero = qsf_form_has_zero(form) ? half4_neon(head + 32 + 8 * (i + h)) : scale;
                        acc[i + h] = value_neon(acc[i + h], sum[h], scale, zero, d, sq,
                                                qsf_form_has_zero(form), (float)qsf_form_offset(form));
                    }
                }
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        for (int i = 0; i < 4; i++) store_neon(y + 4 * i, acc[i], form);
    }
}

/* Two quarters of an unpacked part times T rows. */
QSF_TEMPLATE void multiply_some_neon(int32x4_t sum[4][4], const part_neon *p, size_t t, int T, int full)
{
    const int8_t *q[4];
    for (int i = 0; i < T; i++)
        q[i] = p->x->q + (p->m + QSF_MIN(t + (size_t)i, p->n - 1)) * p->x->cols + p->at;
    full = QSF_MIN(full, 8 * p->groups);
    for (int half = 0; half < 4; half += 2) {
        sum_neon s[4][2];
        QSF_UNROLL
        for (int i = 0; i < T; i++)
            QSF_UNROLL
            for (int h = 0; h < 2; h++) s[i][h].low = s[i][h].high = vdupq_n_s32(0);
        for (int j = 0; j < 8 * p->groups; j += full) {
            QSF_UNROLL
            for (int i = 0; i < T; i++)
                QSF_UNROLL
                for (int h = 0; h < 2; h++) s[i][h].low16 = s[i][h].high16 = vdupq_n_s16(0);
            for (int k = j; k < j + full; k++) {
                const int8x16_t c[2] = { vld1q_s8(p->codes[k][half]), vld1q_s8(p->codes[k][half + 1]) };
                QSF_UNROLL
                for (int i = 0; i < T; i++) {
                    const int8x16_t a = v16_quad(q[i] + 4 * k);
                    QSF_UNROLL
                    for (int h = 0; h < 2; h++) {
                        s[i][h].low16 = vmlal_s8(s[i][h].low16, vget_low_s8(c[h]), vget_low_s8(a));
                        s[i][h].high16 = vmlal_high_s8(s[i][h].high16, c[h], a);
                    }
                }
            }
            QSF_UNROLL
            for (int i = 0; i < T; i++)
                QSF_UNROLL
                for (int h = 0; h < 2; h++) {
                    s[i][h].low = vpadalq_s16(s[i][h].low, s[i][h].low16);
                    s[i][h].high = vpadalq_s16(s[i][h].high, s[i][h].high16);
                }
        }
        for (int i = 0; i < T; i++)
            for (int h = 0; h < 2; h++) sum[i][half + h] = sum_end_neon(&s[i][h]);
    }
}
QSF_TEMPLATE void multiply_neon(part_neon *p, int full)
{
    int32x4_t sum[4][4];
    for (size_t t = 0; t < p->n; t += 4) {
        if (p->n - t <= 2) multiply_some_neon(sum, p, t, 2, full);
        else multiply_some_neon(sum, p, t, 4, full);
        for (size_t i = 0; i < 4 && t + i < p->n; i++) finish_neon(p, t + i, sum[i]);
    }
}
/* One for each number of products that 16 bits hold. */
static void multiply16_neon(part_neon *p) { multiply_neon(p, 16); }
static void multiply8_neon(part_neon *p) { multiply_neon(p, 8); }
static void multiply4_neon(part_neon *p) { multiply_neon(p, 4); }
static void multiply2_neon(part_neon *p) { multiply_neon(p, 2); }
QSF_TEMPLATE part_fn_neon *multiply_of_neon(qsf_form form)
{
    switch (sums16_neon(form)) {
    case 16: return multiply16_neon;
    case 8:  return multiply8_neon;
    case 4:  return multiply4_neon;
    default: return multiply2_neon;
    }
}

#define FORM_NEON(F)                                                                                         \
    static void matvec_##F##_neon(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (QSF_SMALL(F, block)) matvec_any_neon(QSF_F_##F, true, y, w, x, tiles, blocks, block);            \
        else matvec_any_neon(QSF_F_##F, false, y, w, x, tiles, blocks, block);                               \
    }                                                                                                        \
    static void matmul_##F##_neon(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks,                                                             \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_neon(y, w, x, tiles, blocks, block);                                     \
        else                                                                                                 \
            matmul_any_neon(QSF_F_##F, y, ldy, w, x, tiles, blocks, block, false,                            \
                            multiply_of_neon(QSF_F_##F));                                                    \
    }
QSF_EACH_FORM(FORM_NEON)
QSF_EACH_GGML_FORM(FORM_NEON)
#undef FORM_NEON
#define five_neon five_v128
QSF_FIVE_FORM(neon)
QSF_TQ1_FORM(neon)
#undef five_neon
QSF_TRELLIS_FORMS(neon, qsf_trellis_eight_v128)

void qsf_matmul_neon(qsf_kernels *k)
{
#define FORM_NEON(F) k->matvec[QSF_F_##F] = matvec_##F##_neon; k->matmul[QSF_F_##F] = matmul_##F##_neon;
    QSF_EACH_FORM(FORM_NEON)
    QSF_EACH_GGML_FORM(FORM_NEON)
    FORM_NEON(T5)
    FORM_NEON(TR2) FORM_NEON(TR3) FORM_NEON(TR4) FORM_NEON(TR5)
#undef FORM_NEON
    k->matvec[QSF_F_TQ1] = matvec_TQ1_neon;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_neon;
    qsf_super_neon(k);
}
#endif
