/* A host whose files are in memory and whose Nth call fails on demand: for tests and fuzz targets.
 * SPDX-License-Identifier: MIT
 *
 *   mem_host h; mem_host_init(&h);              h.p is the platform table
 *   h.fail_at = n;                              the nth fallible call from now (1, 2, ...) fails;
 *                                               h.calls counts them
 *   CHECK_EQ(h.live, 0);                        leaked allocations and open files
 *   mem_host_done(&h); */
#ifndef QSF_MEM_PLATFORM_H
#define QSF_MEM_PLATFORM_H

#include "base/platform.h"

#include <stdlib.h>
#include <string.h>

enum { MEM_FILES = 14 };

typedef struct mem_file {
    char     path[256];
    uint8_t *bytes;
    uint64_t len, cap;
    bool     there, temporary;
} mem_file;

typedef struct mem_host {
    qsf_platform p;
    mem_file files[MEM_FILES];
    long     calls, fail_at;      /* fail_at 0: never */
    bool     fail_on;             /* all calls after that one fail too */
    long     live;
    uint64_t live_bytes, peak_bytes;
    uint64_t limit_bytes;         /* more than this at once is out of memory; 0: no limit */
} mem_host;

static inline bool mem_fails(mem_host *h)
{
    h->calls++;
    return h->fail_at && (h->calls == h->fail_at || (h->fail_on && h->calls > h->fail_at));
}

static inline mem_file *mem_find(mem_host *h, const char *path)
{
    for (int i = 0; i < MEM_FILES; i++)
        if (h->files[i].there && !h->files[i].temporary && !strcmp(h->files[i].path, path))
            return &h->files[i];
    return NULL;
}

static inline mem_file *mem_new(mem_host *h, const char *path, bool temporary)
{
    for (int i = 0; i < MEM_FILES; i++) {
        mem_file *f = &h->files[i];
        if (f->there) continue;
        memset(f, 0, sizeof *f);
        f->there = true;
        f->temporary = temporary;
        strncpy(f->path, path, sizeof f->path - 1);
        return f;
    }
    return NULL;
}

static inline void mem_drop(mem_file *f)
{
    free(f->bytes);
    memset(f, 0, sizeof *f);
}

/* Files that exist, finished or not. */
static inline int mem_count(const mem_host *h)
{
    int n = 0;
    for (int i = 0; i < MEM_FILES; i++) n += h->files[i].there;
    return n;
}

/* Makes or replaces a file; exactly len bytes, so that a sanitizer sees a read past the end. */
static inline mem_file *mem_put(mem_host *h, const char *path, const void *bytes, uint64_t len)
{
    mem_file *f = mem_find(h, path);
    if (!f) f = mem_new(h, path, false);
    free(f->bytes);
    f->bytes = malloc(len ? (size_t)len : 1);
    if (len) memcpy(f->bytes, bytes, (size_t)len);
    f->len = f->cap = len;
    return f;
}

/* ---- the table ---- */

static inline qsf_status mem_open(void *user, const char *path, qsf_file **out)
{
    mem_host *h = user;
    mem_file *f = mem_find(h, path);
    *out = NULL;
    if (mem_fails(h)) return QSF_E_IO;
    if (!f) return QSF_E_NOT_FOUND;
    h->live++;
    *out = (qsf_file *)(void *)f;
    return QSF_OK;
}
static inline void mem_close(void *user, qsf_file *f) { if (f) ((mem_host *)user)->live--; }
static inline qsf_status mem_length(void *user, qsf_file *f, uint64_t *out)
{
    *out = ((mem_file *)(void *)f)->len;
    return mem_fails(user) ? QSF_E_IO : QSF_OK;
}
static inline qsf_status mem_read_start(void *user, qsf_file *qf, uint64_t at, void *dst, size_t len,
                                        qsf_read **out)
{
    const mem_file *f = (mem_file *)(void *)qf;
    *out = NULL;
    if (mem_fails(user) || at > f->len || len > f->len - at) return QSF_E_IO;
    if (len) memcpy(dst, f->bytes + at, len);
    *out = (qsf_read *)user;
    return QSF_OK;
}
static inline qsf_status mem_read_end(void *user, qsf_read *r)
{
    (void)r;
    return mem_fails(user) ? QSF_E_IO : QSF_OK;
}

