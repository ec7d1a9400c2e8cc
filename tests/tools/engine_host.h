/* A host for tests of the engine: files in memory, memory that is counted, threads of the system,
 * and reads that take as long as asked.
 * SPDX-License-Identifier: MIT
 *
 *   engine_host h;  engine_host_init(&h);       h.m.p is the platform table, h.m the files and the
 *                                               faults (mem_platform.h)
 *   h.polls = 3;                                a read is over at its fourth poll; its bytes come
 *                                               then, not before
 *   engine_host_never_wait(&h);                 like a browser: no read_wait
 *   engine_host_done(&h);
 *
 * Allocating, reading and starting threads may happen on several threads at once, as in a context
 * whose layers stream. */
#ifndef QSF_ENGINE_HOST_H
#define QSF_ENGINE_HOST_H

#include "mem_platform.h"

#include <stdatomic.h>

enum { ENGINE_READS = 256 };

typedef struct engine_read {
    bool      taken;
    mem_file *file;
    uint64_t  at;
    uint8_t  *dst;
    size_t    len;
    uint32_t  polls;       /* left */
    bool      doomed;
} engine_read;

typedef struct engine_host {
    mem_host    m;         /* first: its address is the platform's user */
    uint32_t    polls;
    uint64_t    n_allocs, n_reads;
    atomic_flag lock;                       /* over everything here, in the calls that threads share */
    bool        read_failed;                /* a fault of the mem_host met a read */
    bool        doomed;                     /* reads that begin now fail when they end */
    int         running;                    /* reads */
    engine_read reads[ENGINE_READS];
} engine_host;

static inline void engine_lock(void *user)
{
    while (atomic_flag_test_and_set_explicit(&((engine_host *)user)->lock, memory_order_acquire)) ;
}
static inline void engine_unlock(void *user)
{
    atomic_flag_clear_explicit(&((engine_host *)user)->lock, memory_order_release);
}

static inline void *engine_alloc(void *user, size_t size)
{
    engine_lock(user);
    ((engine_host *)user)->n_allocs++;
    void *p = mem_get(user, size);
    engine_unlock(user);
    return p;
}
static inline void engine_free(void *user, void *p, size_t size)
{
    engine_lock(user);
    mem_give(user, p, size);
    engine_unlock(user);
}

static inline bool engine_read_fails(engine_host *h)
{
    const bool fails = mem_fails(&h->m);
    h->read_failed |= fails;
    return fails;
}

static inline qsf_status engine_read_begin(void *user, qsf_file *qf, uint64_t at, void *dst, size_t len,
                                           qsf_read **out)
{
    engine_host *h = user;
    mem_file *f = (mem_file *)(void *)qf;
    *out = NULL;
    if (engine_read_fails(h) || at > f->len || len > f->len - at) return QSF_E_IO;
    for (int i = 0; i < ENGINE_READS; i++) {
        engine_read *r = &h->reads[i];
        if (r->taken) continue;
        *r = (engine_read){ true, f, at, dst, len, h->polls, h->doomed };
        memset(dst, 0xa5, len);                 /* whoever looks too early sees it */
        h->n_reads++;
        h->running++;
        *out = (qsf_read *)(void *)r;
        return QSF_OK;
    }
    return QSF_E_IO;
}
static inline qsf_status engine_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len,
                                           qsf_read **out)
{
    engine_lock(user);
    const qsf_status st = engine_read_begin(user, f, at, dst, len, out);
    engine_unlock(user);
    return st;
}
static inline qsf_status engine_read_end(void *user, qsf_read *qr)
{
    engine_host *h = user;
    engine_read *r = (engine_read *)(void *)qr;
    if (!r->taken) abort();                     /* the read is over: its handle is gone */
    r->taken = false;
    h->running--;
    if (engine_read_fails(h) || r->doomed || r->at > r->file->len || r->len > r->file->len - r->at)
        return QSF_E_IO;
    memcpy(r->dst, r->file->bytes + r->at, r->len);
    return QSF_OK;
}
static inline qsf_status engine_read_wait(void *user, qsf_read *r)
{
    engine_lock(user);
    const qsf_status st = engine_read_end(user, r);
    engine_unlock(user);
    return st;
}
static inline qsf_status engine_read_poll(void *user, qsf_read *qr)
{
    engine_read *r = (engine_read *)(void *)qr;
    qsf_status st = QSF_PENDING;
    engine_lock(user);
    if (!r->taken) abort();
    if (r->polls == 0) st = engine_read_end(user, qr);
    else r->polls--;
    engine_unlock(user);
    return st;
}

