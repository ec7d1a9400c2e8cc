/* Attention over cached keys and values over four floats, SSE4.2 and NEON: a few positions times up
 * to four query heads at once.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

/* positions at once: their sums of four heads take half of the registers */
enum { SCORES_V128 = V128_REGISTERS / 8 };

/* s[r][0..n) for R heads, n <= SCORES_V128; rows past n repeat the last one, so that nothing after
 * it is read. */
QSF_TEMPLATE void scores_some_v128(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                                   size_t head_dim, float scale, int R)
{
    const uint16_t *row[SCORES_V128];
    v4f acc[4][SCORES_V128];
    QSF_UNROLL
    for (size_t p = 0; p < SCORES_V128; p++) row[p] = k + QSF_MIN(p, n - 1) * head_dim;
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int p = 0; p < SCORES_V128; p++) acc[r][p] = v4_set1(0);
    size_t c = 0;
    for (; c + 8 <= head_dim; c += 8) {
        v4f v[SCORES_V128][2];
        QSF_UNROLL
        for (int p = 0; p < SCORES_V128; p++) v8_halves(v[p], row[p] + c);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const float *from = q + (size_t)r * head_dim + c;
            const v4f a = v4_load(from), b = v4_load(from + 4);
            QSF_UNROLL
            for (int p = 0; p < SCORES_V128; p++)
                acc[r][p] = v4_fma(b, v[p][1], v4_fma(a, v[p][0], acc[r][p]));
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int p = 0; p < SCORES_V128; p++) {
            if ((size_t)p >= n) continue;
            float sum = v4_sum(acc[r][p]);
            for (size_t i = c; i < head_dim; i++)
                sum += q[(size_t)r * head_dim + i] * qsf_f16_to_f32(row[p][i]);
            s[(size_t)r * lds + (size_t)p] = sum * scale;
        }
}
static void attention_scores_f16_v128(float *s, size_t lds, const float *q, const uint16_t *k, size_t n,
                                      size_t head_dim, size_t rep, float scale)
{
    for (size_t i = 0; i < n; i += SCORES_V128) {
        const uint16_t *row = k + i * head_dim;
        const size_t here = QSF_MIN(n - i, (size_t)SCORES_V128);
        size_t r = 0;
        for (; r + 4 <= rep; r += 4)
            scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 4);
#if defined(QSF_SMALL_CODE)     /* its sessions use an f16 cache only on request */
        for (; r + 2 <= rep; r += 2)
#else
        if (rep - r == 3)
            scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 3);
        if (rep - r == 2)
#endif
            scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 2);
        if (rep - r == 1)
            scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 1);
    }
}

/* Scores of four positions (a quarter of a vector of the tiles) for R vectors,
 * n of the positions stored. */
QSF_TEMPLATE void scores4_q8_v128(float *s, size_t lds, const int8_t *q, const float *qd, const int8_t *k,
                                  const float *kd, size_t n, size_t dim, float scale, int R)
{
    v4i acc[4];
    QSF_UNROLL
    for (int r = 0; r < R; r++) acc[r] = v4_set1i(0);
    for (size_t d = 0; d < dim; d += 4, k += 64) {
        const v16b c = v16_load(k);
        QSF_UNROLL
        for (int r = 0; r < R; r++) acc[r] = v16_dot4(acc[r], c, v16_quad(q + (size_t)r * dim + d));
    }
    const v4f scales = n < 4 ? v4_load_part(kd, n) : v4_load(kd);
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        const v4f sum = v4_float(acc[r]) * (scales * v4_set1(qd[r] * scale));
        if (n < 4) v4_store_part(s + (size_t)r * lds, sum, n);
        else v4_store(s + (size_t)r * lds, sum);
    }
}
static void attention_scores_q8_v128(float *s, size_t lds, const int8_t *q, const float *qd,
                                     const int32_t *qs, const int8_t *k, const float *kd, size_t n,
                                     size_t dim, size_t rep, float scale, const int8_t *ahead)
{
    (void)qs;
    for (size_t i = 0; i < n; i += 4) {
        if (ahead) qsf_kv_bring(ahead + i * dim, 4 * dim);
        const int8_t *at = k + qsf_kv_k_at(i, 0, dim);
        const size_t here = QSF_MIN(n - i, (size_t)4);
        size_t r = 0;
        for (; r + 4 <= rep; r += 4)
            scores4_q8_v128(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 4);
        if (rep - r == 3)
            scores4_q8_v128(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 3);
        if (rep - r == 2)
            scores4_q8_v128(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 2);
        if (rep - r == 1)
            scores4_q8_v128(s + r * lds + i, lds, q + r * dim, qd + r, at, kd + i, here, dim, scale, 1);
    }
}

