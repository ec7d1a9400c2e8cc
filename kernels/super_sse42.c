/* GGUF's super-blocks times activations with SSE4.2: the scales are 16-bit factors of the widening
 * sum, so that they cost nothing.
 * SPDX-License-Identifier: MIT */
#include "iq_v128.h"

#if defined(__x86_64__)
QSF_V128_BEGIN

/* A sub-block of `quads` code vectors, times its scales.  Sums of 16 bits may wrap on their way:
 * with the offset taken off they are at most 8 * 32 * 127 = 32512. */
QSF_TEMPLATE v4i sub_sse42(const v16b *c, int quads, const int8_t *q, const int16_t *h, v4i scale,
                           qsf_form form)
{
    const int full =
        qsf_form_sub(form) == 16 && !qsf_form_iq(form) ? quads : QSF_MIN(quads, sums16_sse42(form));
    v4i sum = v4_set1i(0);
    QSF_UNROLL
    for (int i = 0; i < quads; i += full) {
        __m128i s16 = products_sse42(c[i], v16_quad(q + 4 * i), form);
        QSF_UNROLL
        for (int j = i + 1; j < i + full; j++)
            s16 = _mm_add_epi16(s16, products_sse42(c[j], v16_quad(q + 4 * j), form));
        if (qsf_form_offset(form))
            s16 = _mm_sub_epi16(s16, form == QSF_F_NV4 ? _mm_mullo_epi16(v8_two(h), _mm_set1_epi16(12))
                                : _mm_slli_epi16(v8_two(h), form == QSF_F_Q6K ? 5 : 2));
        sum += (v4i)_mm_madd_epi16(s16, (__m128i)scale);
    }
    return sum;
}

QSF_TEMPLATE void sums_sse42(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t ldx, size_t n,
                             const v4i *scale, qsf_form form, bool add)
{
    const bool small = qsf_form_sub(form) == 16;
    for (size_t t = 0; t < n; t++, q += ldx, h += ldx / 8) {
        v4i s = sub_sse42(c, small ? 4 : 8, q, h, scale[0], form);
        if (super_sums_cols(form) > 16 && small) s += sub_sse42(c + 4, 4, q + 16, h + 2, scale[1], form);
        sum[t] = add ? sum[t] + s : s;
    }
}

#define FORM_SSE42(F)                                                                                      \
    static void matvec_##F##_sse42(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                   size_t blocks, uint32_t block)                                          \
    { (void)block; super_one_v128(QSF_F_##F, y, w, x, tiles, blocks, sums_sse42); }                        \
    static void matmul_##F##_sse42(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                   size_t blocks,                                                          \
                                   uint32_t block)                                                         \
    {                                                                                                      \
        if (x->n == 1) matvec_##F##_sse42(y, w, x, tiles, blocks, block);                                  \
        else super_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, sums_sse42);                           \
    }
QSF_EACH_SUPER_FORM(FORM_SSE42)
#undef FORM_SSE42
QSF_NV4_V128(sse42)

#define QSF_IQ_FORM_sse42(F) QSF_IQ_FORM(F, sse42)
QSF_IQ_SET(sse42, sums_sse42)
#undef QSF_IQ_FORM_sse42

void qsf_super_sse42(qsf_kernels *k)
{
#define FORM_SSE42(F) k->matvec[QSF_F_##F] = matvec_##F##_sse42; k->matmul[QSF_F_##F] = matmul_##F##_sse42;
    QSF_EACH_SUPER_FORM(FORM_SSE42)
#undef FORM_SSE42
    k->matvec[QSF_F_NV4] = matvec_NV4_sse42;
    k->matmul[QSF_F_NV4] = matmul_NV4_sse42;
#define FORM_IQ(F) k->matvec[QSF_F_##F] = matvec_##F##_sse42; k->matmul[QSF_F_##F] = matmul_##F##_sse42;
    QSF_EACH_IQ_FORM(FORM_IQ)
#undef FORM_IQ
}

QSF_V128_END
#endif
