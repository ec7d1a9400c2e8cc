/* What choosing among a vocabulary is made of in every set: a heap of the k largest, a digit of the least probability that stays.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAMPLING_H
#define QSF_SAMPLING_H

#include "sets.h"

enum { QSF_TOP_K_HEAP = 512 };          /* a larger k goes the scalar way */

/* Replaces the least of heap[k], its root, by x. */
static inline void qsf_heap_put(float *heap, size_t k, float x)
{
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < k; at = child) {
        if (child + 1 < k && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < x)) break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

/* How many of the heap's numbers equal its least. */
static inline size_t qsf_heap_equal(const float *heap, size_t k)
{
    size_t equal = 0;
    for (size_t i = 0; i < k; i++) equal += heap[i] == heap[0];
    return equal;
}

/* The least digit that stays, where sum[256] is what numbers of each digit come to: *above, what larger ones come to, is raised by those
 * above the digit.  -1: all sums are 0. */
static inline int qsf_top_p_digit(const double sum[256], float p, double *above)
{
    int lowest = -1;
    for (int digit = 255; digit >= 0; digit--) {
        if (sum[digit] == 0) continue;
        lowest = digit;
        if (*above + sum[digit] >= p) return digit;
        *above += sum[digit];
    }
    if (lowest >= 0) *above -= sum[lowest];             /* rounding: even all of them do not reach p */
    return lowest;
}

#endif
