/* A matrix times many rows of activations: prompts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_TILES_H
#define QSF_WGSL_PRODUCT_TILES_H

#include "product_wgsl.h"

/* Y[m][y_at + row] = W[row] . X[m], m < n.  Workgroups: 64 rows of the matrix each
 * (qsf_wgsl_dispatch of tiles / 4, rounded up), and in z 64 of the batch. */
void qsf_wgsl_product_tiles(qsf_wgsl_text *t, const qsf_wgsl_product *p);

#endif
