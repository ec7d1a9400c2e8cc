/* Sequences on disk.
 * SPDX-License-Identifier: MIT
 *
 * An entry has a range of the file, its tokens, and a buffer while it is being written or read.  It
 * belongs to the engine's thread, except while an operation on it is queued: then the store's
 * thread reads its buffer and range, which do not change meanwhile, and writes the result. */
#include "disk.h"
#include "clock.h"
#include "disk_file.h"
#include "prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DISK_ENTRIES = 4096, DISK_LEAST = 16 };      /* LEAST: tokens that are worth an entry */

typedef enum entry_state { ENTRY_FREE, ENTRY_WRITING, ENTRY_THERE, ENTRY_READING, ENTRY_GONE } entry_state;
typedef struct disk_entry {
    entry_state state;
    disk_work   work;                       /* with stretch and buffer */
    int32_t    *ids;
    uint32_t    n, holders;
    uint64_t    used, held_ns;
    bool        wanted;                     /* the buffer stays: a branch waits for it */
} disk_entry;

struct disk_store {
    disk_file     *file;
    serve_metrics *metrics;
    uint64_t       limit, staging, uses;
    uint64_t       staged, stored;          /* bytes in buffers; of entries */
    char          *spare;                   /* a buffer for the next one: fresh memory is slow */
    uint64_t       spare_bytes;
    prefix_tree   *tree;
    disk_entry    *entries;                 /* [DISK_ENTRIES] */
    int32_t       *order;                   /* those with a stretch, as they lie in the file */
    uint32_t       n_order;
    double         write_ns, read_ns, save_ns, load_ns;     /* measured, a byte */
    bool           said;                    /* that the disk fails */
};

disk_store *disk_new(const disk_options *o, qsf_error *err)
{
    disk_store *d = calloc(1, sizeof *d);
    *err = (qsf_error){ .status = QSF_E_MEMORY, .text = "out of memory" };
    if (!d) return NULL;
    *d = (disk_store){ .metrics = o->metrics, .limit = o->limit, .staging = o->staging, .write_ns = 1,
                       .read_ns = 1, .save_ns = 0.5, .load_ns = 0.5 };      /* until it is measured */
    d->tree = prefix_new(DISK_ENTRIES);
    d->entries = calloc(DISK_ENTRIES, sizeof *d->entries);
    d->order = calloc(DISK_ENTRIES, sizeof *d->order);
    if (d->tree && d->entries && d->order) d->file = disk_file_new(o->dir, o->wake, o->user, err);
    if (d->file) return d;
    disk_free(d);
    return NULL;
}

void disk_free(disk_store *d)
{
    if (!d) return;
    disk_file_free(d->file);
    for (uint32_t i = 0; d->entries && i < DISK_ENTRIES; i++) {
        free(d->entries[i].work.buffer);
        free(d->entries[i].ids);
    }
    free(d->spare);
    prefix_free(d->tree);
    free(d->entries);
    free(d->order);
    free(d);
}

/* ---- entries ---- */

static void disk_show(disk_store *d)
{
    metric_set(&d->metrics->swap_bytes, d->stored);
    metric_set(&d->metrics->swap_sequences, d->n_order);
}

/* Memory for an entry's bytes; false: out of memory, or the staging limit is reached. */
static bool entry_buffer_new(disk_store *d, disk_entry *e)
{
    disk_work *w = &e->work;
    if (d->staged + w->bytes > d->staging) return false;
    const bool fits = d->spare_bytes >= w->bytes;
    w->room = fits ? d->spare_bytes : w->bytes;
    w->buffer = fits ? d->spare : malloc((size_t)w->bytes);
    if (fits) d->spare = NULL, d->spare_bytes = 0;
    if (w->buffer) d->staged += w->bytes;
    return w->buffer != NULL;
}

static void entry_buffer_free(disk_store *d, disk_entry *e)
{
    enum { PART = 8 };
    disk_work *w = &e->work;
    if (!w->buffer) return;
    d->staged -= w->bytes;
    if (w->room > d->spare_bytes && w->room <= d->staging / PART) {
        free(d->spare);
        d->spare = w->buffer;
        d->spare_bytes = w->room;
    } else {
        free(w->buffer);
    }
    w->buffer = NULL;
}

/* Takes it out of the lookup; it is free when it is not held and no operation on it is queued. */
static void entry_drop(disk_store *d, disk_entry *e)
{
    const int32_t number = (int32_t)(e - d->entries);
    uint32_t i = 0;
    prefix_remove(d->tree, (uint32_t)number);
    if (e->state == ENTRY_WRITING || e->state == ENTRY_READING) return;     /* disk_look comes again */
    if (e->state == ENTRY_THERE) {
        while (d->order[i] != number) i++;
        memmove(d->order + i, d->order + i + 1, (--d->n_order - i) * sizeof *d->order);
        d->stored -= e->work.bytes;
        e->state = ENTRY_GONE;
        disk_show(d);
    }
    entry_buffer_free(d, e);
    if (e->holders) return;
    free(e->ids);
    *e = (disk_entry){ 0 };
}

