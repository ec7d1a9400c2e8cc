/* Attention over 8-bit blocks with AVX-512 VNNI: one 32-bit lane is a position (scores) or a column
 * (weighted sum), and vpdpbusd takes four columns or positions at once, as in the weights' tiles.
 * SPDX-License-Identifier: MIT */
#include "sets.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#include "math_avx512.h"

QSF_TEMPLATE __m512i dword_avx512(const void *p)
{
    int32_t four;
    memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
}

/* All 32 positions for R vectors, n of them stored.  Keys become unsigned by adding 128, which the
 * sums of the queries take off again. */
QSF_TEMPLATE void scores_any_avx512(float *s, size_t lds, const int8_t *q, const float *qd, const int32_t *qs,
                                    const int8_t *k, const float *kd, size_t n, size_t dim,
                                    float scale, const int8_t *ahead, bool bring, int R)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const size_t half = 16 * dim;
    __m512i acc[8][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_set1_epi32(-128 * qs[r]);
    for (size_t d = 0; d < dim; d += 4, k += 64) {
        const __m512i a = _mm512_xor_si512(_mm512_loadu_si512(k), sign),
            b = _mm512_xor_si512(_mm512_loadu_si512(k + half), sign);
        if (bring) qsf_kv_bring(ahead + 32 * d, 128);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512i four = dword_avx512(q + (size_t)r * dim + d);
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], a, four);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], b, four);
        }
    }
    QSF_UNROLL
    for (int i = 0; i < 2; i++) {
        const __mmask16 part = first_avx512(n > 16 * (size_t)i ? n - 16 * (size_t)i : 0);
        const __m512 scales = _mm512_maskz_loadu_ps(part, kd + 16 * i);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512 f = _mm512_mul_ps(scales, _mm512_set1_ps(qd[r] * scale));
            _mm512_mask_storeu_ps(s + (size_t)r * lds + 16 * i, part,
                                  _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r][i]), f));
        }
    }
}
/* The query heads that share a key-value head are few: all of them pass a block together. */
static void attention_scores_q8_avx512(float *s, size_t lds, const int8_t *q, const float *qd,
                                       const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                       size_t dim, size_t rep, float scale, const int8_t *ahead)
{
#define SCORES_OF(r, bring, R) \
    scores_any_avx512(s + (r) * lds, lds, q + (r) * dim, qd + (r), qs + (r), k, kd, n, dim, scale, \
                      ahead, bring, R)
    size_t r = QSF_MIN(rep, (size_t)8);
    if (!ahead) ahead = k;              /* asked for already: costs least */
    switch (r) {
    case 1: SCORES_OF(0, true, 1); break;
    case 2: SCORES_OF(0, true, 2); break;
    case 3: SCORES_OF(0, true, 3); break;
    case 4: SCORES_OF(0, true, 4); break;
    case 5: SCORES_OF(0, true, 5); break;
    case 6: SCORES_OF(0, true, 6); break;
    case 7: SCORES_OF(0, true, 7); break;
    case 8: SCORES_OF(0, true, 8); break;
    }
    for (; r + 8 <= rep; r += 8) SCORES_OF(r, false, 8);
    for (; r + 3 <= rep; r += 3) SCORES_OF(r, false, 3);
    for (; r < rep; r++) SCORES_OF(r, false, 1);
#undef SCORES_OF
}

static float softmax_row_avx512(float *s, size_t n, float *m, float *l)
{
    __m512 top16 = _mm512_set1_ps(*m);
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 part = first_avx512(n - i);
        /* NaN as first operand is passed over */
        top16 = _mm512_mask_max_ps(top16, part, _mm512_maskz_loadu_ps(part, s + i), top16);
    }
    const float top = _mm512_reduce_max_ps(top16);
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 0;
    }
    const __m512 t = _mm512_set1_ps(top);
    const float factor = *m == -INFINITY ? 0 : *m == top ? 1
        : _mm512_cvtss_f32(exp_avx512(_mm512_sub_ps(_mm512_set1_ps(*m), t)));
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 part = first_avx512(n - i);
        const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(part, s + i), t));
        _mm512_mask_storeu_ps(s + i, part, e);
        sum = _mm512_mask_add_ps(sum, part, sum, e);
    }
    *m = top;
    *l = *l * factor + _mm512_reduce_add_ps(sum);
    return factor;
}
/* A vector's lanes are reduced like _mm512_reduce_add_ps does it: halves, quarters, pairs, singles;
 * but those of eight vectors together.  Lane r of the result is vector r's. */
