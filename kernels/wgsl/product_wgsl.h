/* Matrices of tiles times rows of activations: variants, bindings, and what the texts for one row
 * and for many share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_H
#define QSF_WGSL_PRODUCT_H

#include "decode_wgsl.h"
#include "rows_wgsl.h"

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
    bool     scaled;        /* the sum times `scale`, plus bias, times `times`; not with split */
    /* qsf_wgsl_product_rows, or NULL: what each workgroup makes codes of by itself, which saves a
     * dispatch.  Codes are all that it may write, and slices must be 16. */
    const qsf_wgsl_rows *from;
    uint32_t cols;          /* with `from`: the most columns, padded as X would be */
} qsf_wgsl_product;

/* Whether a workgroup's memory has room for the codes. */
bool qsf_wgsl_product_fits(const qsf_wgsl_product *p);

/* Binding 0.  Then W (the matrix's tiles), X (activations; with `from` its A to sinks), Y (floats),
 * with bias B (floats). */
typedef struct qsf_wgsl_product_numbers {
    uint32_t rows, tiles, blocks;   /* of the matrix; tile rows, and tiles of one */
    uint32_t n;                     /* rows of the batch */
    uint32_t x_ld, x_at;            /* vec4s from one row of X to the next; of the first column */
    uint32_t y_ld, y_at;            /* floats from one row of Y to the next; of the first column */
    /* with `from`: as in qsf_wgsl_rows_numbers; x_ld is that of the codes in the workgroup */
    uint32_t cols, a_ld, a_at, b_ld, b_at;
    float    eps;
    uint32_t shares, share_ld, heads, head_dim, chunks, room, gate_ld;
    float    gain, of_function[4];
    float    scale, times;
} qsf_wgsl_product_numbers;

/* fn sums_of(head, group): sums of a group's halves, out of the first vec4 of 64 columns. */
void qsf_wgsl_read_sums(qsf_wgsl_text *t);
/* Numbers, bindings, the form's functions, and those that read activations and write results. */
void qsf_wgsl_product_head(qsf_wgsl_text *t, const qsf_wgsl_product *p, uint32_t threads);

#endif
