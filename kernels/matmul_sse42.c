/* Tiles times activations with SSE4.2: a tile is read as four quarters of 4 rows, products are
 * summed by pmaddubsw in 16 bits.
 * SPDX-License-Identifier: MIT */
#include "five_v128.h"
#include "trellis_v128.h"
#include "tiles_v128.h"

#if defined(__x86_64__)
QSF_V128_BEGIN

enum { TOKENS_SSE42 = 8 };      /* rows of activations that share one unpacking of the weights */

/* A running sum: 16-bit lanes that go into 32-bit lanes when they are full. */
typedef struct sum_sse42 { __m128i s16, s32; } sum_sse42;
QSF_TEMPLATE void sum_add_sse42(sum_sse42 *s, __m128i products, int j, qsf_form form)
{
    const int full = sums16_sse42(form);
    s->s16 = j % full == 0 ? products : _mm_add_epi16(s->s16, products);
    if (j % full == full - 1)
        s->s32 = j < full ? widen_sse42(s->s16) : _mm_add_epi32(s->s32, widen_sse42(s->s16));
}
QSF_TEMPLATE __m128i sum_end_sse42(const sum_sse42 *s, int n, qsf_form form)
{
    /* n < full only where nothing has been widened */
    return n % sums16_sse42(form) ? widen_sse42(s->s16) : s->s32;
}

/* Scales or zeros of the 16 rows. */
QSF_TEMPLATE void halves16_sse42(v4f out[4], const uint8_t *p, qsf_form form)
{
    if (qsf_form_bare(form)) {
        for (int i = 0; i < 4; i++) out[i] = v4_set1(1);
        return;
    }
    v8_halves(out, p);
    v8_halves(out + 2, p + 16);
}

/* ---- one row of activations: two quarters at a time, so that codes and sums are registers ---- */
QSF_TEMPLATE void matvec_any_sse42(qsf_form form, bool small, float *y, const uint8_t *w, const qsf_act *x,
                                   size_t tiles, size_t blocks, uint32_t block)
{
    const int groups = small ? 1 : 2;
    const size_t group = qsf_form_group(form);
    for (size_t t = 0; t < tiles; t++, y += 16) {
        v4f acc[4] = { v4_set1(0), v4_set1(0), v4_set1(0), v4_set1(0) };
        const int8_t *q = x->q;
        const float *s = x->s;
        size_t part = 0;
        for (size_t b = 0; b < blocks; b++) {
            v4f scale[4], zero[4];
            scales_v128(scale, w, form);
            halves16_sse42(zero, qsf_form_has_zero(form) ? w + 32 : w, form);
            w += qsf_form_head(form);
            for (const uint8_t *end = w + block / 32 * group; w < end; part++) {
                const v4f d = v4_set1(x->d[small ? part / 2 : part]),
                    sq = v4_set1(small ? s[0] : s[0] + s[1]);
                QSF_UNROLL
                for (int i = 0; i < 4; i += 2) {
                    sum_sse42 s0 = { 0 }, s1 = { 0 };
                    source_v128 from0 = { 0 }, from1 = { 0 };
                    QSF_UNROLL
                    for (int j = 0; j < 8 * groups; j++) {
                        const uint8_t *g = w + (size_t)(j / 8) * group + 16 * i;
                        const __m128i a = v16_quad(q + 4 * j);
                        sum_add_sse42(&s0, products_sse42(code_v128(&from0, g, j % 8, form), a, form), j,
                                      form);
                        sum_add_sse42(&s1, products_sse42(code_v128(&from1, g + 16, j % 8, form), a, form), j,
                                      form);
                    }
                    acc[i] = value_v128(acc[i], (v4i)sum_end_sse42(&s0, 8 * groups, form), scale[i], zero[i],
                                        d, sq, form);
                    acc[i + 1] = value_v128(acc[i + 1], (v4i)sum_end_sse42(&s1, 8 * groups, form),
                                            scale[i + 1], zero[i + 1], d, sq, form);
                }
                w += (size_t)groups * group, q += 32 * groups, s += groups;
            }
        }
        for (int i = 0; i < 4; i++) store_v128(y + 4 * i, acc[i], form);
    }
}