typedef __m512 reduce_op_avx512(__m512 a, __m512 b);
QSF_TEMPLATE __m512 sum_avx512(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
QSF_TEMPLATE __m512 greater_avx512(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
QSF_TEMPLATE __m512 reduce4_avx512(const __m512 *v, reduce_op_avx512 *op)
{
    const __m512 a = op(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 b = op(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    return op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
QSF_TEMPLATE __m512 reduce8_avx512(const __m512 *v, int R, reduce_op_avx512 *op)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14);
    const __m512 a = reduce4_avx512(v, op), b = R > 4 ? reduce4_avx512(v + 4, op) : a;
    const __m512 pairs = op(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    return _mm512_permutexvar_ps(order, op(pairs, _mm512_permute_ps(pairs, 0xb1)));
}

/* `rows` vectors of scores, at most R. */
QSF_TEMPLATE void softmax_rows_avx512(float *s, size_t lds, size_t n, size_t rows, float *factor, float *m,
                                      float *l, int R)
{
    const __m512 least = _mm512_set1_ps(-INFINITY);
    const __mmask16 some = first_avx512(rows);
    __m512 v[8];
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        v[r] = least;
        for (size_t i = 0; i < n; i += 16) {
            const __mmask16 part = (size_t)r < rows ? first_avx512(n - i) : 0;
            /* NaN as first operand is passed over */
            v[r] = _mm512_mask_max_ps(v[r], part, _mm512_maskz_loadu_ps(part, s + (size_t)r * lds + i), v[r]);
        }
    }
    const __m512 old = _mm512_mask_loadu_ps(least, some, m),
        top = _mm512_max_ps(reduce8_avx512(v, R, greater_avx512), old);
    const __mmask16 any = _mm512_mask_cmp_ps_mask(some, top, least, _CMP_NEQ_UQ),
        same = _mm512_cmp_ps_mask(old, top, _CMP_EQ_OQ);
    const __m512 f = _mm512_mask_mov_ps(exp_avx512(_mm512_sub_ps(old, top)), same, _mm512_set1_ps(1));
    _mm512_mask_storeu_ps(m, some, top);
    _mm512_mask_storeu_ps(factor, some, _mm512_maskz_mov_ps(any, f));
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        v[r] = _mm512_setzero_ps();
        const __m512 t = _mm512_set1_ps((size_t)r < rows ? m[r] : 0);
        for (size_t i = 0; i < n; i += 16) {
            const __mmask16 part = (size_t)r < rows ? first_avx512(n - i) : 0;
            float *at = s + (size_t)r * lds + i;
            const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(part, at), t));
            _mm512_mask_storeu_ps(at, part, e);
            v[r] = _mm512_mask_add_ps(v[r], part, v[r], e);
        }
    }
    const __m512 sums = _mm512_add_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(some, l), f),
                                      reduce8_avx512(v, R, sum_avx512));
    _mm512_mask_storeu_ps(l, any, sums);
    for (size_t r = 0; any != some && r < rows; r++)            /* only masked positions so far */
        if (!(any >> r & 1)) memset(s + r * lds, 0, n * sizeof *s);
}
static void attention_softmax_inplace_avx512(float *s, size_t lds, size_t n, size_t rep, float *factor,
                                             float *m, float *l)
{
    size_t r = 0;
    if (n == QSF_KV_BLOCK)
        for (; r + 8 <= rep; r += 8)
            softmax_rows_avx512(s + r * lds, lds, QSF_KV_BLOCK, 8, factor + r, m + r, l + r, 8);
    for (; r < rep; r += 8) {
        const size_t rows = QSF_MIN(rep - r, (size_t)8);
        float *at = s + r * lds;
        if (rows > 4 && n == QSF_KV_BLOCK)
            softmax_rows_avx512(at, lds, QSF_KV_BLOCK, rows, factor + r, m + r, l + r, 8);
        else if (rows > 4) softmax_rows_avx512(at, lds, n, rows, factor + r, m + r, l + r, 8);
        else if (rows > 1) softmax_rows_avx512(at, lds, n, rows, factor + r, m + r, l + r, 4);
        else factor[r] = softmax_row_avx512(at, n, m + r, l + r);
    }
}

