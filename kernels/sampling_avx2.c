/* Choosing among a vocabulary with AVX2: softmax, top-k through a small heap, drawing, argmax.
 * SPDX-License-Identifier: MIT */
#include "sampling.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

static float largest_avx2(const float *x, size_t n)
{
    __m256 a = _mm256_set1_ps(-INFINITY), b = a;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);           /* NaN as first operand is passed over */
        b = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), b);
    }
    float top = max_lanes_avx2(_mm256_max_ps(a, b));
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static size_t argmax_avx2(const float *x, size_t n)
{
    const float top = largest_avx2(x, n);
    const __m256 t = _mm256_set1_ps(top);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        if (_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), t, _CMP_EQ_OQ))) break;
    for (; i < n; i++) if (x[i] == top) return i;
    return 0;
}

/* exp((x - top) * f): 1 at the top, also where both are infinite, 0 for NaN. */
QSF_TEMPLATE __m256 weight8_avx2(__m256 x, float top, float f)
{
    const __m256 t = _mm256_set1_ps(top), e = exp_avx2(_mm256_mul_ps(_mm256_sub_ps(x, t), _mm256_set1_ps(f)));
    return _mm256_and_ps(_mm256_blendv_ps(e, _mm256_set1_ps(1), _mm256_cmp_ps(x, t, _CMP_EQ_OQ)), _mm256_cmp_ps(x, x, _CMP_ORD_Q));
}

static void softmax_with_temperature_avx2(float *probs, const float *logits, size_t n, float temperature)
{
    if (!n) return;
    const float top = largest_avx2(logits, n);
    if (!(temperature > 0) || top == -INFINITY) {
        const size_t best = argmax_avx2(logits, n);
        memset(probs, 0, n * sizeof *probs);
        probs[best] = 1;
        return;
    }
    const float f = 1 / temperature;
    __m256d sum = _mm256_setzero_pd();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 e = weight8_avx2(_mm256_loadu_ps(logits + i), top, f);
        _mm256_storeu_ps(probs + i, e);
        sum = add_wide_avx2(sum, e);
    }
    if (i < n) {
        const __m256i part = first_avx2(n - i);
        const __m256 e = _mm256_and_ps(weight8_avx2(_mm256_maskload_ps(logits + i, part), top, f), _mm256_castsi256_ps(part));
        _mm256_maskstore_ps(probs + i, part, e);
        sum = add_wide_avx2(sum, e);
    }
    const float r = (float)(1 / sum_lanes_pd_avx2(sum));
    for (i = 0; i < n; i++) probs[i] *= r;
}

/* The k-th largest of x[n], NaN apart; *equal: how many of those equal to it are among the k. */
static float kth_largest_avx2(const float *x, size_t n, size_t k, size_t *equal)
{
    float heap[QSF_TOP_K_HEAP] = { -INFINITY };     /* GCC cannot see that k is not 0 */
    for (size_t i = 0; i < k; i++) heap[i] = -INFINITY;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        int over = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_broadcast_ss(heap), _CMP_GT_OQ));
        for (; over; over &= over - 1) {
            const float v = x[i + (size_t)__builtin_ctz((unsigned)over)];
            if (v > heap[0]) qsf_heap_put(heap, k, v);
        }
    }
    for (; i < n; i++) if (x[i] > heap[0]) qsf_heap_put(heap, k, x[i]);
    *equal = qsf_heap_equal(heap, k);
    return heap[0];
}

static void top_k_filter_avx2(float *logits, size_t n, size_t k)
{
    if (k == 0 || k >= n || k > QSF_TOP_K_HEAP) {
        qsf_kernels scalar;
        qsf_sampling_scalar(&scalar);
        scalar.top_k_filter(logits, n, k);
        return;
    }
    size_t equal, i = 0;
    const float least = kth_largest_avx2(logits, n, k, &equal);
    const __m256 t = _mm256_set1_ps(least), gone = _mm256_set1_ps(-INFINITY);
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(logits + i);
        int same = _mm256_movemask_ps(_mm256_cmp_ps(x, t, _CMP_EQ_OQ));
        __m256 stays = _mm256_cmp_ps(x, t, _CMP_GT_OQ);
        for (; same && equal; same &= same - 1, equal--) {
            const __m256i lane = _mm256_set1_epi32(__builtin_ctz((unsigned)same)), all = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            stays = _mm256_or_ps(stays, _mm256_castsi256_ps(_mm256_cmpeq_epi32(lane, all)));
        }
        _mm256_storeu_ps(logits + i, _mm256_blendv_ps(gone, x, stays));
    }
    for (; i < n; i++)
        if (!(logits[i] > least)) {
            if (logits[i] == least && equal) equal--;
            else logits[i] = -INFINITY;
        }
}

