/* Tiles times activations with AVX2: a tile is read as two halves of 8 rows, products are summed by
 * vpmaddubsw in 16 bits.
 * SPDX-License-Identifier: MIT */
#include "five.h"
#include "iq.h"
#include "trellis.h"
#include "tensor/types.h"
#include "tensor/types_ggml.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")

#include "tiles_avx2.h"
#include "trellis_avx2.h"      /* in the single file its functions must not be AVX-VNNI's first */

/* A running sum: 16-bit lanes that go into 32-bit lanes when they are full. */
typedef struct sum_avx2 { __m256i s16, s32; } sum_avx2;
QSF_TEMPLATE void sum_add_avx2(sum_avx2 *s, __m256i products, int j, qsf_form form)
{
    const int full = sums16_avx2(form);
    s->s16 = j % full == 0 ? products : _mm256_add_epi16(s->s16, products);
    if (j % full == full - 1)
        s->s32 = j < full ? widen_avx2(s->s16) : _mm256_add_epi32(s->s32, widen_avx2(s->s16));
}
QSF_TEMPLATE __m256i sum_end_avx2(const sum_avx2 *s, int n, qsf_form form)
{
    /* n < full only where nothing has been widened */
    return n % sums16_avx2(form) ? widen_avx2(s->s16) : s->s32;
}

/* acc + d * (value of the integer sums); sq is the plain sum of the activations. */
QSF_TEMPLATE __m256 value_avx2(__m256 acc, __m256i sum, __m256 scale, __m256 zero, __m256 d, __m256 sq,
                               qsf_form form)
{
    const __m256 f = _mm256_cvtepi32_ps(sum);
    if (qsf_form_has_zero(form))
        return _mm256_fmadd_ps(d, _mm256_fmadd_ps(scale, f, _mm256_mul_ps(zero, sq)), acc);
    if (!qsf_form_offset(form)) return _mm256_fmadd_ps(_mm256_mul_ps(scale, d), f, acc);
    return _mm256_fmadd_ps(_mm256_mul_ps(scale, d),
                           _mm256_fnmadd_ps(_mm256_set1_ps((float)qsf_form_offset(form)), sq, f), acc);
}
QSF_TEMPLATE void store_avx2(float *y, __m256 v, qsf_form form)
{
    _mm256_storeu_ps(y, qsf_form_negated(form) ? _mm256_sub_ps(_mm256_setzero_ps(), v) : v);
}

/* ---- one row of activations: both halves at once, so that columns are broadcast once ---- */
QSF_TEMPLATE void matvec_any_avx2(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                  size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        __m256 acc0 = _mm256_setzero_ps(), acc1 = acc0;
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            const __m256 scale0 = scale8_avx2(w, 0, form), scale1 = scale8_avx2(w, 1, form);
            const __m256 zero0 = qsf_form_has_zero(form) ? half8_avx2(w + 32) : scale0,
                zero1 = qsf_form_has_zero(form) ? half8_avx2(w + 48) : scale1;
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                sum_avx2 s0 = { 0 }, s1 = { 0 };
                source_avx2 from0 = { 0 }, from1 = { 0 };
                QSF_UNROLL
                for (int j = 0; j < 8 * groups; j++) {
                    const uint8_t *g = w + (size_t)(j / 8) * group;
                    const __m256i a = quad_avx2(q, j);
                    sum_add_avx2(&s0, products_avx2(code_avx2(&from0, g, j % 8, form), a, form), j, form);
                    sum_add_avx2(&s1, products_avx2(code_avx2(&from1, g + 32, j % 8, form), a, form), j,
                                 form);
                }
                const __m256 d = _mm256_broadcast_ss(x->d + (small ? part / 2 : part)),
                    sq = _mm256_set1_ps(small ? s[0] : s[0] + s[1]);
                acc0 = value_avx2(acc0, sum_end_avx2(&s0, 8 * groups, form), scale0, zero0, d, sq, form);
                acc1 = value_avx2(acc1, sum_end_avx2(&s1, 8 * groups, form), scale1, zero1, d, sq, form);
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        store_avx2(y, acc0, form);
        store_avx2(y + 8, acc1, form);
    }
}

/* ---- several rows of activations: a group of one half is unpacked, then all rows pass by ---- */
typedef struct few_avx2 {
    __m256  acc[2][TOKENS_AVX2];
    __m256i sum[TOKENS_AVX2];
} few_avx2;

/* Sums of the group at g times n rows of q; the second group of 64 columns continues the sums of
 * the first. */
QSF_TEMPLATE void group_avx2(__m256i *sum, const uint8_t *g, const int8_t *q, size_t ldq, size_t n,
                             qsf_form form, bool second)
{
    __m256i c[8];
    source_avx2 from = { 0 };
    QSF_UNROLL
    for (int j = 0; j < 8; j++) c[j] = code_avx2(&from, g, j, form);
    for (size_t t = 0; t < n; t++, q += ldq) {
        sum_avx2 s = { 0 };
        QSF_UNROLL
        for (int j = 0; j < 8; j++) sum_add_avx2(&s, products_avx2(c[j], quad_avx2(q, j), form), j, form);
        if (sums16_avx2(form) == 16) sum[t] = second ? _mm256_add_epi16(sum[t], s.s16) : s.s16;
        else sum[t] = second ? _mm256_add_epi32(sum[t], s.s32) : s.s32;
    }
}

