/* The core's way to the platform table.
 * SPDX-License-Identifier: MIT */
#include "base/host.h"

/* A member of the table, or NULL if the host was compiled before it existed. */
#define HOST_HAS(p, member) ((p)->size >= offsetof(qsf_platform, member) + sizeof (p)->member && (p)->member)

void *qsf_alloc(const qsf_platform *p, uint64_t size, const char *what, qsf_error *err)
{
    void *mem = NULL;
    if (size <= SIZE_MAX / 2) mem = p->mem_alloc(p->user, size ? (size_t)size : 1);
    if (!mem) qsf_fail(err, QSF_E_MEMORY, "out of memory: %llu bytes for %s", (unsigned long long)size, what);
    return mem;
}

void *qsf_alloc_array(const qsf_platform *p, uint64_t n, uint64_t size, const char *what, qsf_error *err)
{
    uint64_t bytes;
    if (qsf_mul_u64(n, size, &bytes)) {
        qsf_fail(err, QSF_E_MEMORY, "out of memory: %llu times %llu bytes for %s", (unsigned long long)n,
                 (unsigned long long)size, what);
        return NULL;
    }
    return qsf_alloc(p, bytes, what, err);
}

void qsf_dealloc(const qsf_platform *p, void *mem, uint64_t size)
{
    if (mem) p->mem_free(p->user, mem, size ? (size_t)size : 1);
}

qsf_status qsf_host_open(const qsf_platform *p, const char *path, qsf_file **out, uint64_t *length,
                         qsf_error *err)
{
    qsf_status st;
    *out = NULL;
    *length = 0;
    if (!HOST_HAS(p, open)) return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: this host cannot open files", path);
    if ((st = p->open(p->user, path, out))) {
        *out = NULL;
        if (st == QSF_E_NOT_FOUND) return qsf_fail(err, st, "%s: no such file", path);
        return qsf_fail(err, st, "%s: cannot be opened: %s", path, qsf_host_why(p, path, false, st));
    }
    if ((st = p->length(p->user, *out, length))) {
        p->close(p->user, *out);
        *out = NULL;
        return qsf_fail(err, st, "%s: cannot get its length: %s", path, qsf_status_text(st));
    }
    return QSF_OK;
}

bool qsf_host_same(const qsf_platform *p, const char *a, const char *b)
{
    return HOST_HAS(p, same) ? p->same(p->user, a, b) : !strcmp(a, b);
}

const char *qsf_host_why(const qsf_platform *p, const char *path, bool writing, qsf_status st)
{
    const char *why = HOST_HAS(p, why) && st != QSF_E_MEMORY ? p->why(p->user, path, writing) : NULL;
    return why ? why : qsf_status_text(st);
}

qsf_status qsf_host_between(const qsf_platform *p, const char *path, char *name, size_t cap, qsf_error *err)
{
    *name = 0;
    if (!HOST_HAS(p, between) || !HOST_HAS(p, remove))
        return qsf_fail(err, QSF_E_UNSUPPORTED,
                        "%s: this host cannot make temporary files; do it in two steps", path);
    const qsf_status st = p->between(p->user, path, name, cap);
    if (!st) return QSF_OK;
    *name = 0;
    return qsf_fail(err, st, "%s: cannot create a file next to it: %s",
                             path, qsf_host_why(p, path, true, st));
}

void qsf_host_remove(const qsf_platform *p, const char *path)
{
    if (HOST_HAS(p, remove)) p->remove(p->user, path);
}

qsf_status qsf_read_all(const qsf_platform *p, qsf_file *f, const char *path, uint64_t at, void *dst,
                        size_t len, qsf_error *err)
{
    qsf_read *r = NULL;
    qsf_status st = p->read_start(p->user, f, at, dst, len, &r);
    if (!st) {
        if (HOST_HAS(p, read_wait)) st = p->read_wait(p->user, r);
        else while ((st = p->read_poll(p->user, r)) == QSF_PENDING) ;
    }
    if (!st) return QSF_OK;
    return qsf_fail(err, st, "%s: reading %llu bytes at %llu failed: %s; was the file changed or cut short?",
                    path, (unsigned long long)len, (unsigned long long)at, qsf_status_text(st));
}

bool qsf_host_threads(const qsf_platform *p)
{
    return HOST_HAS(p, thread_start) && HOST_HAS(p, wait32) && HOST_HAS(p, wake32);
}

uint64_t qsf_now(const qsf_platform *p) { return HOST_HAS(p, now_ns) ? p->now_ns(p->user) : 0; }
int64_t qsf_host_wall(const qsf_platform *p) { return HOST_HAS(p, wall_s) ? p->wall_s(p->user) : 0; }

void qsf_host_memory_used(const qsf_platform *p, qsf_usage *out)
{
    *out = (qsf_usage){ .size = sizeof *out };
    if (!HOST_HAS(p, memory_used) || !p->memory_used(p->user, out)) *out = (qsf_usage){ .size = sizeof *out };
}

uint64_t qsf_host_cached(const qsf_platform *p, qsf_file *f)
{
    uint64_t bytes = 0;
    return HOST_HAS(p, cached) && p->cached(p->user, f, &bytes) ? bytes : 0;
}

void qsf_host_release_code(const qsf_platform *p) { if (HOST_HAS(p, release_code)) p->release_code(p->user); }

#undef HOST_HAS
