/* A moving window on one unit of the file: for the embedding and the head where they do not fit the budget whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WINDOW_H
#define QSF_WINDOW_H

#include "weights/loader.h"

typedef struct qsf_window {
    qsf_loader *loader;       /* whose source, memory, thread and counts it uses */
    uint32_t  unit;
    bool      threaded;       /* set by the owner: the loader's thread, where there is one, ends its reads and prepares it */
    uint8_t  *checked;        /* set by the owner: a bit for each of the unit's chunks, whose CRC has been compared; NULL: they are compared each time */
    uint8_t  *mem;
    uint64_t  cap;
    qsf_slot_state state;
    uint64_t  begin, end;     /* places in the unit's bytes that mem holds or will hold */
    qsf_tensor tile;          /* of GGUF's: becomes tiles when it is there; data NULL: nothing does */
    qsf_job   job;            /* while it is given, all below is the thread's */
    qsf_read *read;           /* under way, or NULL */
    uint64_t  begun;
    qsf_load_times took;
} qsf_window;

/* Bytes of memory for windows of at most len bytes: they are widened to whole checked chunks; and of `checked`. */
uint64_t   qsf_window_bytes(const qsf_source *s, uint32_t unit, uint64_t len);
uint64_t   qsf_window_checked_bytes(const qsf_source *s, uint32_t unit);
/* Whether windows can move over bytes [begin, end) of a unit: they are stored as they are, in one extent. */
bool       qsf_window_possible(const qsf_source *s, uint32_t unit, uint64_t begin, uint64_t end);
qsf_status qsf_window_init(qsf_window *w, qsf_loader *l, uint32_t unit, uint64_t len, qsf_error *err);
void       qsf_window_done(qsf_window *w);       /* ends a running read; takes half-built */
void       qsf_window_forget(qsf_window *w);     /* ends a running read, whatever comes of it */

/* Begins to read the unit's bytes [begin, end), unless the window holds or awaits them.  tile: NULL, or a matrix that they begin with. */
qsf_status qsf_window_start(qsf_window *w, uint64_t begin, uint64_t end, const qsf_tensor *tile, qsf_error *err);
/* QSF_PENDING, or the window is there, its CRCs hold, and w->tile is in tiles.  wait: does not return QSF_PENDING. */
qsf_status qsf_window_poll(qsf_window *w, bool wait, qsf_error *err);
/* Byte `at` of the unit, which a ready window holds. */
static inline const uint8_t *qsf_window_at(const qsf_window *w, uint64_t at) { return w->mem + (at - w->begin); }

#endif
