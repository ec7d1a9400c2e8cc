/* Tiles times several rows of activations with NEON's 8-bit matrices: smmla multiplies 2 rows of
 * weights with 2 of activations, 8 columns each.  A single row does not gain from it: matvec stays
 * that of the dotprod set.
 * SPDX-License-Identifier: MIT */
#include "five_v128.h"
#include "trellis.h"
#include "neon_tile.h"

#if defined(QSF_NEON_TILE)
QSF_TARGET_BEGIN(QSF_TARGET_I8MM)

/* An unpacked part times 2 * T rows: 8 * T sums in registers, each { row 0 row 0, row 0 row 1, row
 * 1 row 0, row 1 row 1 }. */
QSF_TEMPLATE void multiply_some_i8mm(part_neon *p, size_t t, int T)
{
    const int8_t *q[4];
    int32x4_t sum[2][8];
    QSF_UNROLL
    for (int i = 0; i < 2 * T; i++)
        q[i] = p->x->q + (p->m + QSF_MIN(t + (size_t)i, p->n - 1)) * p->x->cols + p->at;
    QSF_UNROLL
    for (int i = 0; i < T; i++)
        QSF_UNROLL
        for (int r = 0; r < 8; r++) sum[i][r] = vdupq_n_s32(0);
    const int8_t *codes = p->codes[0][0];
    for (int k = 0; k < 4 * p->groups; k++, codes += 128) {
        int8x16_t a[2];
        QSF_UNROLL
        for (int i = 0; i < T; i++)
            a[i] = vcombine_s8(vld1_s8(q[2 * i] + 8 * k), vld1_s8(q[2 * i + 1] + 8 * k));
        QSF_UNROLL
        for (int r = 0; r < 8; r++) {
            const int8x16_t c = vld1q_s8(codes + 16 * r);
            QSF_UNROLL
            for (int i = 0; i < T; i++) sum[i][r] = smmla_neon(sum[i][r], c, a[i]);
        }
    }
    QSF_UNROLL
    for (int i = 0; i < T; i++) {
        int32x4_t first[4], second[4];
        QSF_UNROLL
        for (int h = 0; h < 4; h++) {
            first[h] = vuzp1q_s32(sum[i][2 * h], sum[i][2 * h + 1]);
            second[h] = vuzp2q_s32(sum[i][2 * h], sum[i][2 * h + 1]);
        }
        if (t + 2 * (size_t)i < p->n) finish_neon(p, t + 2 * (size_t)i, first);
        if (t + 2 * (size_t)i + 1 < p->n) finish_neon(p, t + 2 * (size_t)i + 1, second);
    }
}
static void multiply_i8mm(part_neon *p)
{
    size_t t = 0;
    for (; p->n - t > 2; t += 4) {
        multiply_some_i8mm(p, t, 2);
        if (t + 4 >= p->n) return;
    }
    multiply_some_i8mm(p, t, 1);
}

#define FORM_I8MM(F)                                                                                      \
    static void matmul_##F##_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                  size_t blocks,                                                          \
                                  uint32_t block)                                                         \
    { matmul_any_neon(QSF_F_##F, y, ldy, w, x, tiles, blocks, block, true, multiply_i8mm); }
QSF_EACH_FORM(FORM_I8MM)
QSF_EACH_GGML_FORM(FORM_I8MM)
#undef FORM_I8MM
static void matmul_T5_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                           size_t blocks, uint32_t block)
{
    (void)block;
    qsf_five_matmul(y, ldy, w, x, tiles, blocks, five_v128, matmul_T2_i8mm);
}

static void matmul_TQ1_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                            size_t blocks, uint32_t block)
{
    (void)block;
    qsf_tq1_matmul(y, ldy, w, x, tiles, blocks, five_v128, matmul_TERNARY_i8mm);
}

#define FORM_I8MM(K)                                                                                      \
    static void matmul_TR##K##_i8mm(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,             \
                                    size_t tiles, size_t blocks, uint32_t block)                          \
    {                                                                                                     \
        (void)block;                                                                                      \
        qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, qsf_trellis_eight_v128, matmul_8_i8mm);        \
    }
QSF_EACH_TRELLIS(FORM_I8MM)
#undef FORM_I8MM

void qsf_matmul_i8mm(qsf_kernels *k)
{
#define FORM_I8MM(F) k->matmul[QSF_F_##F] = matmul_##F##_i8mm;
    QSF_EACH_FORM(FORM_I8MM)
    QSF_EACH_GGML_FORM(FORM_I8MM)
    FORM_I8MM(T5)
    FORM_I8MM(TR2) FORM_I8MM(TR3) FORM_I8MM(TR4) FORM_I8MM(TR5)
#undef FORM_I8MM
    k->matmul[QSF_F_TQ1] = matmul_TQ1_i8mm;
    qsf_super_i8mm(k);
}

QSF_TARGET_END
#endif
