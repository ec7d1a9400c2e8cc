/* Matrices of tiles times rows of activations: variants, bindings, and what the texts for one row
 * and for many share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_PRODUCT_H
#define QSF_WGSL_PRODUCT_H

#include "decode_wgsl.h"
#include "rows_wgsl.h"

enum {
    QSF_WGSL_ROWS = 8,      /* of a batch that qsf_wgsl_product_rows multiplies at once, at most */
    QSF_WGSL_SLICES = 16    /* of K in a workgroup that has the 16 rows of a tile, at most */
};

typedef struct qsf_wgsl_product {
    qsf_form form;
    uint32_t block;         /* columns of a tile */
    /* qsf_wgsl_product_rows: most rows of a batch in a workgroup, slices of K (powers of two). */
    uint32_t rows, slices;
    /* The same: a workgroup has the 16 rows of a tile (0 or 1), or a half (2) or a quarter (4) of
     * them, with up to 16 times as many slices. */
    uint32_t parts;
    /* The same: W is two matrices, one after the other, and Y is function(first) * second. */
    bool     gated;
    qsf_wgsl_function function;
    bool     split;         /* the same: each z of the dispatch writes its share of K */
    bool     bias;          /* added; not with split.  gated: of both matrices */
    bool     add;           /* adds to Y, as to the residual stream; not with split or gated */
    /* the sum times `scale`, plus bias, times `times`; not with split or gated */
    bool     scaled;
    /* qsf_wgsl_product_rows, or NULL: what each workgroup makes codes of by itself, which saves a
     * dispatch.  Codes are all that it may write, and the workgroup must have 256 invocations. */
    const qsf_wgsl_rows *from;
    uint32_t cols;          /* with `from`: the most columns, padded as X would be */
} qsf_wgsl_product;

/* Invocations of a workgroup for each slice. */
static inline uint32_t qsf_wgsl_product_lanes(const qsf_wgsl_product *p)
{
    return p->gated ? 32 : p->parts ? 16 / p->parts : 16;
}

/* Whether a workgroup's memory has room for the codes. */
bool qsf_wgsl_product_fits(const qsf_wgsl_product *p);

/* Binding 0; gated: rows and tiles are those of one of the matrices.  Then W (the matrix's tiles),
 * X (activations; with `from` its A to sinks), Y (floats), with bias B (floats). */
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
    uint32_t flag;                  /* with `from` */
} qsf_wgsl_product_numbers;

/* fn sums_of(head, group): sums of a group's halves, out of the first vec4 of 64 columns. */
void qsf_wgsl_read_sums(qsf_wgsl_text *t);
/* Numbers, bindings, the form's functions, and those that read activations and write results. */
void qsf_wgsl_product_head(qsf_wgsl_text *t, const qsf_wgsl_product *p, uint32_t threads);

#endif