QSF_TEMPLATE void part_avx2(few_avx2 *a, int half, const uint8_t *w, const qsf_act *x, size_t m, size_t n,
                            size_t at, __m256 scale, __m256 zero, qsf_form form, bool small)
{
    const int8_t *q = x->q + m * x->cols + at;
    const float *d = x->d + m * (x->cols / 64) + at / 64, *s = x->s + m * (x->cols / 32) + at / 32;
    group_avx2(a->sum, w, q, x->cols, n, form, false);
    if (!small) group_avx2(a->sum, w + qsf_form_group(form), q + 32, x->cols, n, form, true);
    for (size_t t = 0; t < n; t++, d += x->cols / 64, s += x->cols / 32) {
        const __m256i sum = sums16_avx2(form) == 16 ? widen_avx2(a->sum[t]) : a->sum[t];
        a->acc[half][t] = value_avx2(a->acc[half][t], sum, scale, zero, _mm256_broadcast_ss(d),
                                     _mm256_set1_ps(small ? s[0] : s[0] + s[1]), form);
    }
}

QSF_TEMPLATE void tile_row_avx2(float *y, size_t ldy, qsf_form form, bool small, const uint8_t *w,
                                const qsf_act *x, size_t m, size_t n, size_t blocks, uint32_t block)
{
    const size_t groups = small ? 1 : 2;
    uint8_t digits[QSF_TQ1_CODES];
    few_avx2 a;
    for (size_t t = 0; t < n; t++) a.acc[0][t] = a.acc[1][t] = _mm256_setzero_ps();
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        __m256 scale[2], zero[2];
        for (int h = 0; h < 2; h++) {
            scale[h] = scale8_avx2(w, h, form);
            zero[h] = qsf_form_has_zero(form) ? half8_avx2(w + 32 + 16 * h) : scale[h];
        }
        const uint8_t *codes = w + qsf_form_head(form);
        w += qsf_tile_bytes(form, block);
        if (form == QSF_F_TQ1) {
            tq1_expand_avx2(digits, w - QSF_TQ1_TILE);
            codes = digits;
        }
        for (uint32_t g = 0; g < block / 32; g += (uint32_t)groups, at += 32 * groups,
             codes += groups * qsf_form_group(form))
            for (int h = 0; h < 2; h++)
                part_avx2(&a, h, codes + 32 * h, x, m, n, at, scale[h], zero[h], form, small);
    }
    for (size_t t = 0; t < n; t++, y += ldy) {
        store_avx2(y, a.acc[0][t], form);
        store_avx2(y + 8, a.acc[1][t], form);
    }
}

QSF_TEMPLATE void matmul_any_avx2(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w,
                                  const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_AVX2)
                tile_row_avx2(y + m * ldy + 16 * t, ldy, form, small, w + t * row_bytes, x, m,
                              QSF_MIN(x->n - m, (size_t)TOKENS_AVX2), blocks, block);
}

#define FORM_AVX2(F)                                                                                         \
    static void matvec_##F##_avx2(float *y, const uint8_t *w, const qsf_act *x, size_t tiles, size_t blocks, \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (QSF_SMALL(F, block)) matvec_any_avx2(QSF_F_##F, true, y, w, x, tiles, blocks, block);            \
        else matvec_any_avx2(QSF_F_##F, false, y, w, x, tiles, blocks, block);                               \
    }                                                                                                        \
    static void matmul_##F##_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,    \
                                  size_t blocks,                                                             \
                                  uint32_t block)                                                            \
    {                                                                                                        \
        if (x->n == 1) matvec_##F##_avx2(y, w, x, tiles, blocks, block);                                     \
        else if (QSF_F_##F == QSF_F_T2) qsf_bare_T2_avx2(y, ldy, w, x, tiles, blocks);                       \
        else if (QSF_F_##F == QSF_F_QK256) qsf_bare_QK256_avx2(y, ldy, w, x, tiles, blocks);                 \
        else if (QSF_SMALL(F, block)) matmul_any_avx2(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block);  \
        else matmul_any_avx2(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block);                          \
    }
QSF_EACH_FORM(FORM_AVX2)
QSF_EACH_GGML_FORM(FORM_AVX2)
#undef FORM_AVX2

void qsf_matmul_TQ1_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                         size_t blocks, uint32_t block)
{
    matmul_any_avx2(QSF_F_TQ1, false, y, ldy, w, x, tiles, blocks, block);
}

void qsf_matmul_T2_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                        size_t blocks, uint32_t block)
{
    matmul_T2_avx2(y, ldy, w, x, tiles, blocks, block);
}

void qsf_matmul_8_avx2(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles,
                       size_t blocks, uint32_t block)
{
    matmul_8_avx2(y, ldy, w, x, tiles, blocks, block);
}

void qsf_matmul_avx2(qsf_kernels *k)
{
#define FORM_AVX2(F) k->matvec[QSF_F_##F] = matvec_##F##_avx2; k->matmul[QSF_F_##F] = matmul_##F##_avx2;
    QSF_EACH_FORM(FORM_AVX2)
    QSF_EACH_GGML_FORM(FORM_AVX2)
#undef FORM_AVX2
    qsf_super_avx2(k);
    qsf_iq_avx2(k);
}

QSF_TARGET_END
#endif
