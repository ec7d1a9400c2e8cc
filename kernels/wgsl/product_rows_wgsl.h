/* A matrix times one to eight rows of activations: decoding, and drafts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_ROWS_H
#define QSF_WGSL_PRODUCT_ROWS_H

#include "product_wgsl.h"

/* Y[m][y_at + row] = W[row] . X[m], m < n <= rows.  Workgroups: one a tile row
 * (qsf_wgsl_dispatch); 16 * slices invocations.  split: z workgroups for one, whose share is at row
 * m + rows * z of Y. */
void qsf_wgsl_product_rows(qsf_wgsl_text *t, const qsf_wgsl_product *p);

#endif
