/* Sequences on disk: evicted from memory, and read back if that is faster than computing them.
 * SPDX-License-Identifier: MIT
 *
 * One unlinked file holds them, each in one contiguous range, within a limit; the least recently
 * used are evicted.  The engine's thread copies a sequence to a buffer, or from it; the store's own
 * thread writes and reads the file.  What cannot be written or read is dropped: no request fails.
 * All functions are for the engine's thread. */
#ifndef QSF_SERVE_DISK_H
#define QSF_SERVE_DISK_H

#include "metrics.h"

#include <qsf.h>
#include <stdbool.h>

typedef struct disk_store disk_store;

typedef struct disk_options {
    const char *dir;                       /* of the file; NULL: the system's folder for temporary files */
    uint64_t    limit;                     /* bytes on disk */
    uint64_t    staging;                   /* bytes in memory, on their way */
    serve_metrics *metrics;
    void      (*wake)(void *user);         /* something was read; called on the store's thread */
    void       *user;
} disk_options;

/* NULL: *err says why. */
disk_store *disk_new(const disk_options *o, qsf_error *err);
void disk_free(disk_store *d);                               /* takes NULL */
/* Takes over what the thread has done. */
void disk_look(disk_store *d);

/* Writes a sequence with its tokens, unless computing it again, at row_ns a token, is faster than
 * reading it (pause: than writing and reading it).  key: of its adapters; it is found only with the
 * same key.  held_ns: until then it is evicted after others.
 * Returns its entry, which may hold more tokens after these; -1: it was not written. */
int32_t disk_put(disk_store *d, const qsf_context *c, qsf_seq s, uint64_t key, const int32_t *ids, uint32_t n,
                 double row_ns, bool pause, uint64_t held_ns);
/* The entry with the longest prefix of a prompt, if reading it is faster than computing its tokens
 * after the first `have`; *n: the prefix's length.  -1: no such entry. */
int32_t disk_like(disk_store *d, uint64_t key, const int32_t *ids, uint32_t len, uint32_t have,
                  double row_ns, uint32_t *n);

/* A held entry is not evicted; each hold is undone by one disk_let_go. */
void disk_hold(disk_store *d, int32_t entry);
void disk_let_go(disk_store *d, int32_t entry);
uint32_t disk_length(const disk_store *d, int32_t entry);    /* tokens */

typedef enum disk_fetched { DISK_COMES, DISK_READY, DISK_LOST } disk_fetched;
/* Asks for an entry that is held.  DISK_COMES: wake() will be called. */
disk_fetched disk_fetch(disk_store *d, int32_t entry);
bool disk_coming(const disk_store *d, int32_t entry);
/* Loads a ready entry into sequence s, and its tokens into ids, which has room for cap of them. */
bool disk_load(disk_store *d, int32_t entry, qsf_context *c, qsf_seq s, int32_t *ids, size_t cap);

#endif
