/* A platform table over the native one that counts every call which may fail and makes
 * the Nth one fail: for sweeps that try all of them.
 * SPDX-License-Identifier: MIT
 *
 *   for (uint64_t n = 1; ; n++) {
 *       fault_init(&fp);  fp.fail_at = n;
 *       ... the work, with &fp.table ...
 *       CHECK_EQ(fp.bytes, 0);  CHECK_EQ(fp.files, 0);         nothing leaked
 *       if (fp.calls < n) break;                               the fault never came: the work is
 *                                                              done and must have gone well
 *   }
 *
 * Counted in one row: mem_alloc, open, length, read_start, the end of a read, create,
 * write, commit, thread_start.  Not for use by several threads at once, except that
 * fail_at 0 only loses counts. */
#ifndef QSF_FAULT_PLATFORM_H
#define QSF_FAULT_PLATFORM_H

#include <stdlib.h>
#include <string.h>
#include "base/platform.h"

typedef struct fault_platform {
    qsf_platform        table;
    const qsf_platform *below;         /* NULL: only memory works */
    uint64_t calls, fail_at;           /* 0: none fails */
    uint64_t fail_every;               /* not 0: from fail_at on, every nth call */
    uint64_t bytes, n_allocs, peak;    /* alive now; made; most alive */
    int      files, outs, reads;       /* open now */
} fault_platform;

static inline bool fault_now(fault_platform *f)
{
    f->calls++;
    if (!f->fail_at || f->calls < f->fail_at) return false;
    return f->calls == f->fail_at || (f->fail_every && (f->calls - f->fail_at) % f->fail_every == 0);
}