/* ---- several rows of activations: a group of a quarter is unpacked, then all pass by ---- */
typedef struct few_sse42 {
    v4f     acc[4][TOKENS_SSE42];
    __m128i sum[TOKENS_SSE42];
} few_sse42;

/* Sums of the group at g times n rows of q; the second group of 64 columns continues the sums of
 * the first. */
QSF_TEMPLATE void group_sse42(__m128i *sum, const uint8_t *g, const int8_t *q, size_t ldq, size_t n,
                              qsf_form form, bool second)
{
    __m128i c[8];
    source_v128 from = { 0 };
    QSF_UNROLL
    for (int j = 0; j < 8; j++) c[j] = code_v128(&from, g, j, form);
    for (size_t t = 0; t < n; t++, q += ldq) {
        sum_sse42 s = { 0 };
        QSF_UNROLL
        for (int j = 0; j < 8; j++)
            sum_add_sse42(&s, products_sse42(c[j], v16_quad(q + 4 * j), form), j, form);
        if (sums16_sse42(form) == 16) sum[t] = second ? _mm_add_epi16(sum[t], s.s16) : s.s16;
        else sum[t] = second ? _mm_add_epi32(sum[t], s.s32) : s.s32;
    }
}

QSF_TEMPLATE void part_sse42(few_sse42 *a, int quarter, const uint8_t *w, const qsf_act *x, size_t m,
                             size_t n, size_t at, v4f scale, v4f zero, qsf_form form, bool small)
{
    const int8_t *q = x->q + m * x->cols + at;
    const float *d = x->d + m * (x->cols / 64) + at / 64, *s = x->s + m * (x->cols / 32) + at / 32;
    group_sse42(a->sum, w, q, x->cols, n, form, false);
    if (!small) group_sse42(a->sum, w + qsf_form_group(form), q + 32, x->cols, n, form, true);
    for (size_t t = 0; t < n; t++, d += x->cols / 64, s += x->cols / 32) {
        const __m128i sum = sums16_sse42(form) == 16 ? widen_sse42(a->sum[t]) : a->sum[t];
        a->acc[quarter][t] = value_v128(a->acc[quarter][t], (v4i)sum, scale, zero, v4_set1(*d),
                                        v4_set1(small ? s[0] : s[0] + s[1]), form);
    }
}

QSF_TEMPLATE void tile_row_sse42(float *y, size_t ldy, qsf_form form, bool small, const uint8_t *w,
                                 const qsf_act *x, size_t m, size_t n, size_t blocks, uint32_t block)
{
    const size_t groups = small ? 1 : 2;
    few_sse42 a;
    memset(&a.acc, 0, sizeof a.acc);
    size_t at = 0;
    for (size_t b = 0; b < blocks; b++) {
        v4f scale[4], zero[4];
        scales_v128(scale, w, form);
        halves16_sse42(zero, qsf_form_has_zero(form) ? w + 32 : w, form);
        w += qsf_form_head(form);
        for (uint32_t g = 0; g < block / 32; g += (uint32_t)groups, at += 32 * groups,
             w += groups * qsf_form_group(form))
            for (int i = 0; i < 4; i++)
                part_sse42(&a, i, w + 16 * i, x, m, n, at, scale[i], zero[i], form, small);
    }
    for (size_t t = 0; t < n; t++, y += ldy)
        for (int i = 0; i < 4; i++) store_v128(y + 4 * i, a.acc[i][t], form);
}