static float softmax_row_v128(float *s, size_t n, float *m, float *l)
{
    v4f most = v4_set1(*m);
    size_t i = 0;
    /* NaN as first operand is passed over */
    for (; i + 4 <= n; i += 4) most = v4_max(v4_load(s + i), most);
    float top = v4_greatest(most);
    for (; i < n; i++) top = s[i] > top ? s[i] : top;
    if (top == -INFINITY) {
        memset(s, 0, n * sizeof *s);
        return 0;
    }
    const float factor = *m == -INFINITY ? 0 : *m == top ? 1 : expf(*m - top);
    const v4f t = v4_set1(top);
    v4f sum = v4_set1(0);
    for (i = 0; i + 4 <= n; i += 4) {
        const v4f e = v4_exp(v4_load(s + i) - t);
        v4_store(s + i, e);
        sum += e;
    }
    float rest = 0;
    if (i < n) {
        v4_store_part(s + i, v4_exp(v4_load_part(s + i, n - i) - t), n - i);
        for (; i < n; i++) rest += s[i];
    }
    *m = top;
    *l = *l * factor + (v4_sum(sum) + rest);
    return factor;
}
static void attention_softmax_inplace_v128(float *s, size_t lds, size_t n, size_t rep,
                                           float *factor, float *m, float *l)
{
    for (size_t r = 0; r < rep; r++) factor[r] = softmax_row_v128(s + r * lds, n, &m[r], &l[r]);
}

QSF_TEMPLATE float one_value_v128(const void *v, bool half, size_t at)
{
    return half ? qsf_f16_to_f32(((const uint16_t *)v)[at]) : ((const float *)v)[at];
}

/* o[r][c..c+8) of R heads. */
QSF_TEMPLATE void weighted_cols_v128(float *o, const float *factor, const float *p, size_t ldp,
                                     const void *v, bool half, size_t n, size_t head_dim, size_t c, int R)
{
    v4f acc[4][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < 2; j++)
            acc[r][j] = factor[r] == 0 ? v4_set1(0) : v4_set1(factor[r]) * v4_load(o + (size_t)r * head_dim
                    + c + 4 * (size_t)j);
    for (size_t i = 0; i < n; i++) {
        v4f x[2];
        const size_t at = i * head_dim + c;
        if (half) v8_halves(x, (const uint16_t *)v + at);
        else x[0] = v4_load((const float *)v + at), x[1] = v4_load((const float *)v + at + 4);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            const v4f w = v4_set1(p[(size_t)r * ldp + i]);
            acc[r][0] = v4_fma(w, x[0], acc[r][0]);
            acc[r][1] = v4_fma(w, x[1], acc[r][1]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < 2; j++) v4_store(o + (size_t)r * head_dim + c + 4 * (size_t)j, acc[r][j]);
}
QSF_TEMPLATE void weighted_heads_v128(float *o, const float *factor, const float *p, size_t ldp,
                                      const void *v, bool half, size_t n, size_t head_dim, int R)
{
    size_t c = 0;
    for (; c + 8 <= head_dim; c += 8) weighted_cols_v128(o, factor, p, ldp, v, half, n, head_dim, c, R);
    for (; c < head_dim; c++)
        for (int r = 0; r < R; r++) {
            float *out = o + (size_t)r * head_dim + c, sum = factor[r] == 0 ? 0 : *out * factor[r];
            for (size_t i = 0; i < n; i++)
                sum += p[(size_t)r * ldp + i] * one_value_v128(v, half, i * head_dim + c);
            *out = sum;
        }
}
static void attention_weighted_sum_f16_v128(float *o, const float *factor, const float *s, size_t lds,
                                            const uint16_t *v, size_t n, size_t head_dim, size_t rep)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 4);
    if (rep - r == 3)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 3);
    if (rep - r == 2)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 2);
    if (rep - r == 1)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, true, n, head_dim, 1);
}
static void attention_weighted_sum_f32_v128(float *o, const float *factor, const float *s, size_t lds,
                                            const float *v, size_t n, size_t head_dim, size_t rep)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, false, n, head_dim, 4);
    for (; r < rep; r++)
        weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, false, n, head_dim, 1);
}

/* Softmax weights times the values' scales as codes. */
static void weights_q8_v128(uint8_t *p, float *pd, const float *s, size_t lds, const float *vd,
                                      size_t n, size_t rep)
{
    for (size_t r = 0; r < rep; r++, p += QSF_KV_BLOCK, s += lds) {
        v4f w[QSF_KV_BLOCK / 4], most = v4_set1(0);
        for (size_t i = 0; i < QSF_KV_BLOCK; i += 4) {
            const size_t here = i < n ? QSF_MIN(n - i, (size_t)4) : 0;
            w[i / 4] = here == 4 ? v4_load(s + i) * v4_load(vd + i) : here ? v4_load_part(s + i,
                    here) * v4_load_part(vd + i, here) : v4_set1(0);
            most = v4_max(w[i / 4], most);
        }
        const float top = v4_greatest(most), to_code = top >= QSF_KV_LEAST ? 255 / top : 0;
        const v4f f = v4_set1(to_code);
        for (int i = 0; i < QSF_KV_BLOCK / 4; i += 4)
            v16_store_unsigned(p + 4 * i, v4_nearest(w[i] * f), v4_nearest(w[i + 1] * f),
                               v4_nearest(w[i + 2] * f), v4_nearest(w[i + 3] * f));
        pd[r] = to_code > 0 ? top / 255 : 0;
    }
}

