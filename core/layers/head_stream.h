/* The head's weights: in memory, or (if the budget is too small for them) part by part.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_STREAM_H
#define QSF_HEAD_STREAM_H

#include "layers/head_logits.h"
#include "layers/matrix_place.h"
#include "weights/stream.h"

typedef struct qsf_head_stream {
    qsf_fetch  *fetch;
    bool       streamed;
    bool       elsewhere;              /* the executor has the matrix: of a stream no part is fetched */
    qsf_matrix_place place;
    qsf_stream parts;                  /* QSF_PARTS_AHEAD of them */
    qsf_stream final_norm;             /* of a unit that also holds the head */
    const qsf_slot *part;              /* what has been fetched last */
    uint32_t   rows;                   /* of a part, a multiple of 16 */
    uint32_t   n_parts;                /* 1 if the head is in memory */
    qsf_weights vectors;
    float     *norm;                   /* [2][n_embd] weight and bias */
} qsf_head_stream;

typedef struct qsf_head_stream_plan {
    bool       streams;
    uint64_t   part;                   /* bytes of a part of the head */
} qsf_head_stream_plan;

bool       qsf_head_can_stream(const qsf_source *s);
/* Memory of one that streams. */
uint64_t   qsf_head_stream_bytes(const qsf_source *s, const qsf_head_stream_plan *plan);
qsf_status qsf_head_stream_init(qsf_head_stream *h, qsf_fetch *f, const qsf_head_stream_plan *plan,
                                qsf_error *err);
void       qsf_head_stream_done(qsf_head_stream *h);       /* before the fetch's; takes one never begun */

/* The units of the final norm and, if it is in memory, of the head. */
typedef struct qsf_head_units { const qsf_weights *final, *head; } qsf_head_units;

/* Brings the final norm alone: QSF_PENDING, or it is there.  wait: does not return QSF_PENDING. */
qsf_status qsf_head_stream_norm(qsf_head_stream *h, bool wait, const qsf_weights **final, qsf_error *err);
/* Brings part `part`: QSF_PENDING, or it is there.  wait: does not return QSF_PENDING. */
qsf_status qsf_head_stream_fetch(qsf_head_stream *h, uint32_t part, bool wait, qsf_head_units *units,
                                 qsf_error *err);
/* After a fetch. */
qsf_head_part qsf_head_stream_part(const qsf_head_stream *h, uint32_t part, const qsf_head_units *units);
/* Begins to read the head while layers are computed: all of it if it stays in memory; of one that
 * streams the first parts, during the last layers. */
void       qsf_head_stream_ahead(qsf_head_stream *h, bool last);
/* `part` was computed: begins to read what comes after the others. */
void       qsf_head_stream_next(qsf_head_stream *h, uint32_t part);

#endif