static inline qsf_status mem_create(void *user, const char *path, qsf_out **out)
{
    mem_host *h = user;
    mem_file *f = NULL;
    *out = NULL;
    if (mem_fails(h) || !(f = mem_new(h, path, true))) return QSF_E_IO;
    h->live++;
    *out = (qsf_out *)(void *)f;
    return QSF_OK;
}
static inline qsf_status mem_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    mem_file *f = (mem_file *)(void *)o;
    if (mem_fails(user)) return QSF_E_IO;
    if (at + len > f->cap) {
        const uint64_t cap = (at + len) * 2;
        uint8_t *more = calloc(1, (size_t)cap);
        if (!more) return QSF_E_IO;
        if (f->len) memcpy(more, f->bytes, (size_t)f->len);
        free(f->bytes);
        f->bytes = more;
        f->cap = cap;
    }
    memcpy(f->bytes + at, src, len);
    if (at + len > f->len) f->len = at + len;
    return QSF_OK;
}
static inline void mem_abort(void *user, qsf_out *o)
{
    if (!o) return;
    ((mem_host *)user)->live--;
    mem_drop((mem_file *)(void *)o);
}
static inline qsf_status mem_commit(void *user, qsf_out *o)
{
    mem_host *h = user;
    mem_file *f = (mem_file *)(void *)o, *old = mem_find(h, f->path);
    if (mem_fails(h)) {
        mem_abort(user, o);
        return QSF_E_IO;
    }
    h->live--;
    if (old) mem_drop(old);
    f->temporary = false;
    return QSF_OK;
}

/* The size stands before the memory and is compared when it comes back. */
static inline void *mem_get(void *user, size_t size)
{
    mem_host *h = user;
    if (mem_fails(h) || (h->limit_bytes && h->live_bytes + size > h->limit_bytes)) return NULL;
    uint8_t *base = malloc(size + 128);
    if (!base) return NULL;
    uint8_t *at = base + 128 - (uintptr_t)base % 64;
    memcpy(at - 16, &base, sizeof base);
    memcpy(at - 8 - sizeof(size_t) % 8, &size, sizeof size);
    memset(at, 0, size);
    h->live++;
    h->live_bytes += size;
    if (h->live_bytes > h->peak_bytes) h->peak_bytes = h->live_bytes;
    return at;
}
static inline void mem_give(void *user, void *p, size_t size)
{
    mem_host *h = user;
    if (!p) return;
    uint8_t *base;
    size_t had;
    memcpy(&base, (uint8_t *)p - 16, sizeof base);
    memcpy(&had, (uint8_t *)p - 8 - sizeof(size_t) % 8, sizeof had);
    if (had != size) abort();       /* given back with another size than it was asked for */
    h->live--;
    h->live_bytes -= size;
    free(base);
}
static inline uint64_t mem_now(void *user) { (void)user; return 1; }

static inline void mem_host_init(mem_host *h)
{
    memset(h, 0, sizeof *h);
    h->p = (qsf_platform){
        .size = sizeof h->p, .user = h,
        .open = mem_open, .close = mem_close, .length = mem_length,
        .read_start = mem_read_start, .read_poll = mem_read_end, .read_wait = mem_read_end,
        .create = mem_create, .write = mem_write, .commit = mem_commit, .abort = mem_abort,
        .mem_alloc = mem_get, .mem_free = mem_give, .now_ns = mem_now,
    };
}
static inline void mem_host_done(mem_host *h)
{
    for (int i = 0; i < MEM_FILES; i++) mem_drop(&h->files[i]);
}

#endif