/* ---- the softmax with its weights as codes ----
 * In three passes over all vectors: a vector's steps wait for one another, those of different
 * vectors do not. */

/* What attention_softmax_q8 is given, of up to eight vectors, and what the passes tell each
 * other. */
typedef struct softmax_avx512 {
    float    *s, *factor, *m, *l, *pd;
    float    *top, *to_code;    /* the maxima, 0 if all is masked so far; 1 / pd */
    size_t    lds;
    __mmask16 low, high;        /* positions */
    __m512    d0, d1;           /* scales of values */
} softmax_avx512;

/* Maxima and factors.  whole: of R vectors and all positions. */
QSF_TEMPLATE void softmax_top_avx512(const softmax_avx512 *a, size_t rows, int R, bool whole)
{
    const __mmask16 low = whole ? 0xffff : a->low, high = whole ? 0xffff : a->high;
    const __m512 least = _mm512_set1_ps(-INFINITY);
    const __mmask16 some = first_avx512(rows);
    __m512 v[8];
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const float *s = a->s + QSF_MIN((size_t)r, rows - 1) * a->lds;
        /* NaN as first operand is passed over */
        v[r] = _mm512_max_ps(_mm512_mask_loadu_ps(least, low, s), least);
        v[r] = _mm512_max_ps(_mm512_mask_loadu_ps(least, high, s + 16), v[r]);
    }
    const __m512 old = _mm512_mask_loadu_ps(least, some, a->m),
        top = _mm512_max_ps(reduce8_avx512(v, R, greater_avx512), old);
    const __mmask16 any = _mm512_mask_cmp_ps_mask(some, top, least, _CMP_NEQ_UQ),
        same = _mm512_cmp_ps_mask(old, top, _CMP_EQ_OQ);
    const __m512 f = _mm512_mask_mov_ps(exp_avx512(_mm512_sub_ps(old, top)), same, _mm512_set1_ps(1));
    _mm512_mask_storeu_ps(a->m, some, top);
    _mm512_mask_storeu_ps(a->top, some, _mm512_maskz_mov_ps(any, top));
    _mm512_mask_storeu_ps(a->factor, some, _mm512_maskz_mov_ps(any, f));
}

/* Weights times the values' scales, which s becomes, and their sums. */
QSF_TEMPLATE void softmax_exp_avx512(const softmax_avx512 *a, size_t rows, int R, bool whole)
{
    const __mmask16 low = whole ? 0xffff : a->low, high = whole ? 0xffff : a->high;
    const __m512 least = _mm512_set1_ps(-INFINITY);
    const __mmask16 some = first_avx512(rows);
    __m512 sum[8], most[8];
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        sum[r] = most[r] = _mm512_setzero_ps();
        if ((size_t)r >= rows) continue;
        float *s = a->s + (size_t)r * a->lds;
        const __m512 t = _mm512_set1_ps(a->top[r]);
        const __m512 e0 = exp_avx512(_mm512_sub_ps(_mm512_mask_loadu_ps(least, low, s), t)),
            e1 = exp_avx512(_mm512_sub_ps(_mm512_mask_loadu_ps(least, high, s + 16), t));
        const __m512 w0 = _mm512_mul_ps(e0, a->d0), w1 = _mm512_mul_ps(e1, a->d1);
        _mm512_mask_storeu_ps(s, low, w0);
        _mm512_mask_storeu_ps(s + 16, high, w1);
        sum[r] = _mm512_add_ps(e0, e1);
        most[r] = _mm512_max_ps(w0, w1);
    }
    const __m512 m = _mm512_mask_loadu_ps(least, some, a->m), l = _mm512_maskz_loadu_ps(some, a->l);
    _mm512_mask_storeu_ps(a->l, _mm512_cmp_ps_mask(m, least, _CMP_NEQ_UQ),
                          _mm512_add_ps(_mm512_mul_ps(l, _mm512_maskz_loadu_ps(some, a->factor)),
                                        reduce8_avx512(sum, R, sum_avx512)));
    const __m512 top = reduce8_avx512(most, R, greater_avx512), unit = _mm512_set1_ps(255);
    const __mmask16 enough = _mm512_cmp_ps_mask(top, _mm512_set1_ps(QSF_KV_LEAST), _CMP_GE_OQ);
    _mm512_mask_storeu_ps(a->to_code, some, _mm512_maskz_div_ps(enough, unit, top));
    _mm512_mask_storeu_ps(a->pd, some, _mm512_maskz_div_ps(enough, top, unit));
}

