/* The largest of many numbers with AVX2, found with a small heap.
 * SPDX-License-Identifier: MIT */
#include "top_k_heap.h"

#if defined(__x86_64__)
#include <immintrin.h>

QSF_TARGET_BEGIN("avx2,fma,f16c")
#include "math_avx2.h"

/* The k-th largest of x[n], NaN apart; *equal: how many of those equal to it are among the k. */
static float kth_largest_avx2(const float *x, size_t n, size_t k, size_t *equal)
{
    float heap[QSF_TOP_K_HEAP] = { -INFINITY };     /* GCC cannot see that k is not 0 */
    for (size_t i = 0; i < k; i++) heap[i] = -INFINITY;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        int over = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_broadcast_ss(heap),
                                                    _CMP_GT_OQ));
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
        qsf_top_k_scalar(&scalar);
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
            const __m256i lane = _mm256_set1_epi32(__builtin_ctz((unsigned)same)),
                all = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
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

void qsf_top_k_avx2(qsf_kernels *k)
{
    k->top_k_filter = top_k_filter_avx2;
}

QSF_TARGET_END
#endif
