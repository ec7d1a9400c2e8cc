/* The largest of many numbers in plain C.  It does not sort or allocate: the smallest number to
 * keep is found by counting the bits of the floats from the top down.
 * SPDX-License-Identifier: MIT */
#include "top_k_heap.h"

/* Greater float, greater key; the two zeros are equal, NaN has the least. */
static uint32_t float_key_scalar(float x)
{
    const uint32_t u = qsf_f32_bits(x + 0.0f);
    if (x != x) return 0;
    return u & 0x80000000 ? ~u : u | 0x80000000;
}

static void top_k_filter_scalar(float *logits, size_t n, size_t k)
{
    /* the k-th largest key, and which of its bits are found */
    uint32_t key = 0, known = 0;
    size_t left = k;                                    /* how many of those that share these bits stay */
    if (!k) key = UINT32_MAX;
    else if (k < n) for (int shift = 24; shift >= 0; shift -= 8, known = known >> 8 | 0xff000000) {
        size_t count[256] = { 0 };
        for (size_t i = 0; i < n; i++) {
            const uint32_t u = float_key_scalar(logits[i]);
            if ((u & known) == key) count[u >> shift & 255]++;
        }
        uint32_t digit = 255;
        while (left > count[digit]) left -= count[digit--];
        key |= digit << shift;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = float_key_scalar(logits[i]);
        bool stays = u > key || k >= n;
        if (u == key && left) stays = true, left--;
        if (!stays || !u) logits[i] = -INFINITY;
    }
}

void qsf_top_k_scalar(qsf_kernels *k)
{
    k->top_k_filter = top_k_filter_scalar;
}