static void softmax_codes_avx512(uint8_t *p, const softmax_avx512 *a, size_t rep)
{
    const float *s = a->s;
    for (size_t r = 0; r < rep; r++, s += a->lds, p += QSF_KV_BLOCK) {
        const __m512 f = _mm512_set1_ps(a->to_code[r]);
        const __m512i c0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(a->low, s), f)),
            c1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(a->high, s + 16), f));
        _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtusepi32_epi8(c0));
        _mm_storeu_si128((__m128i *)(void *)(p + 16), _mm512_cvtusepi32_epi8(c1));
    }
}

/* From vector r on. */
QSF_TEMPLATE softmax_avx512 softmax_from_avx512(softmax_avx512 a, size_t r)
{
    a.s += r * a.lds;
    a.factor += r, a.m += r, a.l += r, a.pd += r, a.top += r, a.to_code += r;
    return a;
}
static void softmax_some_avx512(uint8_t *p, const softmax_avx512 *all, size_t rep)
{
    const size_t eights = (all->low & all->high) == 0xffff ? rep / 8 * 8 : 0;
    for (size_t r = 0; r < rep; r += 8) {
        const softmax_avx512 a = softmax_from_avx512(*all, r);
        if (r < eights) softmax_top_avx512(&a, 8, 8, true);
        else if (rep - r > 4) softmax_top_avx512(&a, QSF_MIN(rep - r, (size_t)8), 8, false);
        else softmax_top_avx512(&a, rep - r, 4, false);
    }
    for (size_t r = 0; r < rep; r += 8) {
        const softmax_avx512 a = softmax_from_avx512(*all, r);
        if (r < eights) softmax_exp_avx512(&a, 8, 8, true);
        else if (rep - r > 4) softmax_exp_avx512(&a, QSF_MIN(rep - r, (size_t)8), 8, false);
        else softmax_exp_avx512(&a, rep - r, 4, false);
    }
    softmax_codes_avx512(p, all, rep);
}
static void attention_softmax_q8_avx512(uint8_t *p, float *pd, float *s, size_t lds, const float *vd,
                                        size_t n, size_t rep, float *factor, float *m, float *l)
{
    enum { MOST = 64 };
    float top[MOST], to_code[MOST];
    for (size_t r = 0; r < rep; r += MOST) {
        softmax_avx512 a = { s + r * lds, factor + r, m + r, l + r, pd + r, top, to_code, lds,
                             first_avx512(n), first_avx512(n > 16 ? n - 16 : 0),
                             _mm512_setzero_ps(), _mm512_setzero_ps() };
        a.d0 = _mm512_maskz_loadu_ps(a.low, vd);
        a.d1 = _mm512_maskz_loadu_ps(a.high, vd + 16);
        softmax_some_avx512(p + r * QSF_KV_BLOCK, &a, QSF_MIN(rep - r, (size_t)MOST));
    }
}

