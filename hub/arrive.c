/* Reads of a file that a download fills: they wait until their bytes are there.  The native
 * platform's reads would not do, since they refuse a file that changes.
 * SPDX-License-Identifier: MIT */
#include "arrive.h"

#include "search.h"
#include "store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRIVAL_SEARCHES, ARRIVAL_COMES, ARRIVAL_OVER };
static const uint64_t arrival_look_ns = 100000000;

struct hub_arrival {
    qsf_platform platform;          /* the native one, with the functions below for files */
    const qsf_platform *native;
    hub_options  o, caller;
    char        *name;
    qsf_thread  *thread;
    char         path[HUB_PATH + 16];       /* set before ARRIVAL_COMES; so are size and grows */
    uint64_t     size;
    store_file  *grows;
    atomic_int   state;
    atomic_ullong have;             /* bytes at the beginning of the file */
    atomic_uint  changes;           /* of both, counted; what waiting threads look at */
    atomic_bool  stops;
    atomic_flag  lock;              /* of reads */
    struct arrival_read *reads;
    char        *found;             /* at ARRIVAL_OVER, as st and err */
    qsf_status   st;
    qsf_error    err;
};

/* ---- the download ---- */

static void arrival_change(hub_arrival *a)
{
    atomic_fetch_add(&a->changes, 1);
    a->native->wake32(NULL, (uint32_t *)&a->changes, UINT32_MAX);
}

static void arrival_progress(void *user, const hub_progress *p)
{
    hub_arrival *a = user;
    if (a->caller.progress) a->caller.progress(a->caller.user, p);
    atomic_store(&a->have, p->done);
    if (p->what == HUB_BEGINS && p->n_parts == 1 && p->total && !a->grows
        && (a->grows = store_open_again(p->path))) {
        snprintf(a->path, sizeof a->path, "%s", p->path);
        a->size = p->total;
        atomic_store(&a->state, ARRIVAL_COMES);
    }
    arrival_change(a);
}

static void arrival_note(void *user, const char *line)
{
    hub_arrival *a = user;
    if (a->caller.note) a->caller.note(a->caller.user, line);
}

static bool arrival_stopped(void *user)
{
    hub_arrival *a = user;
    return atomic_load(&a->stops) || (a->caller.stopped && a->caller.stopped(a->caller.user));
}

static void arrival_main(void *arg)
{
    hub_arrival *a = arg;
    a->st = hub_find(&a->o, a->name, &a->found, &a->err);
    if (!a->st) atomic_store(&a->have, UINT64_MAX);
    atomic_store(&a->state, ARRIVAL_OVER);
    arrival_change(a);
}

/* ---- files and reads ---- */

/* inner: another file, which the native platform reads; NULL: the one that comes. */
typedef struct arrival_file { qsf_file *inner; } arrival_file;

typedef struct arrival_read {
    struct arrival_read *next;
    arrival_file *file;
    uint64_t  at;
    void     *dst;
    size_t    len;
    qsf_read *inner;
} arrival_read;

static void reads_lock(hub_arrival *a)
{
    while (atomic_flag_test_and_set(&a->lock)) {}
}

static void read_leave(hub_arrival *a, arrival_read *r)
{
    arrival_read **at = &a->reads;
    reads_lock(a);
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
    atomic_flag_clear(&a->lock);
    free(r);
}

static qsf_status arrival_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len,
                                     qsf_read **out)
{
    hub_arrival *a = user;
    arrival_read *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return QSF_E_MEMORY;
    *r = (arrival_read){ NULL, (arrival_file *)f, at, dst, len, NULL };
    qsf_status st = QSF_OK;
    if (r->file->inner) st = a->native->read_start(NULL, r->file->inner, at, dst, len, &r->inner);
    else if (at > a->size || len > a->size - at) st = QSF_E_IO;
    if (st) return free(r), st;
    reads_lock(a);
    r->next = a->reads;
    a->reads = r;
    atomic_flag_clear(&a->lock);
    *out = (qsf_read *)r;
    return QSF_OK;
}

/* Of the file that comes. */
static qsf_status read_arrived(hub_arrival *a, const arrival_read *r)
{
    const bool over = atomic_load(&a->state) == ARRIVAL_OVER;
    if (atomic_load(&a->have) < r->at + r->len) return over ? QSF_E_IO : QSF_PENDING;
    return store_read(a->grows, r->at, r->dst, r->len) == r->len ? QSF_OK : QSF_E_IO;
}

static qsf_status arrival_read_poll(void *user, qsf_read *read)
{
    hub_arrival *a = user;
    arrival_read *r = (arrival_read *)read;
    const qsf_status st = r->inner ? a->native->read_poll(NULL, r->inner) : read_arrived(a, r);
    if (st != QSF_PENDING) read_leave(a, r);
    return st;
}

