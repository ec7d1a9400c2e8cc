/* What adapters add to products, for each row of a batch by the adapters of its sequence.
 * SPDX-License-Identifier: MIT
 *
 * Where rows x meet matrices, first all threads share h = A x of these matrices' pairs; then, each
 * beside its part of the product, y += B h.  Without adapters nothing of this runs. */
#ifndef QSF_LORA_H
#define QSF_LORA_H

#include "engine/matrix.h"
#include "model/adapter.h"

enum { QSF_LORA_MOST = 8 };         /* adapters of one sequence */

/* The adapters of a sequence. */
typedef struct qsf_lora_set {
    uint32_t        n;
    qsf_adapter_use use[QSF_LORA_MOST];
} qsf_lora_set;

/* Neighbouring rows with the same ones. */
typedef struct qsf_lora_span { uint32_t first, n; const qsf_lora_set *set; } qsf_lora_span;

typedef struct qsf_lora {
    const qsf_platform *platform;
    uint32_t       n_seqs, n_rows;      /* of the context */
    uint32_t       n_used;              /* sequences with adapters; 0: nothing is to be done */
    qsf_lora_set  *sets;                /* [n_seqs]; NULL until a sequence gets one */
    qsf_lora_span *spans;               /* [n_rows] of the rows under way */
    uint32_t       n_spans;
    float         *h;                   /* [n_rows][ld_h] */
    size_t         ld_h, cap_h;
} qsf_lora;

void qsf_lora_done(qsf_lora *l);        /* takes one that was never begun, all zeros */
/* Whether sequences a and b have the same adapters. */
bool qsf_lora_same(const qsf_lora *l, uint32_t a, uint32_t b);
/* Of a sequence's adapters and scales; 0: it has none. */
uint64_t qsf_lora_hash(const qsf_lora *l, uint32_t seq);

/* Says which rows come: those of the batch, or with asked those that ask for logits, in order. */
void qsf_lora_rows(qsf_lora *l, const qsf_batch *b, bool asked);
/* Computes h of unit's pairs of these kinds from x[][ld]. */
void qsf_lora_down(qsf_pass_job *job, uint32_t unit, const uint8_t *kinds, uint32_t n_kinds, const float *x,
                   size_t ld);
/* To y[n][ldy], tiles of the product of all rows with m, which is a matrix of the layer's. */
void qsf_lora_up(const qsf_pass *p, const qsf_matrix *m, float *y, size_t ldy, qsf_range tiles);
/* To logits[n][ldy] of the rows that asked from j on: tiles of a part of the head that begins at
 * row `row`. */
void qsf_lora_logits(const qsf_pass *p, uint32_t row, uint32_t rows, uint32_t j, uint32_t n, float *y,
                     size_t ldy, qsf_range tiles);
/* To row r of the batch, which was embedded. */
void qsf_lora_embed(const qsf_pass *p, uint32_t r);

#endif
