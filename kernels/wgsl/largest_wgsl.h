/* The largest logit of each row: the next token of greedy sampling.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_LARGEST_H
#define QSF_WGSL_LARGEST_H

#include "wgsl.h"

/* Binding 0. */
typedef struct qsf_wgsl_largest_numbers {
    uint32_t n, cols;           /* the end: cols is the number of parts */
    uint32_t x_ld, x_at;        /* floats; the end: unused */
} qsf_wgsl_largest_numbers;

/* Functions of a shader: order() of the bits of a logit, 0 for NaN, and better() of two pairs of an
 * order and a column. */
void qsf_wgsl_put_order(qsf_wgsl_text *t);

/* Two shaders one after the other.  Parts: binding 1: X (floats); 2: written, vec2<u32> [n][parts]:
 * the largest number, as an integer of the same order, and its column.  Workgroups: parts, n.  The
 * end: 1: those; 2: written, Tokens (u32 [n]).  Workgroups: 1, n.  Of equals the first counts, NaN
 * only in a row without a number. */
void qsf_wgsl_largest(qsf_wgsl_text *t, bool end);

#endif
