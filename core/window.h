/* A moving window on one unit of the file: for the embedding and the head where they do not fit the budget whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WINDOW_H
#define QSF_WINDOW_H

#include "source.h"

typedef struct qsf_window {
    const qsf_source *source;
    const qsf_platform *memory;       /* whose mem is */
    uint32_t  unit;
    uint8_t  *mem;
    uint64_t  cap;
    uint64_t  begin, end;     /* places in the unit's bytes that mem holds or will hold */
    qsf_read *read;           /* under way, or NULL */
    bool      ready;
    bool      tiled;          /* set by the owner when it has brought mem into tiles; a new read clears it */
    uint64_t  bytes_read, ns_wait, ns_check;
} qsf_window;

/* Bytes of memory for windows of at most len bytes: they are widened to whole checked chunks. */
uint64_t   qsf_window_bytes(const qsf_source *s, uint32_t unit, uint64_t len);
/* Whether windows can move over bytes [begin, end) of a unit: they are stored as they are, in one extent. */
bool       qsf_window_possible(const qsf_source *s, uint32_t unit, uint64_t begin, uint64_t end);
qsf_status qsf_window_init(qsf_window *w, const qsf_source *s, const qsf_platform *memory, uint32_t unit, uint64_t len, qsf_error *err);
void       qsf_window_done(qsf_window *w);       /* ends a running read; takes half-built */

/* Begins to read the unit's bytes [begin, end), unless the window holds or awaits them. */
qsf_status qsf_window_start(qsf_window *w, uint64_t begin, uint64_t end, qsf_error *err);
/* QSF_PENDING, or the window is there and its CRCs hold.  wait: does not return QSF_PENDING. */
qsf_status qsf_window_poll(qsf_window *w, bool wait, qsf_error *err);
/* Byte `at` of the unit, which a ready window holds. */
static inline const uint8_t *qsf_window_at(const qsf_window *w, uint64_t at) { return w->mem + (at - w->begin); }

#endif
