/* The embedding: tokens to the rows that layers take.  In memory, or (if the budget is too small
 * for it) streamed in parts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EMBEDDING_H
#define QSF_EMBEDDING_H

#include "layers/matrix_place.h"
#include "layers/pass.h"
#include "weights/stream.h"

typedef struct qsf_embedding {
    qsf_fetch  *fetch;
    bool       streamed;
    qsf_matrix_place place;
    qsf_stream rows;                   /* one strip of them */
    const qsf_slot *strip;             /* what has been fetched last */
    /* Wanted in place of the next row, by an executor to which the matrix moves: a part of at most
     * the plan's size.  end 0: none. */
    uint64_t   begin, end;
    uint32_t   part_rows;              /* rows of such a part; 0: no part is possible */
    const qsf_tensor *tile;            /* as of qsf_want */
    /* Strips of tokens' rows for layers, if the model has them. */
    qsf_matrix_place table_place;
    qsf_stream table;
    const qsf_slot *table_strip;
    uint32_t  *order;                  /* [n_batch] the batch's rows by token: neighbours share a strip */
    uint32_t   n_batch;
    uint32_t   next;                   /* of order: the first row that is not embedded yet */
    uint32_t   n_order;
    /* Embedded rows of the tokens that were used last: a stream brings a strip, and whole checked
     * chunks, for each. */
    uint32_t   n_kept;
    float     *kept;                   /* [n_kept][n_embd, then columns of the table] */
    int32_t   *kept_token;             /* [n_kept] -1: empty */
    uint64_t  *kept_used;              /* [n_kept] when, by used */
    uint64_t   used;
} qsf_embedding;

typedef struct qsf_embedding_plan {
    bool       streams;
    uint32_t   n_kept;                 /* rows */
    uint32_t   n_batch;
    uint64_t   part;                   /* bytes that may be fetched at once; 0: a strip */
} qsf_embedding_plan;

bool       qsf_embedding_can_stream(const qsf_source *s);
/* Memory of one that streams, without the rows that are kept; and of these. */
uint64_t   qsf_embedding_bytes(const qsf_source *s, const qsf_embedding_plan *plan);
uint64_t   qsf_embedding_kept_bytes(const qsf_source *s, const qsf_embedding_plan *plan);
qsf_status qsf_embedding_init(qsf_embedding *e, qsf_fetch *f, const qsf_embedding_plan *plan,
                              qsf_error *err);
void       qsf_embedding_done(qsf_embedding *e);       /* before the fetch's; takes one never begun */

/* A batch begins: its rows in the order of their tokens. */
void       qsf_embedding_begin(qsf_embedding *e, const qsf_pass *p);
/* Brings what is needed next; *w is the unit if it is in memory.  wait: does not return
 * QSF_PENDING. */
qsf_status qsf_embedding_fetch(qsf_embedding *e, const qsf_batch *batch, bool wait, const qsf_weights **w,
                               qsf_error *err);
/* After a fetch: true when all rows are embedded.  p->w is the unit; places: [n_vocab] tokens'
 * rows, if these are in another order than the file's, or NULL. */
bool       qsf_embedding_compute(qsf_embedding *e, const qsf_pass *p, const uint32_t *places);

/* Between batches, waiting: a token's row as the file has it, without what a batch adds to it or
 * multiplies it by.  out, room: [n_embd] the second one is scratch. */
qsf_status qsf_embedding_row(qsf_embedding *e, int32_t token, float *out, float *room, qsf_error *err);

#endif