/* Eight of n floats from i on, zeros behind the end. */
QSF_TEMPLATE __m256 next8_avx2(const float *x, size_t i, size_t n)
{
    return i + 8 <= n ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, first_avx2(n - i));
}

/* Lanes of x that are at least `least`, above 0, and whose bits under `known` are key's. */
QSF_TEMPLATE int candidates_avx2(__m256 x, float least, uint32_t key, uint32_t known)
{
    const __m256i same = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32((int)known)), _mm256_set1_epi32((int)key));
    const __m256 high = _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(least), _CMP_GE_OQ), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_movemask_ps(_mm256_and_ps(high, _mm256_castsi256_ps(same)));
}

/* The least probability that stays, bit by bit from the top as in the scalar set; 0: nothing is above 0.  Whatever is
 * under (total - p) / n is not needed: all of it together is less than total - p. */
static float last_of_top_p_avx2(const float *probs, size_t n, float p)
{
    __m256d total = _mm256_setzero_pd();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) total = add_wide_avx2(total, _mm256_loadu_ps(probs + i));
    const float least = (float)((sum_lanes_pd_avx2(total) - p) / (double)n * 0.999);
    uint32_t key = 0, known = 0;
    double above = 0;
    for (int shift = 24; shift >= 0; shift -= 8, known = known >> 8 | 0xff000000) {
        double sum[256] = { 0 };
        for (i = 0; i < n; i += 8)
            for (int c = candidates_avx2(next8_avx2(probs, i, n), least, key, known); c; c &= c - 1) {
                const float x = probs[i + (size_t)__builtin_ctz((unsigned)c)];
                sum[qsf_f32_bits(x) >> shift & 255] += x;
            }
        const int digit = qsf_top_p_digit(sum, p, &above);
        if (digit < 0) return 0;
        key |= (uint32_t)digit << shift;
    }
    return qsf_f32_from_bits(key);
}

static void top_p_filter_avx2(float *probs, size_t n, float p)
{
    if (!(p < 1) || !n) return;
    const float last = last_of_top_p_avx2(probs, n, p);
    if (last == 0) return;
    double kept = 0;
    const __m256 l = _mm256_set1_ps(last);
    for (size_t i = 0; i < n; i += 8) {
        for (int over = _mm256_movemask_ps(_mm256_cmp_ps(next8_avx2(probs, i, n), l, _CMP_GT_OQ)); over; over &= over - 1) kept += probs[i + (size_t)__builtin_ctz((unsigned)over)];
    }
    for (size_t i = 0; i < n; i += 8) {
        const __m256 x = next8_avx2(probs, i, n), stays = _mm256_and_ps(x, _mm256_cmp_ps(x, l, _CMP_GT_OQ));
        int same = _mm256_movemask_ps(_mm256_cmp_ps(x, l, _CMP_EQ_OQ));
        if (i + 8 <= n) _mm256_storeu_ps(probs + i, stays);
        else _mm256_maskstore_ps(probs + i, first_avx2(n - i), stays);
        for (; same && (kept < p || kept == 0); same &= same - 1, kept += last) probs[i + (size_t)__builtin_ctz((unsigned)same)] = last;
    }
    const float f = (float)(1 / kept);
    for (size_t i = 0; i < n; i++) probs[i] *= f;
}

/* The same sums in the same order as the scalar set's. */
static double sum64_avx2(const float *p)
{
    __m256d low = _mm256_setzero_pd(), high = low;
    for (int i = 0; i < 64; i += 8) {
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm_loadu_ps(p + i)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm_loadu_ps(p + i + 4)));
    }
    return sum_lanes_pd_avx2(_mm256_add_pd(low, high));
}
static size_t sample_from_probs_avx2(const float *probs, size_t n, float u)
{
    double below = 0;
    size_t i = 0, last = 0;
    for (; i + 64 <= n; i += 64) {
        const double s = sum64_avx2(probs + i);
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

void qsf_sampling_avx2(qsf_kernels *k)
{
    k->softmax_with_temperature = softmax_with_temperature_avx2;
    k->top_k_filter = top_k_filter_avx2;
    k->top_p_filter = top_p_filter_avx2;
    k->sample_from_probs = sample_from_probs_avx2;
    k->argmax = argmax_avx2;
}

QSF_TARGET_END
#endif