/* It cannot be written or read; this is logged once. */
static void entry_fails(disk_store *d, disk_entry *e, const char *what)
{
    metric_add(&d->metrics->swap_errors_total, 1);
    if (!d->said) fprintf(stderr, "--cache-disk: %s; the sequences affected are dropped\n", what);
    d->said = true;
    entry_drop(d, e);
}

/* The entry to evict first; -1: none can be evicted. */
static int32_t disk_oldest(const disk_store *d)
{
    int32_t best = -1;
    const uint64_t now = serve_now();
    bool best_held = true;
    for (uint32_t i = 0; i < d->n_order; i++) {
        const disk_entry *e = &d->entries[d->order[i]];
        const bool held = e->held_ns > now;
        if (e->state != ENTRY_THERE || e->holders) continue;
        if (best >= 0 && (held != best_held ? held : e->used >= d->entries[best].used)) continue;
        best = d->order[i];
        best_held = held;
    }
    return best;
}

/* Finds a free range of the file, between those in use; its place in the order, or -1. */
static int64_t disk_gap(const disk_store *d, uint64_t bytes, uint64_t *at)
{
    enum { ALIGN = 4096 };
    *at = 0;
    for (uint32_t i = 0; i <= d->n_order; i++) {
        const disk_work *w = i < d->n_order ? &d->entries[d->order[i]].work : NULL;
        const uint64_t end = w ? w->at : d->limit;
        if (*at <= end && end - *at >= bytes) return i;
        if (w) *at = (w->at + w->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return -1;
}

/* A free entry with a range of the file; NULL: no room. */
static disk_entry *disk_room(disk_store *d, uint64_t bytes)
{
    for (;;) {
        uint64_t at;
        const int64_t place = d->n_order < DISK_ENTRIES ? disk_gap(d, bytes, &at) : -1;
        int32_t i = 0;
        while (place >= 0 && i < DISK_ENTRIES && d->entries[i].state != ENTRY_FREE) i++;
        if (place >= 0 && i < DISK_ENTRIES) {
            memmove(d->order + place + 1, d->order + place, (d->n_order++ - place) * sizeof *d->order);
            d->order[place] = i;
            d->stored += bytes;
            d->entries[i] = (disk_entry){ .state = ENTRY_THERE, .work = { .at = at, .bytes = bytes } };
            return &d->entries[i];
        }
        const int32_t old = disk_oldest(d);
        if (old < 0) return NULL;
        metric_add(&d->metrics->swap_dropped_total, 1);
        entry_drop(d, &d->entries[old]);
    }
}

/* ---- what the thread has done ---- */

/* A single operation that waited for a processor must not make the disk look slower than computing:
 * it would not be used any more, and so not be measured again.  A disk that is slow shows after a
 * few operations. */
static void measure(double *ns, uint64_t took, uint64_t bytes)
{
    const double sample = (double)took / (double)bytes, most = 4 * *ns;
    *ns = 0.7 * *ns + 0.3 * (sample < most ? sample : most);
}

/* Measures a copy that began at `begin`; the engine's thread computed nothing meanwhile. */
static void measure_copy(disk_store *d, double *ns, uint64_t begin, uint64_t bytes)
{
    const uint64_t took = serve_now() - begin;
    metric_add(&d->metrics->swap_copy_ns_total, took);
    measure(ns, took, bytes);
}

void disk_look(disk_store *d)
{
    for (disk_work *w; (w = disk_file_done(d->file));) {
        disk_entry *e = w->user;
        const bool wrote = e->state == ENTRY_WRITING;
        e->state = ENTRY_THERE;
        if (w->error) {
            entry_fails(d, e, w->error);
            continue;
        }
        metric_add(&d->metrics->swap_file_ns_total, w->took_ns);
        measure(wrote ? &d->write_ns : &d->read_ns, w->took_ns, w->bytes);
        metric_add(wrote ? &d->metrics->swap_written_bytes_total : &d->metrics->swap_read_bytes_total,
                   w->bytes);
        if (!e->wanted) entry_buffer_free(d, e);
        if (!prefix_has(d->tree, (uint32_t)(e - d->entries)) && !e->holders) entry_drop(d, e);
    }
}

/* ---- out ---- */

static qsf_status buffer_write(void *user, const void *bytes, size_t len)
{
    disk_entry *e = user;
    if (len > e->work.bytes - e->n) return QSF_E_IO;
    memcpy(e->work.buffer + e->n, bytes, len);
    e->n += (uint32_t)len;
    return QSF_OK;
}

/* Copies a sequence to an entry's buffer. */
static bool entry_save(disk_store *d, disk_entry *e, const qsf_context *c, qsf_seq s, const int32_t *ids,
                       uint32_t n)
{
    const uint64_t begin = serve_now();
    e->ids = malloc(n * sizeof *ids);
    if (!e->ids || !entry_buffer_new(d, e)) return false;
    memcpy(e->ids, ids, n * sizeof *ids);
    const bool saved = !qsf_session_save(c, s, ids, n, buffer_write, e, NULL) && e->n == e->work.bytes;
    e->n = n;
    measure_copy(d, &d->save_ns, begin, e->work.bytes);
    return saved;
}

/* Drops the entries that are a prefix of this one: they are not needed any more. */
static void disk_drop_within(disk_store *d, uint32_t entry)
{
    for (int32_t q = prefix_within(d->tree, entry, -1), next; q >= 0; q = next) {
        next = prefix_within(d->tree, entry, q);
        if (!d->entries[q].holders) entry_drop(d, &d->entries[q]);
    }
}

int32_t disk_put(disk_store *d, const qsf_context *c, qsf_seq s, uint64_t key, const int32_t *ids, uint32_t n,
                 double row_ns, bool pause, uint64_t held_ns)
{
    uint32_t there = 0;
    const uint64_t bytes = qsf_session_bytes(c, s);
    const double byte_ns = d->read_ns + d->load_ns + (pause ? d->write_ns + d->save_ns : 0);
    if (n < DISK_LEAST || qsf_seq_length(c, s) != n) return -1;
    if (prefix_longest(d->tree, key, ids, n, &there) == n) {
        d->entries[there].used = ++d->uses;
        return (int32_t)there;
    }
    if (byte_ns * (double)bytes >= row_ns * n) return -1;
    disk_entry *e = bytes <= d->limit && bytes <= UINT32_MAX && d->staged + bytes <= d->staging
        ? disk_room(d, bytes) : NULL;
    if (!e || !entry_save(d, e, c, s, ids, n)) {
        metric_add(&d->metrics->swap_dropped_total, 1);
        if (e) entry_drop(d, e);
        return -1;
    }
    const uint32_t number = (uint32_t)(e - d->entries);
    e->used = ++d->uses;
    e->held_ns = held_ns;
    e->state = ENTRY_WRITING;
    e->work.user = e;
    prefix_add(d->tree, number, key, e->ids, n);
    disk_drop_within(d, number);
    disk_file_do(d->file, &e->work, true);
    metric_add(&d->metrics->swap_out_total, 1);
    disk_show(d);
    return (int32_t)number;
}

/* ---- in ---- */

int32_t disk_like(disk_store *d, uint64_t key, const int32_t *ids, uint32_t len, uint32_t have,
                  double row_ns, uint32_t *n)
{
    uint32_t entry = 0;
    *n = prefix_longest(d->tree, key, ids, len, &entry);
    const disk_entry *e = &d->entries[entry];
    if (*n < have + DISK_LEAST) return -1;
    if ((d->read_ns + d->load_ns) * (double)e->work.bytes >= row_ns * (*n - have)) return -1;
    return (int32_t)entry;
}

void disk_hold(disk_store *d, int32_t entry) { d->entries[entry].holders++; }

void disk_let_go(disk_store *d, int32_t entry)
{
    disk_entry *e = &d->entries[entry];
    if (--e->holders) return;
    e->wanted = false;
    if (e->state == ENTRY_THERE) entry_buffer_free(d, e);
    if (!prefix_has(d->tree, (uint32_t)entry)) entry_drop(d, e);
}

uint32_t disk_length(const disk_store *d, int32_t entry) { return d->entries[entry].n; }
bool disk_coming(const disk_store *d, int32_t entry) { return d->entries[entry].state == ENTRY_READING; }

disk_fetched disk_fetch(disk_store *d, int32_t entry)
{
    disk_entry *e = &d->entries[entry];
    e->used = ++d->uses;
    if (e->state == ENTRY_GONE) return DISK_LOST;
    e->wanted = true;
    if (e->state == ENTRY_READING) return DISK_COMES;
    if (e->work.buffer) return DISK_READY;
    /* Waiting for a buffer could be a deadlock, so without one its tokens are computed. */
    if (!entry_buffer_new(d, e)) return DISK_LOST;
    e->state = ENTRY_READING;
    disk_file_do(d->file, &e->work, false);
    return DISK_COMES;
}

static qsf_status buffer_read(void *user, uint64_t at, void *dst, size_t len)
{
    memcpy(dst, (const char *)user + at, len);
    return QSF_OK;
}

bool disk_load(disk_store *d, int32_t entry, qsf_context *c, qsf_seq s, int32_t *ids, size_t cap)
{
    disk_entry *e = &d->entries[entry];
    const uint64_t begin = serve_now();
    const qsf_custom_file from = { .size = sizeof from, .length = e->work.bytes, .user = e->work.buffer,
                                   .read = buffer_read };
    size_t n;
    qsf_error err;
    const qsf_status st = qsf_session_load(c, s, &from, ids, cap, &n, &err);
    measure_copy(d, &d->load_ns, begin, e->work.bytes);
    e->wanted = false;
    if (e->state == ENTRY_THERE) entry_buffer_free(d, e);
    if (!st) metric_add(&d->metrics->swap_in_total, 1);
    else if (st != QSF_E_FULL) entry_fails(d, e, err.text);
    return !st;
}
