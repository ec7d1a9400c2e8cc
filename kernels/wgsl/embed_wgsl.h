/* Rows of the embedding, by token.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_EMBED_H
#define QSF_WGSL_EMBED_H

#include "decode_wgsl.h"
#include "floats_wgsl.h"

typedef struct qsf_wgsl_embed {
    bool     floats;            /* W is [rows][cols] of storage; else tiles of form */
    qsf_wgsl_storage storage;
    qsf_form form;
    uint32_t block;             /* columns of a tile */
} qsf_wgsl_embed;

/* Binding 0.  1: W; 2: Tokens (u32 [n]); 3: Y (floats). */
typedef struct qsf_wgsl_embed_numbers {
    uint32_t n, cols, blocks;   /* blocks: tiles of a tile row */
    uint32_t first, rows;       /* the tokens that W has; others' rows of Y stay */
    uint32_t y_ld, y_at;
    float    scale;             /* of the model: 1, or the root of cols */
} qsf_wgsl_embed_numbers;

/* Y[m] = scale * W[token m].  Workgroups: 1024 columns, n. */
void qsf_wgsl_embed_text(qsf_wgsl_text *t, const qsf_wgsl_embed *e);

#endif