static qsf_status arrival_read_wait(void *user, qsf_read *read)
{
    hub_arrival *a = user;
    arrival_read *r = (arrival_read *)read;
    qsf_status st = r->inner ? a->native->read_wait(NULL, r->inner) : QSF_PENDING;
    while (st == QSF_PENDING) {
        const uint32_t seen = atomic_load(&a->changes);
        if ((st = read_arrived(a, r)) == QSF_PENDING)
            a->native->wait32(NULL, (uint32_t *)&a->changes, seen, arrival_look_ns);
    }
    read_leave(a, r);
    return st;
}

static qsf_status arrival_open(void *user, const char *path, qsf_file **out)
{
    hub_arrival *a = user;
    arrival_file *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return QSF_E_MEMORY;
    const bool comes = a->grows && !strcmp(path, a->path);
    const qsf_status st = comes ? QSF_OK : a->native->open(NULL, path, &f->inner);
    if (st) return free(f), st;
    *out = (qsf_file *)f;
    return QSF_OK;
}

static void arrival_close(void *user, qsf_file *file)
{
    hub_arrival *a = user;
    arrival_file *f = (arrival_file *)file;
    if (!f) return;
    if (f->inner) a->native->close(NULL, f->inner);
    reads_lock(a);
    for (arrival_read **at = &a->reads; *at; ) {
        arrival_read *r = *at;
        if (r->file == f) *at = r->next, free(r);
        else at = &r->next;
    }
    atomic_flag_clear(&a->lock);
    free(f);
}

static qsf_status arrival_length(void *user, qsf_file *file, uint64_t *out)
{
    hub_arrival *a = user;
    arrival_file *f = (arrival_file *)file;
    if (f->inner) return a->native->length(NULL, f->inner, out);
    *out = a->size;
    return QSF_OK;
}

/* ---- begin and end ---- */

const char *hub_arrival_path(const hub_arrival *a) { return a->grows ? a->path : a->found; }
const qsf_platform *hub_arrival_platform(const hub_arrival *a) { return a->grows ? &a->platform : a->native; }

bool hub_arrival_whole(const hub_arrival *a) { return atomic_load(&a->state) == ARRIVAL_OVER && !a->st; }

/* The native platform has no user, so that its other functions may get ours. */
static bool arrival_platform(hub_arrival *a)
{
    a->native = qsf_platform_native();
    memcpy(&a->platform, a->native, QSF_MIN(a->native->size, sizeof a->platform));
    a->platform.size = sizeof a->platform;
    a->platform.user = a;
    a->platform.open = arrival_open;
    a->platform.close = arrival_close;
    a->platform.length = arrival_length;
    a->platform.read_start = arrival_read_start;
    a->platform.read_poll = arrival_read_poll;
    a->platform.read_wait = arrival_read_wait;
    a->platform.cached = NULL;
    a->platform.read_by = NULL;
    return a->native->thread_start && !a->native->user;
}

static void arrival_free(hub_arrival *a)
{
    char why[STORE_WHY];
    if (a->grows) store_close(a->grows, false, why);
    free(a->found);
    free(a->name);
    free(a);
}

qsf_status hub_arrive(const hub_options *o, const char *name, hub_arrival **out, qsf_error *err)
{
    hub_arrival *a = calloc(1, sizeof *a);
    *out = NULL;
    if (a && (a->name = malloc(strlen(name) + 1))) strcpy(a->name, name);
    if (!a || !a->name) return free(a), hub_search_memory(err);
    atomic_flag_clear(&a->lock);
    a->o = a->caller = *o;
    a->o.progress = arrival_progress;
    a->o.note = arrival_note;
    a->o.stopped = arrival_stopped;
    a->o.user = a;
    if (!arrival_platform(a) || a->native->thread_start(NULL, arrival_main, a, &a->thread))
        arrival_main(a);
    for (;;) {
        const uint32_t seen = atomic_load(&a->changes);
        if (atomic_load(&a->state) != ARRIVAL_SEARCHES) break;
        a->native->wait32(NULL, (uint32_t *)&a->changes, seen, arrival_look_ns);
    }
    if (atomic_load(&a->state) == ARRIVAL_OVER && a->st) return hub_arrival_end(a, false, err);
    *out = a;
    return QSF_OK;
}

qsf_status hub_arrival_end(hub_arrival *a, bool stop, qsf_error *err)
{
    if (!a) return QSF_OK;
    if (stop) atomic_store(&a->stops, true);
    if (a->thread) a->native->thread_join(NULL, a->thread);
    const qsf_status st = a->st;
    *err = a->err;
    arrival_free(a);
    return st;
}