/* Files are written while a thread reads others. */
static inline qsf_status engine_create(void *user, const char *path, qsf_out **out)
{
    engine_lock(user);
    const qsf_status st = mem_create(user, path, out);
    engine_unlock(user);
    return st;
}
static inline qsf_status engine_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    engine_lock(user);
    const qsf_status st = mem_write(user, o, at, src, len);
    engine_unlock(user);
    return st;
}
static inline qsf_status engine_commit(void *user, qsf_out *o)
{
    engine_lock(user);
    const qsf_status st = mem_commit(user, o);
    engine_unlock(user);
    return st;
}
static inline void engine_abort(void *user, qsf_out *o)
{
    engine_lock(user);
    mem_abort(user, o);
    engine_unlock(user);
}

static inline uint32_t engine_cpu_count(void *user) { (void)user; return 2; }
static inline qsf_status engine_thread_start(void *user, void (*fn)(void *), void *arg, qsf_thread **out)
{
    const qsf_platform *n = qsf_platform_native();
    *out = NULL;
    engine_lock(user);
    const bool fails = mem_fails(user);
    const qsf_status st = fails ? QSF_E_MEMORY : n->thread_start(n->user, fn, arg, out);
    if (!st) ((engine_host *)user)->m.live++;
    engine_unlock(user);
    return st;
}
static inline void engine_thread_join(void *user, qsf_thread *t)
{
    const qsf_platform *n = qsf_platform_native();
    n->thread_join(n->user, t);
    engine_lock(user);
    ((engine_host *)user)->m.live--;
    engine_unlock(user);
}
static inline void engine_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns)
{
    const qsf_platform *n = qsf_platform_native();
    (void)user;
    n->wait32(n->user, word, expected, ns);
}
static inline void engine_wake32(void *user, uint32_t *word, uint32_t count)
{
    const qsf_platform *n = qsf_platform_native();
    (void)user;
    n->wake32(n->user, word, count);
}
static inline uint64_t engine_now(void *user)
{
    const qsf_platform *n = qsf_platform_native();
    (void)user;
    return n->now_ns(n->user);
}
static inline uint32_t engine_cpu_features(void *user)
{
    const qsf_platform *n = qsf_platform_native();
    (void)user;
    return n->cpu_features(n->user);
}
static inline const char *engine_env(void *user, const char *name)
{
    const qsf_platform *n = qsf_platform_native();
    (void)user;
    return n->env(n->user, name);
}

static inline void engine_host_init(engine_host *h)
{
    memset(h, 0, sizeof *h);
    mem_host_init(&h->m);
    atomic_flag_clear(&h->lock);
    h->m.p.mem_alloc = engine_alloc;
    h->m.p.mem_free = engine_free;
    h->m.p.reads_cross_threads = true;
    h->m.p.read_start = engine_read_start;
    h->m.p.read_poll = engine_read_poll;
    h->m.p.read_wait = engine_read_wait;
    h->m.p.create = engine_create;
    h->m.p.write = engine_write;
    h->m.p.commit = engine_commit;
    h->m.p.abort = engine_abort;
    if (qsf_platform_native()->thread_start) {          /* WASI has no threads */
        h->m.p.cpu_count = engine_cpu_count;
        h->m.p.thread_start = engine_thread_start;
        h->m.p.thread_join = engine_thread_join;
        h->m.p.wait32 = engine_wait32;
        h->m.p.wake32 = engine_wake32;
    }
    h->m.p.now_ns = engine_now;
    h->m.p.cpu_features = engine_cpu_features;
    h->m.p.env = engine_env;
}
/* Before a model is opened: the table is copied then. */
static inline void engine_host_never_wait(engine_host *h) { h->m.p.read_wait = NULL; }
static inline void engine_host_done(engine_host *h) { mem_host_done(&h->m); }

#endif
