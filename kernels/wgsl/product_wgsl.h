/* Matrices of tiles times rows of activations: variants, bindings, and what the texts for one row
 * and for many share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_H
#define QSF_WGSL_PRODUCT_H

#include "decode_wgsl.h"
#include "wgsl.h"

enum {
    QSF_WGSL_ROWS = 8,      /* of a batch that qsf_wgsl_product_rows multiplies at once, at most */
    QSF_WGSL_SLICES = 16    /* of K in a workgroup, at most: 16 rows of a tile each */
};

typedef struct qsf_wgsl_product {
    qsf_form form;
    uint32_t block;         /* columns of a tile */
    /* qsf_wgsl_product_rows: most rows of a batch, slices of K in a workgroup (powers of two). */
    uint32_t rows, slices;
    bool     split;         /* the same: each z of the dispatch writes its share of K */
    bool     bias;          /* added; not with split */
    bool     add;           /* adds to Y, as to the residual stream; not with split */
} qsf_wgsl_product;

/* Binding 0.  1: W, the matrix's tiles; 2: X, activations; 3: Y, floats; with bias 4: B,
 * floats. */
typedef struct qsf_wgsl_product_numbers {
    uint32_t rows, tiles, blocks;   /* of the matrix; tile rows, and tiles of one */
    uint32_t n;                     /* rows of the batch */
    uint32_t x_ld, x_at;            /* vec4s from one row of X to the next; of the first column */
    uint32_t y_ld, y_at;            /* floats from one row of Y to the next; of the first column */
} qsf_wgsl_product_numbers;

/* Numbers, bindings, the form's functions, and those that read activations and write results. */
void qsf_wgsl_product_head(qsf_wgsl_text *t, const qsf_wgsl_product *p, uint32_t threads);

#endif