static inline void *fault_alloc(void *user, size_t size)
{
    fault_platform *f = user;
    void *p = NULL;
    if (fault_now(f)) return NULL;
    if (f->below) p = f->below->mem_alloc(f->below->user, size);
#if defined(_WIN32)
    else if ((p = _aligned_malloc(size, 64))) memset(p, 0, size);
#else
    else if ((uint64_t)size < (uint64_t)1 << 40 && (p = aligned_alloc(64, (size + 63) / 64 * 64)))
        memset(p, 0, size);
#endif
    if (p) {
        f->bytes += size;
        f->n_allocs++;
        if (f->bytes > f->peak) f->peak = f->bytes;
    }
    return p;
}
static inline void fault_free(void *user, void *p, size_t size)
{
    fault_platform *f = user;
    if (!p) return;
    f->bytes -= size;
    if (f->below) f->below->mem_free(f->below->user, p, size);
#if defined(_WIN32)
    else _aligned_free(p);
#else
    else free(p);
#endif
}
static inline qsf_status fault_open(void *user, const char *path, qsf_file **out)
{
    fault_platform *f = user;
    *out = NULL;
    if (fault_now(f)) return QSF_E_IO;
    const qsf_status st = f->below->open(f->below->user, path, out);
    if (!st) f->files++;
    return st;
}
static inline void fault_close(void *user, qsf_file *file)
{
    fault_platform *f = user;
    if (file) f->files--;
    f->below->close(f->below->user, file);
}
static inline qsf_status fault_length(void *user, qsf_file *file, uint64_t *out)
{
    fault_platform *f = user;
    return fault_now(f) ? QSF_E_IO : f->below->length(f->below->user, file, out);
}
static inline qsf_status fault_read_start(void *user, qsf_file *file, uint64_t at, void *dst, size_t len,
                                          qsf_read **out)
{
    fault_platform *f = user;
    *out = NULL;
    if (fault_now(f)) return QSF_E_IO;
    const qsf_status st = f->below->read_start(f->below->user, file, at, dst, len, out);
    if (!st) f->reads++;
    return st;
}
static inline qsf_status fault_read_end(fault_platform *f, qsf_status st)
{
    if (st == QSF_PENDING) return st;
    f->reads--;
    return fault_now(f) ? QSF_E_IO : st;      /* the bytes came, but must not be used */
}
static inline qsf_status fault_read_poll(void *user, qsf_read *r)
{
    fault_platform *f = user;
    return fault_read_end(f, f->below->read_poll(f->below->user, r));
}
static inline qsf_status fault_read_wait(void *user, qsf_read *r)
{
    fault_platform *f = user;
    return fault_read_end(f, f->below->read_wait(f->below->user, r));
}
static inline qsf_status fault_create(void *user, const char *path, qsf_out **out)
{
    fault_platform *f = user;
    *out = NULL;
    if (fault_now(f)) return QSF_E_IO;
    const qsf_status st = f->below->create(f->below->user, path, out);
    if (!st) f->outs++;
    return st;
}
static inline qsf_status fault_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    fault_platform *f = user;
    return fault_now(f) ? QSF_E_IO : f->below->write(f->below->user, o, at, src, len);
}
static inline void fault_abort(void *user, qsf_out *o)
{
    fault_platform *f = user;
    if (o) f->outs--;
    f->below->abort(f->below->user, o);
}
static inline qsf_status fault_commit(void *user, qsf_out *o)
{
    fault_platform *f = user;
    if (fault_now(f)) {
        fault_abort(user, o);
        return QSF_E_IO;
    }
    f->outs--;
    return f->below->commit(f->below->user, o);
}
static inline uint32_t fault_cpu_count(void *user)
{
    fault_platform *f = user;
    return f->below->cpu_count(f->below->user);
}
static inline qsf_status fault_thread_start(void *user, void (*fn)(void *), void *arg, qsf_thread **out)
{
    fault_platform *f = user;
    return fault_now(f) ? QSF_E_MEMORY : f->below->thread_start(f->below->user, fn, arg, out);
}
static inline void fault_thread_join(void *user, qsf_thread *t)
{
    fault_platform *f = user;
    f->below->thread_join(f->below->user, t);
}
static inline void fault_wait32(void *user, uint32_t *w, uint32_t e, uint64_t ns)
{
    fault_platform *f = user;
    f->below->wait32(f->below->user, w, e, ns);
}
static inline void fault_wake32(void *user, uint32_t *w, uint32_t n)
{
    fault_platform *f = user;
    f->below->wake32(f->below->user, w, n);
}
static inline uint64_t fault_now_ns(void *user)
{
    fault_platform *f = user;
    return f->below->now_ns(f->below->user);
}
static inline uint32_t fault_cpu_features(void *user)
{
    fault_platform *f = user;
    return f->below->cpu_features(f->below->user);
}
static inline const char *fault_env(void *user, const char *name)
{
    fault_platform *f = user;
    return f->below->env(f->below->user, name);
}

/* Memory alone: tests that need no system link no platform. */
static inline void fault_init(fault_platform *f)
{
    memset(f, 0, sizeof *f);
    f->table.size = sizeof f->table;
    f->table.user = f;
    f->table.mem_alloc = fault_alloc;
    f->table.mem_free = fault_free;
}

/* Over a whole platform: members that it lacks stay NULL. */
static inline void fault_init_over(fault_platform *f, const qsf_platform *below)
{
    fault_init(f);
    f->below = below;
#define FAULT_COVER(member) if (below->member) f->table.member = fault_##member
    FAULT_COVER(open); FAULT_COVER(close); FAULT_COVER(length); FAULT_COVER(read_start);
    FAULT_COVER(read_poll); FAULT_COVER(read_wait);
    FAULT_COVER(create); FAULT_COVER(write); FAULT_COVER(commit); FAULT_COVER(abort);
    FAULT_COVER(cpu_count); FAULT_COVER(thread_start); FAULT_COVER(thread_join);
    FAULT_COVER(wait32); FAULT_COVER(wake32);
    FAULT_COVER(now_ns); FAULT_COVER(cpu_features); FAULT_COVER(env);
#undef FAULT_COVER
}

#endif