/* C times 16 columns of R vectors, the last 16 with part of them stored. */
QSF_TEMPLATE void weighted_any_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                      const int8_t *v, size_t head_dim, __mmask16 part, const int8_t *ahead,
                                      bool bring, int R, int C)
{
    __m512i acc[4][4];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int c = 0; c < C; c++) acc[r][c] = _mm512_setzero_si512();
    for (size_t j = 0; j < QSF_KV_BLOCK / 4; j++, v += 64) {
        __m512i x[4];
        QSF_UNROLL
        for (int c = 0; c < C; c++) {
            x[c] = _mm512_loadu_si512(v + (size_t)c * 16 * QSF_KV_BLOCK);
            if (bring) qsf_kv_bring(ahead + (size_t)c * 16 * QSF_KV_BLOCK + j * 64, 64);
        }
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const __m512i w = dword_avx512(p + (size_t)r * QSF_KV_BLOCK + 4 * j);
            QSF_UNROLL
            for (int c = 0; c < C; c++) acc[r][c] = _mm512_dpbusd_epi32(acc[r][c], w, x[c]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int c = 0; c < C; c++) {
            const __mmask16 m = c + 1 == C ? part : (__mmask16)0xffff;
            float *out = o + (size_t)r * head_dim + 16 * c;
            __m512 old = _mm512_setzero_ps();
            if (factor[r] == 1) old = _mm512_maskz_loadu_ps(m, out);    /* in a long context nearly always */
            else if (factor[r] != 0) old = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, out),
                                                         _mm512_set1_ps(factor[r]));
            _mm512_mask_storeu_ps(out, m, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[r][c]),
                                                          _mm512_set1_ps(pd[r]), old));
        }
}
QSF_TEMPLATE void weighted_cols_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                       const int8_t *v, size_t head_dim, size_t rep, __mmask16 part,
                                       const int8_t *ahead, int C)
{
#define WEIGHTED_OF(r, bring, R) \
    weighted_any_avx512(o + (r) * head_dim, factor + (r), p + (r) * QSF_KV_BLOCK, pd + (r), v, head_dim, \
                        part, ahead, bring, R, C)
    size_t r = QSF_MIN(rep, (size_t)4);
    switch (r) {
    case 1: WEIGHTED_OF(0, true, 1); break;
    case 2: WEIGHTED_OF(0, true, 2); break;
    case 3: WEIGHTED_OF(0, true, 3); break;
    case 4: WEIGHTED_OF(0, true, 4); break;
    }
    for (; r + 4 <= rep; r += 4) WEIGHTED_OF(r, false, 4);
    if (rep - r == 3) WEIGHTED_OF(r, false, 3);
    if (rep - r == 2) WEIGHTED_OF(r, false, 2);
    if (rep - r == 1) WEIGHTED_OF(r, false, 1);
#undef WEIGHTED_OF
}
static void attention_weighted_sum_q8_avx512(float *o, const float *factor, const uint8_t *p, const float *pd,
                                             const int8_t *v, size_t head_dim, size_t rep,
                                             const int8_t *ahead)
{
    size_t d = 0;
    if (!ahead) ahead = v;              /* asked for already: costs least */
    qsf_kv_bring(ahead + qsf_kv_dim(head_dim) * QSF_KV_BLOCK, QSF_KV_SCALES);
    for (; d + 64 <= head_dim; d += 64)
        weighted_cols_avx512(o + d, factor, p, pd, v + d * QSF_KV_BLOCK, head_dim, rep, 0xffff,
                             ahead + d * QSF_KV_BLOCK, 4);
    for (; d < head_dim; d += 16)
        weighted_cols_avx512(o + d, factor, p, pd, v + d * QSF_KV_BLOCK, head_dim, rep,
                             first_avx512(head_dim - d), ahead + d * QSF_KV_BLOCK, 1);
}

void qsf_attention_avx512(qsf_kernels *k)
{
    k->attention_scores_q8 = attention_scores_q8_avx512;
    k->attention_softmax_inplace = attention_softmax_inplace_avx512;
    k->attention_softmax_q8 = attention_softmax_q8_avx512;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_avx512;
}

QSF_TARGET_END
#endif
