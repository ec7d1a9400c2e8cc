/* Choosing among a vocabulary over four floats, SSE4.2 and NEON: softmax, top-k through a small heap, top-p, drawing, argmax.
 * SPDX-License-Identifier: MIT */
#include "sampling.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

static float largest_v128(const float *x, size_t n)
{
    v4f a = v4_set1(-INFINITY), b = a;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        a = v4_max(v4_load(x + i), a);                          /* NaN as first operand is passed over */
        b = v4_max(v4_load(x + i + 4), b);
    }
    float top = v4_greatest(v4_max(a, b));
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static size_t argmax_v128(const float *x, size_t n)
{
    const float top = largest_v128(x, n);
    const v4f t = v4_set1(top);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        if (v4_bits(v4_eq(v4_load(x + i), t) | v4_eq(v4_load(x + i + 4), t))) break;
    for (; i < n; i++) if (x[i] == top) return i;

    return 0;
}

/* exp((x - top) * f): 1 at the top, also where both are infinite, 0 for NaN. */
QSF_TEMPLATE v4f weight4_v128(v4f x, float top, float f)
{
    const v4f t = v4_set1(top), e = v4_exp((x - t) * v4_set1(f));
    return v4_and(v4_pick(v4_eq(x, t), v4_set1(1), e), v4_eq(x, x));
}

static void softmax_with_temperature_v128(float *probs, const float *logits, size_t n, float temperature)
{
    if (!n) return;
    const float top = largest_v128(logits, n);
    if (!(temperature > 0) || top == -INFINITY) {
        const size_t best = argmax_v128(logits, n);
        memset(probs, 0, n * sizeof *probs);
        probs[best] = 1;
        return;
    }
    const float f = 1 / temperature;
    v2d sum = { 0, 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const v4f e = weight4_v128(v4_load(logits + i), top, f);
        v4_store(probs + i, e);
        sum = v4_wide_add(sum, e);
    }
    double total = sum[0] + sum[1];
    if (i < n) {
        v4_store_part(probs + i, weight4_v128(v4_load_part(logits + i, n - i), top, f), n - i);
        for (; i < n; i++) total += probs[i];
    }
    const float r = (float)(1 / total);
    for (i = 0; i < n; i++) probs[i] *= r;
}

/* The k-th largest of x[n], NaN apart; *equal: how many of those equal to it are among the k. */
static float kth_largest_v128(const float *x, size_t n, size_t k, size_t *equal)
{
    float heap[QSF_TOP_K_HEAP] = { -INFINITY };     /* GCC cannot see that k is not 0 */
    for (size_t i = 0; i < k; i++) heap[i] = -INFINITY;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v4f least = v4_set1(heap[0]);
        const v4i low = v4_gt(v4_load(x + i), least), high = v4_gt(v4_load(x + i + 4), least);
        if (!v4_bits(low | high)) continue;
        for (int over = v4_bits(low) | v4_bits(high) << 4; over; over &= over - 1) {
            const float v = x[i + (size_t)__builtin_ctz((unsigned)over)];
            if (v > heap[0]) qsf_heap_put(heap, k, v);
        }
    }
    for (; i < n; i++) if (x[i] > heap[0]) qsf_heap_put(heap, k, x[i]);
    *equal = qsf_heap_equal(heap, k);
    return heap[0];
}

static void top_k_filter_v128(float *logits, size_t n, size_t k)
{
    if (k == 0 || k >= n || k > QSF_TOP_K_HEAP) {
        qsf_kernels scalar;
        qsf_sampling_scalar(&scalar);
        scalar.top_k_filter(logits, n, k);
        return;
    }
    size_t equal, i = 0;
    const float least = kth_largest_v128(logits, n, k, &equal);
    const v4f t = v4_set1(least), gone = v4_set1(-INFINITY);
    for (; i + 4 <= n; i += 4) {
        const v4f x = v4_load(logits + i);
        int same = v4_bits(v4_eq(x, t));
        v4_store(logits + i, v4_pick(v4_gt(x, t), x, gone));
        for (; same && equal; same &= same - 1, equal--) logits[i + (size_t)__builtin_ctz((unsigned)same)] = x[__builtin_ctz((unsigned)same)];
    }
    for (; i < n; i++)
        if (!(logits[i] > least)) {
            if (logits[i] == least && equal) equal--;
            else logits[i] = -INFINITY;
        }
}

