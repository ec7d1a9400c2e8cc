/* Background reading with io_uring: the kernel does it, without threads of ours.
 * SPDX-License-Identifier: MIT
 *
 * One ring per file.  Containers often forbid io_uring; opening then fails, and the next reader is
 * used. */
#include "read_requests.h"

#if defined(NATIVE_POSIX) && defined(QSF_HAVE_URING)
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define URING_DEPTH 16
#define URING_CHUNK ((size_t)1 << 30)      /* Linux ends a single read at 2 GiB */
/* longer ones go to a thread of the kernel: cached bytes are copied while sending */
#define URING_INLINE ((size_t)64 << 10)
/* at least this long: in parts, for several threads of the kernel, which copy cached bytes
 * sooner */
#define URING_LONG ((size_t)16 << 20)
#define URING_PARTS 4

typedef struct uring_state {
    int             fd;
    bool            direct;
    pthread_mutex_t lock;                  /* over all that follows */
    struct io_uring ring;
    native_request *waiting;               /* for a place in the ring */
    unsigned        in_flight;
    /* a thread sleeps on the ring, without the lock; the others wait for what it collects */
    bool            watched;
    pthread_cond_t  news;                  /* it has */
    native_requests requests;
} uring_state;

/* A request, or a part of one, is over. */
static void uring_finish(uring_state *s, native_request *r, qsf_status st)
{
    native_request *whole = r->whole ? r->whole : r;
    if (st) whole->st = st;
    if (whole != r) (void)qsf_native_request_give(&s->requests, r);
    if (whole->parts) whole->parts--;
    else whole->stage = NATIVE_DONE;
}

/* Sends what the request still misses, or lets it wait until another one is done. */
static void uring_send(uring_state *s, native_request *r)
{
    struct io_uring_sqe *sqe = s->in_flight < URING_DEPTH ? io_uring_get_sqe(&s->ring) : NULL;
    if (!sqe) {
        r->next = s->waiting;
        s->waiting = r;
        return;
    }
    io_uring_prep_read(sqe, s->fd, r->dst, (unsigned)(r->len < URING_CHUNK ? r->len : URING_CHUNK), r->at);
    io_uring_sqe_set_data(sqe, r);
    if (r->len > URING_INLINE && !s->direct) io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    int n;
    while ((n = io_uring_submit(&s->ring)) == -EINTR) continue;
    if (n >= 0) {
        s->in_flight++;
        return;
    }
    io_uring_prep_nop(sqe);                /* it stays in the ring and must not touch dst later */
    io_uring_sqe_set_data(sqe, NULL);
    uring_finish(s, r, QSF_E_IO);
}

/* Sends a long request in parts, in the order of the file. */
static void uring_send_parts(uring_state *s, native_request *r)
{
    native_request *parts[URING_PARTS] = { r };
    const size_t each = r->len / URING_PARTS, len = r->len;
    for (unsigned i = URING_PARTS - 1; i; i--) {
        parts[i] = qsf_native_request_take(&s->requests, &qsf_native_reader_uring, s, r->at + i * each,
                                           r->dst + i * each, i + 1 < URING_PARTS ? each : len - i * each);
        if (!parts[i]) break;                  /* what comes before it stays whole */
        parts[i]->whole = r;
        r->parts++;
        r->len = i * each;
    }
    for (unsigned i = 0; i < URING_PARTS; i++)
        if (parts[i]) uring_send(s, parts[i]);
}

/* A part has arrived: the read is complete, the file ended, or the rest is requested. */
static void uring_part(uring_state *s, native_request *r, int n)
{
    s->in_flight--;
    if (n == -EINTR || n == -EAGAIN) n = 0;
    else if (n <= 0) {
        uring_finish(s, r, QSF_E_IO);
        return;
    }
    r->at += (uint64_t)n;
    r->dst += n;
    r->len -= (size_t)n;
    if (r->len) uring_send(s, r);
    else uring_finish(s, r, QSF_OK);
}

/* Takes what has come. */
static void uring_collect(uring_state *s)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&s->ring, &cqe) == 0) {
        native_request *r = io_uring_cqe_get_data(cqe);
        const int n = cqe->res;
        io_uring_cqe_seen(&s->ring, cqe);
        if (r) uring_part(s, r, n);
    }
    while (s->waiting && s->in_flight < URING_DEPTH) {
        native_request *r = s->waiting;
        s->waiting = r->next;
        uring_send(s, r);
    }
}

static qsf_status uring_open(int fd, bool direct, void **state)
{
    uring_state *s = calloc(1, sizeof *s);
    if (!s) return QSF_E_MEMORY;
    s->fd = fd;
    s->direct = direct;
    qsf_native_requests_init(&s->requests);
    if (io_uring_queue_init(URING_DEPTH, &s->ring, 0) < 0) {
        free(s);
        return QSF_E_UNSUPPORTED;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    *state = s;
    return QSF_OK;
}

static void uring_close(void *state)
{
    uring_state *s = state;
    while (s->in_flight) {
        struct io_uring_cqe *cqe;
        if (io_uring_wait_cqe(&s->ring, &cqe)) continue;
        if (io_uring_cqe_get_data(cqe)) s->in_flight--;
        io_uring_cqe_seen(&s->ring, cqe);
    }
    qsf_native_requests_done(&s->requests);
    io_uring_queue_exit(&s->ring);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static qsf_status uring_start(void *state, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    uring_state *s = state;
    qsf_status st = QSF_OK;
    pthread_mutex_lock(&s->lock);
    native_request *r = qsf_native_request_take(&s->requests, &qsf_native_reader_uring, s, at, dst, len);
    if (r) {
        if (len >= URING_LONG && !s->direct) uring_send_parts(s, r);
        else if (len) uring_send(s, r);
        else uring_finish(s, r, QSF_OK);
        *out = &r->base;
    } else {
        st = QSF_E_MEMORY;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

static qsf_status uring_poll(qsf_read *base)
{
    native_request *r = (native_request *)base;
    uring_state *s = r->state;
    qsf_status st = QSF_PENDING;
    pthread_mutex_lock(&s->lock);
    if (r->stage != NATIVE_DONE && !s->watched) uring_collect(s);
    if (r->stage == NATIVE_DONE) st = qsf_native_request_give(&s->requests, r);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* Called with the lock held, which is released while waiting, so that other threads can start their
 * reads. */
static void uring_watch(uring_state *s)
{
    struct pollfd ring = { .fd = s->ring.ring_fd, .events = POLLIN };
    s->watched = true;
    pthread_mutex_unlock(&s->lock);
    (void)poll(&ring, 1, 1000);            /* in vain after a second: the loop looks again */
    pthread_mutex_lock(&s->lock);
    s->watched = false;
    uring_collect(s);
    pthread_cond_broadcast(&s->news);
}

static qsf_status uring_wait(qsf_read *base)
{
    native_request *r = (native_request *)base;
    uring_state *s = r->state;
    pthread_mutex_lock(&s->lock);
    if (!s->watched) uring_collect(s);
    while (r->stage != NATIVE_DONE) {
        if (s->watched) pthread_cond_wait(&s->news, &s->lock);
        else uring_watch(s);
    }
    const qsf_status st = qsf_native_request_give(&s->requests, r);
    pthread_mutex_unlock(&s->lock);
    return st;
}

const native_reader qsf_native_reader_uring = { "io_uring", uring_open, uring_close, uring_start, uring_poll,
                                            uring_wait };

#undef URING_DEPTH
#undef URING_CHUNK
#undef URING_INLINE
#undef URING_LONG
#undef URING_PARTS
#endif
