/* The WASI platform (preview 1): files in preopened folders, a clock, memory; one thread.
 * SPDX-License-Identifier: MIT
 *
 * WASI reads synchronously: a read is complete when it has been started, and its handle only
 * carries the result. */
#include "base/platform.h"
#include "kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WASI_ALIGN = 64, WASI_MOST = 1 << 30 };

struct qsf_file { int fd; uint64_t length; };
struct qsf_read { qsf_status st; };
struct qsf_out { int fd; char *path, *temporary; };

static qsf_status wasi_status_of(int e)
{
    return e == ENOENT || e == ENOTDIR ? QSF_E_NOT_FOUND : e == ENOMEM ? QSF_E_MEMORY : QSF_E_IO;
}

/* ---- files for reading ---- */

static qsf_status wasi_open(void *user, const char *path, qsf_file **out)
{
    (void)user;
    struct stat s;
    *out = NULL;
    qsf_file *f = calloc(1, sizeof *f);
    if (!f) return QSF_E_MEMORY;
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &s) || !S_ISREG(s.st_mode)) {
        const qsf_status st = f->fd < 0 ? wasi_status_of(errno) : QSF_E_IO;
        if (f->fd >= 0) close(f->fd);
        free(f);
        return st;
    }
    f->length = (uint64_t)s.st_size;
    *out = f;
    return QSF_OK;
}

static void wasi_close(void *user, qsf_file *f)
{
    (void)user;
    if (!f) return;
    close(f->fd);
    free(f);
}

static qsf_status wasi_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)user;
    *out = f->length;
    return QSF_OK;
}

static qsf_status wasi_read_whole(int fd, uint64_t at, uint8_t *to, size_t len)
{
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    while (len) {
        const ssize_t n = pread(fd, to, len < WASI_MOST ? len : WASI_MOST, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return QSF_E_IO;
        to += n, at += (uint64_t)n, len -= (size_t)n;
    }
    return QSF_OK;
}

static qsf_status wasi_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    static qsf_read done = { QSF_OK };          /* never written to: all that went well share it */
    (void)user;
    *out = NULL;
    const qsf_status st = wasi_read_whole(f->fd, at, dst, len);
    if (!st) *out = &done;
    return st;
}
static qsf_status wasi_read_end(void *user, qsf_read *r)
{
    (void)user;
    return r->st;
}

/* ---- files for writing: to a temporary file in the same directory, then renamed ---- */

static void wasi_out_free(qsf_out *o)
{
    if (o->fd >= 0) close(o->fd);
    free(o->path);
    free(o->temporary);
    free(o);
}

static uint64_t wasi_now_ns(void *user)
{
    struct timespec t;
    (void)user;
    if (clock_gettime(CLOCK_MONOTONIC, &t)) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* WASI does not have time zones: this is UTC. */
static int64_t wasi_wall_s(void *user)
{
    struct timespec t;
    (void)user;
    return clock_gettime(CLOCK_REALTIME, &t) ? 0 : t.tv_sec;
}

static qsf_status wasi_create(void *user, const char *path, qsf_out **out)
{
    *out = NULL;
    struct stat s;
    qsf_status st = QSF_E_MEMORY;
    qsf_out *o = calloc(1, sizeof *o);
    if (!o) return st;
    o->fd = -1;
    const size_t room = strlen(path) + 48;
    if (!(o->path = strdup(path)) || !(o->temporary = malloc(room))) goto fail;
    st = QSF_E_IO;
    if (!stat(path, &s) && !S_ISREG(s.st_mode)) goto fail;
    for (unsigned i = 0; i < 100 && o->fd < 0; i++) {
        snprintf(o->temporary, room, "%s.%llx-%u.tmp", path, (unsigned long long)wasi_now_ns(user), i);
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST) {
            st = wasi_status_of(errno);
            goto fail;
        }
    }
    if (o->fd < 0) goto fail;
    *out = o;
    return QSF_OK;
fail:
    wasi_out_free(o);
    return st;
}

static qsf_status wasi_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    const uint8_t *p = src;
    (void)user;
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    while (len) {
        const ssize_t n = pwrite(o->fd, p, len < WASI_MOST ? len : WASI_MOST, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return QSF_E_IO;
        p += n, at += (uint64_t)n, len -= (size_t)n;
    }
    return QSF_OK;
}

static void wasi_abort(void *user, qsf_out *o)
{
    (void)user;
    if (!o) return;
    unlink(o->temporary);
    wasi_out_free(o);
}

static qsf_status wasi_commit(void *user, qsf_out *o)
{
    const bool synced = fsync(o->fd) == 0, closed = close(o->fd) == 0;
    o->fd = -1;
    if (!synced || !closed || rename(o->temporary, o->path)) {
        wasi_abort(user, o);
        return QSF_E_IO;
    }
    wasi_out_free(o);
    return QSF_OK;
}

/* ---- memory and the rest ---- */

static void *wasi_mem_alloc(void *user, size_t size)
{
    void *p;
    (void)user;
    if (size > PTRDIFF_MAX) return NULL;        /* some C libraries add the alignment first, and wrap */
    if (posix_memalign(&p, WASI_ALIGN, size ? size : 1)) return NULL;
    memset(p, 0, size);
    return p;
}
static void wasi_mem_free(void *user, void *p, size_t size)
{
    (void)user;
    (void)size;
    free(p);
}

static uint32_t wasi_cpu_features(void *user)
{
    (void)user;
#if defined(__wasm_simd128__)
    return qsf_cpu_wasm(UINT32_MAX);
#else
    return 0;
#endif
}

static const char *wasi_env(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

const qsf_platform *qsf_platform_native(void)
{
    static const qsf_platform table = {
        .size = sizeof(qsf_platform),
        .open = wasi_open,
        .close = wasi_close,
        .length = wasi_length,
        .read_start = wasi_read_start,
        .read_poll = wasi_read_end,
        .read_wait = wasi_read_end,
        .create = wasi_create,
        .write = wasi_write,
        .commit = wasi_commit,
        .abort = wasi_abort,
        .mem_alloc = wasi_mem_alloc,
        .mem_free = wasi_mem_free,
        .now_ns = wasi_now_ns,
        .wall_s = wasi_wall_s,
        .cpu_features = wasi_cpu_features,
        .env = wasi_env,
    };
    return &table;
}
