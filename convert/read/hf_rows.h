/* Rows of floats from the weight files of a Hugging Face directory, in any of their layouts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_ROWS_H
#define QSF_CONVERT_HF_ROWS_H

#include "read/hf_weights.h"

/* Heads that share a key lie side by side in the file: rows from `first` on, or columns. */
typedef struct hf_heads {
    bool     columns;
    uint32_t first, size;   /* rows or columns before the heads, and of one */
    uint32_t keys, each;    /* how many keys; heads of each; 0: rows in our order */
} hf_heads;

/* Rows of a delta net that the file has key by key: its query, itself, its values, their gates. */
typedef struct hf_sets {
    uint32_t all;           /* rows of one key in the file; 0: rows in our order */
    uint32_t key, values;   /* rows of a query or a key; of one key's values or gates */
    uint32_t first, at;     /* our rows of queries and keys, before the others; where these begin in a set */
} hf_sets;

/* The source of the values of one input tensor. */
typedef struct hf_place {
    const weights_tensor *t;
    /* Number of rows in a block; each block is in the next tensor of the list, or block_step values
     * after the previous one.  0: all rows are one block. */
    uint32_t block;
    weights_tensor *const *each;
    uint64_t block_step;
    uint64_t first;         /* values before the part */
    uint64_t row_step, col_step;        /* values from a row to the next, from a column to the next */
    hf_heads heads;
    hf_sets  sets;
    const weights_tensor *scales;       /* of MXFP4's blocks, which t then has; or NULL */
    bool     exchanged;     /* the second half of our columns comes first there */
    bool     decay;         /* values are logarithms, of which ours are the powers below zero */
    float    add;           /* Gemma stores its norms less 1 */
    bool     packed;        /* ternary codes: rows i, i + rows / 4, ... share a stored row's bytes */
    uint32_t rows;          /* of a packed tensor, unpacked */
    float    scale;         /* of ternary values; 0: the values are not codes */
    float    sharp;         /* of masters, by which they are multiplied before they are rounded; 0: none */
} hf_place;

/* Finds sharp and scale of ternary master weights [rows][cols]: by the mean magnitude, as in
 * training.  A matrix that is already ternary is left unchanged. */
qsf_status qsf_hf_weights_masters(const qsf_platform *p, const hf_weights *w, hf_place *pl, uint32_t rows,
                                  uint32_t cols, qsf_error *err);
/* The one number that tensor t holds. */
qsf_status qsf_hf_weights_number(const qsf_platform *p, const hf_weights *w, const weights_tensor *t,
                                 float *value, qsf_error *err);
/* Whether two matrices of one shape hold the same numbers. */
qsf_status qsf_hf_weights_same(const qsf_platform *p, const hf_weights *w, const weights_tensor *a,
                               const weights_tensor *b, bool *same, qsf_error *err);

/* out[n][cols]: rows [row, row+n) of the tensor at pl.  Thread-safe. */
qsf_status qsf_hf_weights_rows(const qsf_platform *p, const hf_weights *w, const hf_place *pl, uint32_t cols,
                               uint32_t row, uint32_t n, float *out, qsf_error *err);

#endif
