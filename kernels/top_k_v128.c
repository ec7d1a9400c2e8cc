/* The largest of many numbers over four floats, SSE4.2 and NEON, found with a small heap.
 * SPDX-License-Identifier: MIT */
#include "top_k_heap.h"
#include "v128.h"

#if defined(QSF_V128)
QSF_V128_BEGIN

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
        qsf_top_k_scalar(&scalar);
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
        for (; same && equal; same &= same - 1, equal--)
            logits[i + (size_t)__builtin_ctz((unsigned)same)] = x[__builtin_ctz((unsigned)same)];
    }
    for (; i < n; i++)
        if (!(logits[i] > least)) {
            if (logits[i] == least && equal) equal--;
            else logits[i] = -INFINITY;
        }
}

void qsf_top_k_v128(qsf_kernels *k)
{
    k->top_k_filter = top_k_filter_v128;
}

QSF_V128_END
#endif
