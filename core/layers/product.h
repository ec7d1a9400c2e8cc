/* A product of all rows of a batch as jobs of their own: codes, if the matrix takes them, then
 * it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PRODUCT_H
#define QSF_PRODUCT_H

#include "layers/matrix.h"

/* y[n][ldy] = x[n][ld] . the layer's matrix of this kind + bias, n of the batch. */
typedef struct qsf_product_to {
    uint32_t     kind;
    const float *x;
    size_t       ld, cols;
    float       *y;
    size_t       ldy;
    const float *bias;          /* may be NULL */
    qsf_op       codes, op;     /* whose time the two jobs are */
} qsf_product_to;

void qsf_product_run(qsf_pass_job *job, const qsf_product_to *to);

#endif
