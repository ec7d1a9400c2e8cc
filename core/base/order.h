/* Sorting by the caller's order, in O(n log n) for any input.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ORDER_H
#define QSF_ORDER_H

#include "base/base.h"

/* Whether a comes after b. */
typedef bool (*qsf_after_fn)(const void *of, uint32_t a, uint32_t b);
/* Sorts order[n], whose elements are arguments for after().  Not stable. */
void qsf_order_sort(uint32_t *order, uint32_t n, qsf_after_fn after, const void *of);

#endif
