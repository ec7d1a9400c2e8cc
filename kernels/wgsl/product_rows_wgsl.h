/* A matrix times one to eight rows of activations: decoding, and drafts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_ROWS_H
#define QSF_WGSL_PRODUCT_ROWS_H

#include "product_wgsl.h"

/* Y[m][y_at + row] = W[row] . X[m], m < n.  Workgroups: one a tile row, or `parts`
 * (qsf_wgsl_dispatch), and without `from` in z one for each `rows` rows of the batch.  split: n <=
 * rows, and z workgroups for one, whose share is at row m + rows * z of Y. */
void qsf_wgsl_product_rows(qsf_wgsl_text *t, const qsf_wgsl_product *p);

#endif
