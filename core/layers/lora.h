/* What adapters add to products: for each row of a batch, the terms of its sequence's adapters.
 * SPDX-License-Identifier: MIT
 *
 * When rows x are prepared for matrices, h = A x of these matrices' pairs is computed as well; then
 * each thread adds B h to its part of the product.  Adapters add no synchronisation between
 * threads, and without adapters none of this runs. */
#ifndef QSF_LORA_H
#define QSF_LORA_H

#include "layers/matrix.h"
#include "model/adapter.h"

enum { QSF_LORA_MOST = 8 };         /* adapters of one sequence */

/* The adapters of a sequence. */
typedef struct qsf_lora_set {
    uint32_t        n;
    qsf_adapter_use use[QSF_LORA_MOST];
} qsf_lora_set;

/* Adjacent rows with the same adapters. */
typedef struct qsf_lora_span { uint32_t first, n; const qsf_lora_set *set; } qsf_lora_span;

/* One of an adapter's units that does not stay in memory. */
typedef struct qsf_lora_slot {
    const qsf_adapter *adapter;         /* NULL: the slot is free */
    int64_t            unit;            /* -1: none yet */
    uint8_t           *mem;
    uint64_t           cap;
    qsf_lora_bytes     ahead;           /* of the file, of ahead_unit; NULL: nothing is read ahead */
    uint8_t           *raw;             /* [raw_cap] memory for these bytes */
    uint64_t           raw_cap;
    int64_t            ahead_unit;      /* -1: none */
    qsf_read          *read;            /* under way; NULL: none is */
} qsf_lora_slot;

typedef struct qsf_lora {
    const qsf_platform *platform;
    uint32_t       n_seqs, n_rows;      /* of the context */
    uint32_t       n_used;              /* sequences with adapters; 0: nothing is to be done */
    qsf_lora_set  *sets;                /* [n_seqs]; NULL until a sequence gets one */
    qsf_lora_slot *slots;               /* [n_seqs * QSF_LORA_MOST] for those that are streamed */
    uint64_t       bytes_read;          /* to slots */
    qsf_lora_span *spans;               /* [n_rows] of the rows under way */
    uint32_t       n_spans;
} qsf_lora;
typedef struct qsf_lora_room qsf_lora_room;

/* Slots [first, first + n) of an expert (feed_forward_experts.c) in the wave that begins at slot
 * `wave`. */
typedef struct qsf_lora_expert { uint32_t expert, first, n, wave; } qsf_lora_expert;

/* Whether both have the same adapters, with the same scales. */
bool qsf_lora_set_same(const qsf_lora_set *a, const qsf_lora_set *b);
/* Whether sequences a and b have the same adapters. */
bool qsf_lora_same(const qsf_lora *l, uint32_t a, uint32_t b);
/* The hash of a sequence's adapters and scales; 0: it has no adapters. */
uint64_t qsf_lora_hash(const qsf_lora *l, uint32_t seq);

/* Sets the rows: those of the batch or, with asked, those that ask for logits, in order. */
void qsf_lora_rows(qsf_lora *l, const qsf_batch *b, bool asked);
/* Reads this unit's pairs of these rows' adapters, if they do not stay in memory. */
qsf_status qsf_lora_fetch(qsf_lora *l, uint32_t unit, qsf_error *err);
/* Starts to read the next unit's pairs of these rows' adapters while this unit is computed.  head:
 * the head follows the last layer. */
void qsf_lora_ahead(qsf_lora *l, uint32_t unit, uint32_t n_layers, bool head);
/* Computes h of unit's pairs of these kinds, for these rows of in, which has all rows; their codes
 * are ready, unless everything is computed with floats. */
void qsf_lora_down(const qsf_pass *p, uint32_t unit, const uint8_t *kinds, uint32_t n_kinds,
                   const qsf_matrix_in *in, qsf_range rows, uint32_t thread);
/* Prepares these rows of in for the layer's matrices of these kinds: their codes if a matrix takes
 * codes, and h. */
void qsf_rows_ready(const qsf_pass *p, const uint8_t *kinds, uint32_t n_kinds, const qsf_matrix_in *in,
                    qsf_range rows, uint32_t thread);
/* Whether anything is to be prepared. */
bool qsf_rows_need(const qsf_pass *p, uint32_t kind);
/* Adds to y[n][ldy], tiles of the product of all rows with m, a matrix of the layer. */
void qsf_lora_up(const qsf_pass *p, const qsf_matrix *m, float *y, size_t ldy, qsf_range tiles);
/* The same for an expert's slots: in has their rows, y[n][ldy] is the product with its part of the
 * matrix, which begins `skew` rows after the beginning of the first tile. */
void qsf_lora_expert_down(const qsf_pass *p, const uint8_t *kinds, uint32_t n_kinds, const qsf_matrix_in *in,
                          const qsf_lora_expert *e, uint32_t thread);
void qsf_lora_expert_up(const qsf_pass *p, uint32_t kind, const qsf_lora_expert *e, uint32_t skew, float *y,
                        size_t ldy, qsf_range tiles);
/* Whether adapters may take codes of rows that no matrix takes codes of. */
static inline bool qsf_lora_takes_codes(const qsf_pass *p) { return p->cpu->lora && !p->o->f32; }
/* Adds to logits y[n][ldy] of the rows that asked, from the j-th on: tiles of a part of the head
 * that begins at row `row`, a tile's first row. */
void qsf_lora_logits(const qsf_pass *p, uint32_t row, uint32_t j, uint32_t n, float *y, size_t ldy,
                     qsf_range tiles);
/* Adds to row r of the batch, which has been embedded. */
void qsf_lora_embed(const qsf_pass *p, uint32_t r);

#endif