static void attention_softmax_q8_v128(uint8_t *p, float *pd, float *s, size_t lds, const float *vd,
                                     size_t n, size_t rep, float *factor, float *m, float *l)
{
    attention_softmax_inplace_v128(s, lds, n, rep, factor, m, l);
    weights_q8_v128(p, pd, s, lds, vd, n, rep);
}

/* Four columns of R vectors, n of them stored: values widened to 16 bits once,
 * two sums a column until the end. */
QSF_TEMPLATE void weighted4_q8_v128(float *o, const float *factor, v8h p[4][QSF_KV_BLOCK / 4],
                                    const float *pd, const int8_t *v, size_t n, size_t head_dim, int R)
{
    v4i low[4], high[4];
    QSF_UNROLL
    for (int r = 0; r < R; r++) low[r] = high[r] = v4_set1i(0);
    for (size_t j = 0; j < QSF_KV_BLOCK / 4; j++, v += 64) {
        const v16b c = v16_load(v);
        const v8h a = v16_wide_low(c), b = v16_wide_high(c);
        QSF_UNROLL
        for (int r = 0; r < R; r++) {
            low[r] = v8_dot2(low[r], a, p[r][j]);
            high[r] = v8_dot2(high[r], b, p[r][j]);
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++) {
        float *out = o + (size_t)r * head_dim;
        const v4f sum = v4_float(v4_pairs(low[r], high[r])) * v4_set1(pd[r]);
        const v4f old = factor[r] == 0 ? v4_set1(0) : (n < 4 ? v4_load_part(out, n)
                                                       : v4_load(out)) * v4_set1(factor[r]);
        if (n < 4) v4_store_part(out, sum + old, n);
        else v4_store(out, sum + old);
    }
}
static void attention_weighted_sum_q8_v128(float *o, const float *factor, const uint8_t *p, const float *pd,
                                           const int8_t *v, size_t head_dim, size_t rep, const int8_t *ahead)
{
    if (ahead) qsf_kv_bring(ahead + qsf_kv_dim(head_dim) * QSF_KV_BLOCK, QSF_KV_SCALES);
    for (size_t r = 0; r < rep; r += 4) {
        const size_t heads = QSF_MIN(rep - r, (size_t)4);
        v8h wide[4][QSF_KV_BLOCK / 4];
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < QSF_KV_BLOCK / 4; j++)
                wide[h][j] = v8_quad(p + (r + h) * QSF_KV_BLOCK + 4 * j);
        for (size_t d = 0; d < head_dim; d += 4) {
            float *out = o + r * head_dim + d;
            const int8_t *at = v + qsf_kv_v_at(0, d);
            const size_t here = QSF_MIN(head_dim - d, (size_t)4);
            if (ahead && !r) qsf_kv_bring(ahead + d * QSF_KV_BLOCK, 4 * QSF_KV_BLOCK);
            if (heads == 4) weighted4_q8_v128(out, factor + r, wide, pd + r, at, here, head_dim, 4);
            else if (heads == 3) weighted4_q8_v128(out, factor + r, wide, pd + r, at, here, head_dim, 3);
            else if (heads == 2) weighted4_q8_v128(out, factor + r, wide, pd + r, at, here, head_dim, 2);
            else weighted4_q8_v128(out, factor + r, wide, pd + r, at, here, head_dim, 1);
        }
    }
}

/* What stays is one run of positions, so only the ends are written. */
static void causal_mask_apply_v128(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    const uint64_t low = window && window <= current ? (uint64_t)current - window + 1 : 0,
        end = (uint64_t)current + 1;
    const size_t from = low > first ? (size_t)QSF_MIN((uint64_t)n, low - first) : 0;
    const size_t to = end > first ? (size_t)QSF_MIN((uint64_t)n, end - first) : 0;
    for (size_t i = 0; i < from; i++) s[i] = -INFINITY;
    for (size_t i = to; i < n; i++) s[i] = -INFINITY;
}

void qsf_attention_v128(qsf_kernels *k)
{
    k->attention_scores_f16 = attention_scores_f16_v128;
    k->attention_scores_q8 = attention_scores_q8_v128;
    k->attention_softmax_inplace = attention_softmax_inplace_v128;
    k->attention_weighted_sum_f16 = attention_weighted_sum_f16_v128;
    k->attention_weighted_sum_f32 = attention_weighted_sum_f32_v128;
    k->attention_softmax_q8 = attention_softmax_q8_v128;
    k->attention_weighted_sum_q8 = attention_weighted_sum_q8_v128;
    k->causal_mask_apply = causal_mask_apply_v128;
}

QSF_V128_END
#endif
