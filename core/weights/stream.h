/* A unit of the file in parts: for the embedding and the head if they do not fit the budget as a
 * whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STREAM_H
#define QSF_STREAM_H

#include "weights/fetch.h"

typedef struct qsf_stream {
    qsf_fetch  *fetch;        /* NULL: the stream does not exist */
    qsf_unit_id id;
    qsf_shelf   shelf;
} qsf_stream;

/* Whether bytes [begin, end) of a unit can be read in parts: they are stored uncompressed, in one
 * extent. */
bool       qsf_stream_possible(const qsf_source *s, qsf_unit_id id, uint64_t begin, uint64_t end);
/* Memory of a stream of parts of at most len bytes through n slots: parts are widened to whole
 * checked chunks. */
uint64_t   qsf_stream_bytes(const qsf_source *s, qsf_unit_id id, uint32_t n, uint64_t len);
/* threaded: the fetch's thread, if there is one, ends its reads and checks them.  st must not
 * move. */
qsf_status qsf_stream_init(qsf_stream *st, qsf_fetch *f, qsf_unit_id id, uint32_t n, uint64_t len,
                           bool threaded, qsf_error *err);
void       qsf_stream_done(qsf_stream *st);     /* before the fetch's; accepts a partly built one */

/* Begins to read bytes [begin, end) of the unit, if a slot is free for them.  tile: NULL, or a
 * GGUF matrix that they begin with. */
qsf_status qsf_stream_start(qsf_stream *st, uint64_t begin, uint64_t end, const qsf_tensor *tile,
                            qsf_error *err);
/* QSF_PENDING, or (*slot)->mem has them, their CRCs hold, and (*slot)->tile is in tiles.  wait:
 * does not return QSF_PENDING. */
qsf_status qsf_stream_get(qsf_stream *st, uint64_t begin, uint64_t end, const qsf_tensor *tile, bool wait,
                          const qsf_slot **slot, qsf_error *err);

#endif
