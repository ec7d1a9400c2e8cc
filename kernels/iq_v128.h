/* GGUF's codebook types over vectors of 128 bits: one routine for all of them and all sets.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_IQ_V128_H
#define QSF_IQ_V128_H

#include "iq.h"
#include "super_v128.h"

#if defined(QSF_V128)
/* sum[t] (+)= sum of scale[i] * c . q of 32 columns for n rows of activations, 256 apart; c:
 * int8, four vectors of 16 columns each, as q is turned.  See super_sums_v128. */
typedef void qsf_iq_sums(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t n,
                         const v4i *scale, bool add);
void qsf_iq_any_v128(qsf_form form, float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                     size_t blocks, qsf_iq_sums *sums);

/* The entries of a set, from its sums of super-blocks. */
#define QSF_IQ_SET(SET, sums)                                                                                \
    static void iq_sums_##SET(v4i *sum, const v16b *c, const int8_t *q, const int16_t *h, size_t n,          \
                              const v4i *scale, bool add)                                                    \
    { sums(sum, c, q, h, 256, n, scale, QSF_F_IQ2S, add); }                                                  \
    QSF_EACH_IQ_FORM(QSF_IQ_FORM_##SET)
#define QSF_IQ_FORM(F, SET) QSF_IQ_MATMUL(F, SET) QSF_IQ_MATVEC(F, SET)
#define QSF_IQ_MATMUL(F, SET)                                                                                \
    static void matmul_##F##_##SET(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,   \
                                   size_t blocks, uint32_t block)                                            \
    { (void)block; qsf_iq_any_v128(QSF_F_##F, y, ldy, w, x, tiles, blocks, iq_sums_##SET); }
#define QSF_IQ_MATVEC(F, SET)                                                                                \
    static void matvec_##F##_##SET(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,               \
                                   size_t blocks, uint32_t block)                                            \
    { (void)block; qsf_iq_any_v128(QSF_F_##F, y, 16 * tiles, w, x, tiles, blocks, iq_sums_##SET); }
#endif
#endif
