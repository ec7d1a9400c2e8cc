/* Attention over cached keys and values over four floats, SSE4.2 and NEON: a few positions times up to four query heads at once.
 * SPDX-License-Identifier: MIT */
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

enum { SCORES_V128 = V128_REGISTERS / 8 };         /* positions at once: their sums of four heads take half of the registers */

/* s[r][0..n) for R heads, n <= SCORES_V128; rows past n repeat the last, so that nothing behind it is read. */
QSF_TEMPLATE void scores_some_v128(float *s, size_t lds, const float *q, const uint16_t *k, size_t n, size_t head_dim, float scale, int R)
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
            for (int p = 0; p < SCORES_V128; p++) acc[r][p] = v4_fma(b, v[p][1], v4_fma(a, v[p][0], acc[r][p]));
        }
    }
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int p = 0; p < SCORES_V128; p++) {
            if ((size_t)p >= n) continue;
            float sum = v4_sum(acc[r][p]);
            for (size_t i = c; i < head_dim; i++) sum += q[(size_t)r * head_dim + i] * qsf_f16_to_f32(row[p][i]);
            s[(size_t)r * lds + (size_t)p] = sum * scale;
        }
}
static void attention_scores_f16_v128(float *s, size_t lds, const float *q, const uint16_t *k, size_t n, size_t head_dim,
                                      size_t rep, float scale)
{
    for (size_t i = 0; i < n; i += SCORES_V128) {
        const uint16_t *row = k + i * head_dim;
        const size_t here = QSF_MIN(n - i, (size_t)SCORES_V128);
        size_t r = 0;
        for (; r + 4 <= rep; r += 4) scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 4);
        if (rep - r == 3) scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 3);
        if (rep - r == 2) scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 2);
        if (rep - r == 1) scores_some_v128(s + r * lds + i, lds, q + r * head_dim, row, here, head_dim, scale, 1);
    }
}

static float attention_softmax_inplace_v128(float *s, size_t n, float *m, float *l)
{
    v4f most = v4_set1(*m);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) most = v4_max(v4_load(s + i), most);          /* NaN as first operand is passed over */
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

/* o[r][c..c+8) of R heads. */
QSF_TEMPLATE void weighted_cols_v128(float *o, const float *factor, const float *p, size_t ldp, const uint16_t *v, size_t n, size_t head_dim,
                                     size_t c, int R)
{
    v4f acc[4][2];
    QSF_UNROLL
    for (int r = 0; r < R; r++)
        QSF_UNROLL
        for (int j = 0; j < 2; j++)
            acc[r][j] = factor[r] == 0 ? v4_set1(0) : v4_set1(factor[r]) * v4_load(o + (size_t)r * head_dim + c + 4 * (size_t)j);
    for (size_t i = 0; i < n; i++) {
        v4f x[2];
        v8_halves(x, v + i * head_dim + c);
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
QSF_TEMPLATE void weighted_heads_v128(float *o, const float *factor, const float *p, size_t ldp, const uint16_t *v, size_t n, size_t head_dim, int R)
{
    size_t c = 0;
    for (; c + 8 <= head_dim; c += 8) weighted_cols_v128(o, factor, p, ldp, v, n, head_dim, c, R);
    for (; c < head_dim; c++)
        for (int r = 0; r < R; r++) {
            float *out = o + (size_t)r * head_dim + c, sum = factor[r] == 0 ? 0 : *out * factor[r];
            for (size_t i = 0; i < n; i++) sum += p[(size_t)r * ldp + i] * qsf_f16_to_f32(v[i * head_dim + c]);
            *out = sum;
        }
}
static void attention_weighted_sum_f16_v128(float *o, const float *factor, const float *s, size_t lds, const uint16_t *v, size_t n,
                                            size_t head_dim, size_t rep)
{
    size_t r = 0;
    for (; r + 4 <= rep; r += 4) weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, n, head_dim, 4);
    if (rep - r == 3) weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, n, head_dim, 3);
    if (rep - r == 2) weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, n, head_dim, 2);
    if (rep - r == 1) weighted_heads_v128(o + r * head_dim, factor + r, s + r * lds, lds, v, n, head_dim, 1);
}

/* What stays is one run of positions, so only the ends are written. */
static void causal_mask_apply_v128(float *s, size_t n, uint32_t first, uint32_t current, uint32_t window)
{
    const uint64_t low = window && window <= current ? (uint64_t)current - window + 1 : 0, end = (uint64_t)current + 1;
    const size_t from = low > first ? (size_t)QSF_MIN((uint64_t)n, low - first) : 0;
    const size_t to = end > first ? (size_t)QSF_MIN((uint64_t)n, end - first) : 0;
    for (size_t i = 0; i < from; i++) s[i] = -INFINITY;
    for (size_t i = to; i < n; i++) s[i] = -INFINITY;
}

void qsf_attention_v128(qsf_kernels *k)
{
    k->attention_scores_f16 = attention_scores_f16_v128;
    k->attention_softmax_inplace = attention_softmax_inplace_v128;
    k->attention_weighted_sum_f16 = attention_weighted_sum_f16_v128;
    k->causal_mask_apply = causal_mask_apply_v128;
}

QSF_V128_END
#endif
