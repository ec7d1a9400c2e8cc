/* Reading from a mapping of the file: the system loads the pages in the background, and they are
 * copied when a caller waits.
 * SPDX-License-Identifier: MIT
 *
 * Touching a page that cannot be read, because the file was truncated or the disk failed, kills the
 * program (SIGBUS).  So the kernel does the copying: process_vm_readv from this process to itself
 * returns EFAULT instead.  If it is forbidden, or the system is not Linux, this reader is not
 * available. */
#include "native.h"

#if defined(NATIVE_POSIX)
#if defined(__linux__)
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* pages that count as the process's at once, but touching one maps those around it: */
#define MMAP_CHUNK ((size_t)256 << 10)
#define MMAP_AROUND ((size_t)64 << 10)     /* this much, and */
/* up to this much if the page cache holds it as one folio; the plan accounts for it */
#define MMAP_FOLIO ((size_t)2 << 20)

typedef struct mmap_request {
    qsf_read  base;
    struct mmap_state   *state;
    struct mmap_request *next;             /* every read that has not ended */
    uint64_t  at;
    uint8_t  *dst;
    size_t    len;
} mmap_request;

typedef struct mmap_state {
    uint8_t        *map;
    size_t          length, page;
    pthread_mutex_t copying;               /* one at a time: the pages of two would count */
    pthread_mutex_t lock;                  /* over the list */
    mmap_request   *running;
} mmap_state;

static qsf_status mmap_copy(const uint8_t *from, uint8_t *dst, size_t len)
{
    while (len) {
        const struct iovec to = { dst, len }, at = { (void *)(uintptr_t)from, len };
        const ssize_t n = process_vm_readv(getpid(), &to, 1, &at, 1, 0);
        if (n <= 0) return QSF_E_IO;
        from += n;
        dst += n;
        len -= (size_t)n;
    }
    return QSF_OK;
}

/* Advice that the pages of [at, at+len) will be needed. */
static void mmap_expect(const mmap_state *s, uint64_t at, size_t len)
{
    const uint64_t begin = at / s->page * s->page;
    (void)madvise(s->map + begin, (size_t)(at + len - begin), MADV_WILLNEED);
}

/* Pages of [at, at+len), and what has been mapped around them, stay in the page cache, but no
 * longer count as this process's. */
static void mmap_forget(const mmap_state *s, uint64_t at, size_t len)
{
    const uint64_t first = at / MMAP_FOLIO * MMAP_FOLIO,
        last = (at + len + MMAP_FOLIO - 1) / MMAP_FOLIO * MMAP_FOLIO;
    const uint64_t begin = first ? first - MMAP_AROUND : 0,
        end = last + MMAP_AROUND < s->length ? last + MMAP_AROUND : s->length;
    (void)madvise(s->map + begin, (size_t)(end - begin), MADV_DONTNEED);
}

static qsf_status mmap_take(mmap_state *s, uint64_t at, uint8_t *dst, size_t len)
{
    pthread_mutex_lock(&s->copying);
    const qsf_status st = mmap_copy(s->map + at, dst, len);
    mmap_forget(s, at, len);
    pthread_mutex_unlock(&s->copying);
    return st;
}

static qsf_status mmap_open(int fd, bool direct, void **state)
{
    struct stat st;
    uint8_t byte;
    if (direct || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0
        || (uint64_t)st.st_size > SIZE_MAX)
        return QSF_E_UNSUPPORTED;
    mmap_state *s = calloc(1, sizeof *s);
    if (!s) return QSF_E_MEMORY;
    s->length = (size_t)st.st_size;
    s->page = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, s->length, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || mmap_copy(map, &byte, 1)) {
        if (map != MAP_FAILED) munmap(map, s->length);
        free(s);
        return QSF_E_UNSUPPORTED;
    }
    s->map = map;
    pthread_mutex_init(&s->copying, NULL);
    pthread_mutex_init(&s->lock, NULL);
    *state = s;
    return QSF_OK;
}

static void mmap_close(void *state)
{
    mmap_state *s = state;
    while (s->running) {
        mmap_request *next = s->running->next;
        free(s->running);
        s->running = next;
    }
    munmap(s->map, s->length);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->copying);
    free(s);
}

static qsf_status mmap_start(void *state, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    mmap_state *s = state;
    if (at > s->length || len > s->length - at) return QSF_E_IO;
    mmap_request *r = malloc(sizeof *r);
    if (!r) return QSF_E_MEMORY;
    *r = (mmap_request){ { .reader = &qsf_native_reader_mmap }, s, NULL, at, dst, len };
    if (len) mmap_expect(s, at, len);
    pthread_mutex_lock(&s->lock);
    r->next = s->running;
    s->running = r;
    pthread_mutex_unlock(&s->lock);
    *out = &r->base;
    return QSF_OK;
}

static qsf_status mmap_wait(qsf_read *base)
{
    mmap_request *r = (mmap_request *)base;
    mmap_state *s = r->state;
    qsf_status st = QSF_OK;
    for (size_t at = 0, n; !st && at < r->len; at += n) {
        n = MMAP_CHUNK - (size_t)((r->at + at) % MMAP_CHUNK);
        if (n > r->len - at) n = r->len - at;
        st = mmap_take(s, r->at + at, r->dst + at, n);
    }
    pthread_mutex_lock(&s->lock);
    mmap_request **place = &s->running;
    while (*place != r) place = &(*place)->next;
    *place = r->next;
    pthread_mutex_unlock(&s->lock);
    free(r);
    return st;
}

/* Whether all pages have come cannot be told for good:
 * polling copies them, and waits for what is missing. */
const native_reader qsf_native_reader_mmap = { "mmap", mmap_open, mmap_close, mmap_start, mmap_wait,
                                               mmap_wait };

#undef MMAP_CHUNK
#undef MMAP_AROUND
#undef MMAP_FOLIO
#else
static qsf_status mmap_none_open(int fd, bool direct, void **state)
{
    (void)fd;
    (void)direct;
    *state = NULL;
    return QSF_E_UNSUPPORTED;
}

const native_reader qsf_native_reader_mmap = { "none", mmap_none_open, NULL, NULL, NULL, NULL };
#endif
#endif
