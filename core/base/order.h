/* Sorting by an order of the caller's, in time that no input can make quadratic.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ORDER_H
#define QSF_ORDER_H

#include "base/base.h"

/* Whether a comes after b. */
typedef bool (*qsf_after_fn)(const void *of, uint32_t a, uint32_t b);
/* Sorts order[n], numbers that after() understands.  Equal ones end in any order. */
void qsf_order_sort(uint32_t *order, uint32_t n, qsf_after_fn after, const void *of);

#endif
