/* Heapsort (Williams 1964): O(n log n) comparisons for any input, and no memory.
 * SPDX-License-Identifier: MIT */
#include "base/order.h"

/* Moves order[at] down until no child comes after it. */
static void order_sift(uint32_t *order, size_t at, size_t n, qsf_after_fn after, const void *of)
{
    const uint32_t moved = order[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && after(of, order[child + 1], order[child])) child++;
        if (!after(of, order[child], moved)) break;
        order[at] = order[child];
    }
    order[at] = moved;
}

void qsf_order_sort(uint32_t *order, uint32_t n, qsf_after_fn after, const void *of)
{
    uint32_t sorted = 1;
    while (sorted < n && !after(of, order[sorted - 1], order[sorted])) sorted++;
    if (sorted >= n) return;            /* the common case: already in order */
    for (size_t i = n / 2; i-- > 0;) order_sift(order, i, n, after, of);
    for (size_t end = n; end-- > 1;) {
        const uint32_t last = order[0];
        order[0] = order[end];
        order[end] = last;
        order_sift(order, 0, end, after, of);
    }
}
