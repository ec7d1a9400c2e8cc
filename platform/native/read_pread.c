/* Background reading with pread on a few threads per file: works on every POSIX system.
 * SPDX-License-Identifier: MIT
 *
 * The threads start when the file is opened, so that no memory is needed later.  A caller that
 * waits for a read that no thread has started yet performs it itself: a small read does not cost a
 * thread switch, and everything works (sequentially) if no threads can be started. */
#include "read_requests.h"

#if defined(NATIVE_POSIX)
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREAD_THREADS 2
/* past the page cache, what is not aligned comes in such parts, which are moved while they are in
 * the cache */
#define PREAD_PART ((size_t)512 << 10)
#define PREAD_EDGE (4 * (size_t)NATIVE_DIRECT_ALIGN)      /* its ends, by way of the stack */
#define PREAD_CHUNK ((size_t)1 << 30)      /* Linux ends a single read at 2 GiB, macOS refuses more */

typedef struct pread_state {
    int             fd;
    bool            direct;
    pthread_mutex_t lock;                  /* over all that follows */
    pthread_cond_t  work, done;
    native_request *head, **tail;          /* the queue */
    pthread_t       threads[PREAD_THREADS];
    unsigned        n_threads;
    bool            stop;
    native_requests requests;
} pread_state;

static qsf_status pread_whole(int fd, uint64_t at, uint8_t *dst, size_t len)
{
    while (len) {
        const ssize_t n = pread(fd, dst, len < PREAD_CHUNK ? len : PREAD_CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return QSF_E_IO;       /* 0: the file ends inside the read */
        dst += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return QSF_OK;
}

static size_t pread_least(size_t a, size_t b) { return a < b ? a : b; }

/* Like pread_whole, but past the page cache, which requires aligned blocks both of the file and of
 * memory.  Other data is read into the first aligned block of its destination, and moved; the ends
 * are read through edge. */
static qsf_status pread_direct(int fd, uint64_t at, uint8_t *dst, size_t len, uint8_t *edge)
{
    const size_t align = NATIVE_DIRECT_ALIGN;
    while (len) {
        const size_t lead = (size_t)(at % align), skip = (align - (uintptr_t)dst % align) % align;
        const size_t room = len > skip ? (len - skip) / align * align : 0;
        uint8_t *to = dst + skip;
        size_t want;
        if (lead + skip == 0 && room) {
            want = pread_least(room, PREAD_CHUNK);
        } else if (lead + skip != align && room >= PREAD_EDGE) {
            want = pread_least(room, PREAD_PART);
        } else {
            /* if place and address have the same alignment, only up to the next block: from there
             * on, no copy is needed */
            to = edge;
            want = pread_least((lead + len + align - 1) / align * align,
                               lead + skip == align ? align : PREAD_EDGE);
        }
        ssize_t n = pread(fd, to, want, (off_t)(at - lead));
        if (n < 0 && errno == EINTR) continue;
        n -= (ssize_t)lead;
        if (n <= 0) return QSF_E_IO;
        if ((size_t)n > len) n = (ssize_t)len;
        if (to + lead != dst) memmove(dst, to + lead, (size_t)n);
        dst += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return QSF_OK;
}

static qsf_status pread_all(const pread_state *s, const native_request *r)
{
    uint8_t room[PREAD_EDGE + NATIVE_DIRECT_ALIGN];
    if (!s->direct) return pread_whole(s->fd, r->at, r->dst, r->len);
    return pread_direct(s->fd, r->at, r->dst, r->len, room + (NATIVE_DIRECT_ALIGN
                                                              - (uintptr_t)room % NATIVE_DIRECT_ALIGN)
                                                              % NATIVE_DIRECT_ALIGN);
}

/* Called with the lock held, which is let go while the bytes come. */
static void pread_run(pread_state *s, native_request *r)
{
    r->stage = NATIVE_RUNNING;
    pthread_mutex_unlock(&s->lock);
    const qsf_status st = pread_all(s, r);
    pthread_mutex_lock(&s->lock);
    r->st = st;
    r->stage = NATIVE_DONE;
    pthread_cond_broadcast(&s->done);
}

static void pread_unqueue(pread_state *s, native_request *r)
{
    native_request **at = &s->head;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    if (s->tail == &r->next) s->tail = at;
}

static void *pread_thread(void *arg)
{
    pread_state *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        native_request *r = s->head;
        if (!r) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        pread_unqueue(s, r);
        pread_run(s, r);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals stay with the program's own threads. */
static void pread_start_threads(pread_state *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (s->n_threads < PREAD_THREADS && pthread_create(&s->threads[s->n_threads], NULL,
                                                          pread_thread, s) == 0)
        s->n_threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static qsf_status pread_open(int fd, bool direct, void **state)
{
    pread_state *s = calloc(1, sizeof *s);
    if (!s) return QSF_E_MEMORY;
    s->fd = fd;
    s->direct = direct;
    s->tail = &s->head;
    qsf_native_requests_init(&s->requests);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    pread_start_threads(s);
    *state = s;
    return QSF_OK;
}

static void pread_close(void *state)
{
    pread_state *s = state;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
    qsf_native_requests_done(&s->requests);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static qsf_status pread_start(void *state, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    pread_state *s = state;
    pthread_mutex_lock(&s->lock);
    native_request *r = qsf_native_request_take(&s->requests, &qsf_native_reader_pread, s, at, dst, len);
    if (r) {
        *s->tail = r;
        s->tail = &r->next;
        pthread_cond_signal(&s->work);
        *out = &r->base;
    }
    pthread_mutex_unlock(&s->lock);
    return r ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status pread_poll(qsf_read *base)
{
    native_request *r = (native_request *)base;
    pread_state *s = r->state;
    qsf_status st = QSF_PENDING;
    pthread_mutex_lock(&s->lock);
    if (r->stage == NATIVE_QUEUED && s->n_threads == 0) {
        pread_unqueue(s, r);
        pread_run(s, r);
    }
    if (r->stage == NATIVE_DONE) st = qsf_native_request_give(&s->requests, r);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static qsf_status pread_wait(qsf_read *base)
{
    native_request *r = (native_request *)base;
    pread_state *s = r->state;
    pthread_mutex_lock(&s->lock);
    if (r->stage == NATIVE_QUEUED) {
        pread_unqueue(s, r);
        pread_run(s, r);
    }
    while (r->stage != NATIVE_DONE) pthread_cond_wait(&s->done, &s->lock);
    const qsf_status st = qsf_native_request_give(&s->requests, r);
    pthread_mutex_unlock(&s->lock);
    return st;
}

const native_reader qsf_native_reader_pread =
    { "pread", pread_open, pread_close, pread_start, pread_poll, pread_wait };

#undef PREAD_THREADS
#undef PREAD_CHUNK
#undef PREAD_PART
#undef PREAD_EDGE
#endif