QSF_TEMPLATE void matmul_any_sse42(qsf_form form, bool small, float *y, size_t ldy, const uint8_t *w,
                                   const qsf_act *x, size_t tiles, size_t blocks, uint32_t block)
{
    const size_t row_bytes = blocks * qsf_tile_bytes(form, block), band = qsf_band_rows(x->cols);
    for (size_t from = 0; from < x->n; from += band)
        for (size_t t = 0; t < tiles; t++)
            for (size_t m = from; m < x->n && m < from + band; m += TOKENS_SSE42)
                tile_row_sse42(y + m * ldy + 16 * t, ldy, form, small, w + t * row_bytes, x, m,
                               QSF_MIN(x->n - m, (size_t)TOKENS_SSE42), blocks, block);
}

#define FORM_SSE42(F)                                                                                      \
    static void matvec_##F##_sse42(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,             \
                                   size_t blocks, uint32_t block)                                          \
    {                                                                                                      \
        if (QSF_SMALL(F, block)) matvec_any_sse42(QSF_F_##F, true, y, w, x, tiles, blocks, block);         \
        else matvec_any_sse42(QSF_F_##F, false, y, w, x, tiles, blocks, block);                            \
    }                                                                                                      \
    static void matmul_##F##_sse42(float *y, size_t ldy, const uint8_t *w, const qsf_act *x, size_t tiles, \
                                   size_t blocks,                                                          \
                                   uint32_t block)                                                         \
    {                                                                                                      \
        if (x->n == 1) matvec_##F##_sse42(y, w, x, tiles, blocks, block);                                  \
        else if (QSF_SMALL(F, block)) matmul_any_sse42(QSF_F_##F, true, y, ldy, w, x, tiles, blocks, block); \
        else matmul_any_sse42(QSF_F_##F, false, y, ldy, w, x, tiles, blocks, block);                       \
    }
QSF_EACH_FORM(FORM_SSE42)
QSF_EACH_GGML_FORM(FORM_SSE42)
#undef FORM_SSE42
#define five_sse42 five_v128
QSF_FIVE_FORM(sse42)
QSF_TQ1_FORM(sse42)
#undef five_sse42

/* Pairs of products are at most 2 * 127 * 127. */
QSF_TEMPLATE v4i trellis_add_sse42(v4i sum, v16b level, const trellis_columns_v128 *x, int j)
{
    return sum + (v4i)widen_sse42(_mm_maddubs_epi16(v16_quad(&x->quad[j]), level));
}
#define FORM_SSE42(K)                                                                                      \
    static void matvec_TR##K##_sse42(float *y, const uint8_t *w, const qsf_act *x, size_t tiles,           \
                                     size_t blocks, uint32_t block)                                        \
    {                                                                                                      \
        (void)block;                                                                                       \
        trellis_matvec_v128(K, y, w, x, tiles, blocks, trellis_add_sse42, NULL);                           \
    }                                                                                                      \
    static void matmul_TR##K##_sse42(float *y, size_t ldy, const uint8_t *w, const qsf_act *x,             \
                                     size_t tiles, size_t blocks, uint32_t block)                          \
    {                                                                                                      \
        if (x->n == 1) matvec_TR##K##_sse42(y, w, x, tiles, blocks, block);                                \
        else qsf_trellis_matmul(K, y, ldy, w, x, tiles, blocks, qsf_trellis_eight_v128, matmul_8_sse42);   \
    }
QSF_EACH_TRELLIS(FORM_SSE42)
#undef FORM_SSE42

void qsf_matmul_sse42(qsf_kernels *k)
{
#define FORM_SSE42(F) k->matvec[QSF_F_##F] = matvec_##F##_sse42; k->matmul[QSF_F_##F] = matmul_##F##_sse42;
    QSF_EACH_FORM(FORM_SSE42)
    QSF_EACH_GGML_FORM(FORM_SSE42)
    FORM_SSE42(T5)
    FORM_SSE42(TR2) FORM_SSE42(TR3) FORM_SSE42(TR4) FORM_SSE42(TR5)
#undef FORM_SSE42
    k->matvec[QSF_F_TQ1] = matvec_TQ1_sse42;
    k->matmul[QSF_F_TQ1] = matmul_TQ1_sse42;
    qsf_super_sse42(k);
}

QSF_V128_END
#endif
