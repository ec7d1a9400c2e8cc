/* What low-rank adapters add to products: Y += B h, of the h = A x that other products have made.
 * SPDX-License-Identifier: MIT
 *
 * A workgroup has 256 rows of a matrix, and a row of the batch.  It brings the h of the matrix's
 * pair to its memory, as codes of 8 bits with one scale, and each invocation adds to one number of
 * Y.  Rows of the batch whose sequence does not use the adapter return at once. */
#ifndef QSF_WGSL_ADAPTER_H
#define QSF_WGSL_ADAPTER_H

#include "wgsl.h"

enum {
    QSF_WGSL_PAIRS = 3,             /* matrices of a dispatch, at most */
    QSF_WGSL_RANK = 1024            /* of an adapter, at most */
};

typedef struct qsf_wgsl_adapter {
    bool exact;             /* h and B are floats: B in fp16, the sum of one plane or two, and so is h */
    bool slots;             /* rows of Y are slots of experts (choice_wgsl.h), each of which has its own B */
} qsf_wgsl_adapter;

/* A matrix's pair.  B: tiles of qsf_kernels' add_narrow; exact: [planes][tiles][rank][16] fp16. */
typedef struct qsf_wgsl_pair {
    uint32_t rows, end;             /* of the matrix; of its workgroups, and those of the ones before */
    uint32_t b_at, h_at, y_at;      /* words of B; the first columns of H and Y */
    uint32_t rank, planes;          /* exact: the h of a plane follow those of the one before */
    float    scale;
} qsf_wgsl_pair;

/* Binding 0.  1: B (words); 2: H (floats); 3: Uses (floats): how much a row of the batch uses the
 * adapter, or 0; 4: Y (floats); with slots 5: Slots, 6: a number for each expert that multiplies
 * `scale`, or 0. */
typedef struct qsf_wgsl_adapter_numbers {
    uint32_t h_ld, y_ld;            /* floats from one row, or slot, to the next */
    float    times;
    uint32_t used, slots, y_slots;  /* of a row, as in qsf_wgsl_experts_numbers; */
    uint32_t b_step;                /* words from an expert's B to the next one's */
    uint32_t unused;
    qsf_wgsl_pair pairs[QSF_WGSL_PAIRS];
} qsf_wgsl_adapter_numbers;

/* Y[m][y_at + row] += B[row] . h[m] * scale * times * Uses[m].  Workgroups: x: the last pair's end;
 * y: rows of the batch, or slots. */
void qsf_wgsl_adapter_text(qsf_wgsl_text *t, const qsf_wgsl_adapter *a);

#endif
