/* A matrix times many rows of activations: prompts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_TILES_H
#define QSF_WGSL_PRODUCT_TILES_H

#include "product_wgsl.h"

/* Y[m][y_at + row] = W[row] . X[m], m < n.  Workgroups: 64 rows of the matrix each
 * (qsf_wgsl_dispatch of tiles / 4, rounded up), and in z 64 of the batch. */
void qsf_wgsl_product_tiles(qsf_wgsl_text *t, const qsf_wgsl_product *p);

/* For products of experts: what the loop needs of the workgroup's memory; then the loop itself,
 * which leaves y0 to y3: rows 16 apart of the batch, from ty on, by four of the matrix, from tx on.
 * tile, x: expressions of the tile row that invocation q = 0 .. 63 fetches, of those that follow t,
 * and of the first vec4 of its row of X. */
void qsf_wgsl_tiles_memory(qsf_wgsl_text *t, qsf_form form);
void qsf_wgsl_tiles_loop(qsf_wgsl_text *t, qsf_form form, const char *tile, const char *x);

#endif
