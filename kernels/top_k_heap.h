/* A heap of the k largest, for all sets but the scalar one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TOP_K_HEAP_H
#define QSF_TOP_K_HEAP_H

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

#endif
