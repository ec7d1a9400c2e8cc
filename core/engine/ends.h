/* The two ends of a pass, embedding and head: in memory, or streamed in parts where the budget is
 * too small for them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENDS_H
#define QSF_ENDS_H

#include "weights/stream.h"

typedef struct qsf_ends {
    const qsf_source *source;
    const qsf_platform *mem;           /* whose memory it takes */
    bool       embd_streamed, head_streamed;    /* a head that is the embedding goes with it */
    qsf_tensor embd, head;             /* shapes and types; data is not used */
    uint64_t   embd_at, head_at;       /* places in their units */
    qsf_unit_id head_unit;
    qsf_stream embd_rows;              /* one strip of them */
    qsf_stream head_parts;             /* QSF_PARTS_AHEAD of them */
    qsf_stream final_norm;             /* of a unit that also holds the head */
    const qsf_slot *strip, *part;      /* what has been fetched last */
    uint32_t   head_rows;              /* rows of a part, a multiple of 16 */
    uint32_t   n_parts;                /* 1 where the head is in memory */
    qsf_weights vectors;
    float     *norm;                   /* [2][n_embd] weight and bias */
    uint32_t  *order;                  /* [n_batch] rows of the batch by token, so that neighbours share a strip */
    uint32_t   n_batch;
    uint32_t   next;                   /* of order: the first row that is not embedded yet */
    uint32_t   n_order;
    /* Embedded rows of the tokens that were used last: a window brings a strip, and whole checked chunks, for each. */
    uint32_t   n_kept;
    float     *kept;                   /* [n_kept][n_embd] */
    int32_t   *kept_token;             /* [n_kept] -1: empty */
    uint64_t  *kept_used;              /* [n_kept] when, by used */
    uint64_t   used;
} qsf_ends;

/* What streams, and with how much memory. */
typedef struct qsf_ends_plan {
    bool     embd, head;
    uint64_t head_part;                /* bytes of a part of the head */
    uint32_t n_kept;                   /* rows of the embedding */
    uint32_t n_batch;
} qsf_ends_plan;

struct qsf_context;

/* What can stream.  Where the head is the embedding it is both or none. */
void       qsf_ends_can_stream(const qsf_source *s, bool *embd, bool *head);
/* Memory of what streams, without the rows that are kept; and of these. */
uint64_t   qsf_ends_bytes(const qsf_source *s, const qsf_ends_plan *plan);
uint64_t   qsf_ends_kept_bytes(const qsf_source *s, const qsf_ends_plan *plan);
qsf_status qsf_ends_init(qsf_ends *e, qsf_fetch *f, const qsf_ends_plan *plan, qsf_error *err);
void       qsf_ends_done(qsf_ends *e);         /* before the fetch's */

/* The batch's rows in the order of their tokens. */
void       qsf_ends_begin(struct qsf_context *c);
/* What the embedding, or part `part` of the head, needs: QSF_PENDING or there.  wait: does not return QSF_PENDING. */
qsf_status qsf_ends_fetch_embd(struct qsf_context *c, bool wait);
qsf_status qsf_ends_fetch_head(struct qsf_context *c, uint32_t part, bool wait);
/* After a fetch.  embed returns true when all rows are embedded. */
bool       qsf_ends_embed(struct qsf_context *c);
void       qsf_ends_head(struct qsf_context *c, uint32_t part);
/* Begins to read the first parts of the head, while the last layers are computed. */
void       qsf_ends_ahead(struct qsf_context *c);

#endif