/* Four of n floats from i on, zeros behind the end. */
QSF_TEMPLATE v4f next4_v128(const float *x, size_t i, size_t n)
{
    return i + 4 <= n ? v4_load(x + i) : v4_load_part(x + i, n - i);
}

/* Lanes of x that are at least `least`, above 0, and whose bits under `known` are key's. */
QSF_TEMPLATE int candidates_v128(v4f x, float least, uint32_t key, uint32_t known)
{
    const v4i same = (v4i)(((v4i)x & v4_set1i((int32_t)known)) == v4_set1i((int32_t)key));
    return v4_bits(same & (v4i)(x >= v4_set1(least)) & v4_gt(x, v4_set1(0)));
}

/* The least probability that stays, bit by bit from the top as in the scalar set; 0: nothing is above 0.  Whatever is
 * under (total - p) / n is not needed: all of it together is less than total - p. */
static float last_of_top_p_v128(const float *probs, size_t n, float p)
{
    v2d total = { 0, 0 };
    size_t i = 0;
    for (; i + 4 <= n; i += 4) total = v4_wide_add(total, v4_load(probs + i));
    const float least = (float)((total[0] + total[1] - p) / (double)n * 0.999);
    uint32_t key = 0, known = 0;
    double above = 0;
    for (int shift = 24; shift >= 0; shift -= 8, known = known >> 8 | 0xff000000) {
        double sum[256] = { 0 };
        for (i = 0; i < n; i += 4)
            for (int c = candidates_v128(next4_v128(probs, i, n), least, key, known); c; c &= c - 1) {
                const float x = probs[i + (size_t)__builtin_ctz((unsigned)c)];
                sum[qsf_f32_bits(x) >> shift & 255] += x;
            }
        const int digit = qsf_top_p_digit(sum, p, &above);
        if (digit < 0) return 0;
        key |= (uint32_t)digit << shift;
    }
    return qsf_f32_from_bits(key);
}

static void top_p_filter_v128(float *probs, size_t n, float p)
{
    if (!(p < 1) || !n) return;
    const float last = last_of_top_p_v128(probs, n, p);
    if (last == 0) return;
    double kept = 0;
    const v4f l = v4_set1(last);
    for (size_t i = 0; i < n; i += 4)
        for (int over = v4_bits(v4_gt(next4_v128(probs, i, n), l)); over; over &= over - 1) kept += probs[i + (size_t)__builtin_ctz((unsigned)over)];
    for (size_t i = 0; i < n; i += 4) {
        const v4f x = next4_v128(probs, i, n), stays = v4_and(x, v4_gt(x, l));
        if (i + 4 <= n) v4_store(probs + i, stays);
        else v4_store_part(probs + i, stays, n - i);
        for (int same = v4_bits(v4_eq(x, l)); same && (kept < p || kept == 0); same &= same - 1, kept += last) probs[i + (size_t)__builtin_ctz((unsigned)same)] = last;
    }
    const float f = (float)(1 / kept);
    for (size_t i = 0; i < n; i++) probs[i] *= f;
}

/* The same sums in the same order as the scalar set's. */
static double sum64_v128(const float *p)
{
    v2d s[4] = { { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } };
    for (int i = 0; i < 64; i += 8) {
        const v4f a = v4_load(p + i), b = v4_load(p + i + 4);
        s[0] += v4_wide_low(a);
        s[1] += v4_wide_high(a);
        s[2] += v4_wide_low(b);
        s[3] += v4_wide_high(b);
    }
    const v2d sum = (s[0] + s[2]) + (s[1] + s[3]);
    return sum[0] + sum[1];
}
static size_t sample_from_probs_v128(const float *probs, size_t n, float u)
{
    double below = 0;
    size_t i = 0, last = 0;
    for (; i + 64 <= n; i += 64) {
        const double s = sum64_v128(probs + i);
        if (below + s > u) break;
        below += s;
    }
    for (; i < n; i++) {
        below += probs[i];
        if (below > u && probs[i] > 0) return i;
    }
    for (i = 0; i < n; i++) if (probs[i] > 0) last = i;
    return last;
}

void qsf_sampling_v128(qsf_kernels *k)
{
    k->softmax_with_temperature = softmax_with_temperature_v128;
    k->top_k_filter = top_k_filter_v128;
    k->top_p_filter = top_p_filter_v128;
    k->sample_from_probs = sample_from_probs_v128;
    k->argmax = argmax_v128;
}

QSF_V128_END
#endif
