/* HTTP/1 over libevent's sockets.
 * SPDX-License-Identifier: MIT */
#include "http_own.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _WIN32
#  include <winsock2.h>
#  include <ws2tcpip.h>
#else
#  include <netinet/in.h>
#  include <netinet/tcp.h>
#  include <sys/socket.h>
#endif

enum { IN_FLIGHT = 1 << 16,             /* bytes that are read ahead, and of answers sent ahead */
       SOCKET_BYTES = 1 << 18,          /* that the system keeps for a client that does not read */
       LINGER_S = 5, LINGER_BYTES = 1 << 28 };

typedef enum conn_state {
    CONN_HEAD,                          /* waits for a head, or has a part of one */
    CONN_BODY,
    CONN_BUSY,                          /* the handler has it */
    CONN_STREAM,                        /* an answer is under way */
    CONN_LINGER                         /* the last answer is sent: what still comes is thrown away */
} conn_state;

struct http_conn {
    http_server *server;
    http_conn   *before, *next;
    struct bufferevent *bev;
    struct event *timer;
    conn_state   state;
    char        *head;                  /* text of the request's head */
    serve_text   body;
    http_request request;
    http_chunks  chunks;
    size_t       scanned;               /* bytes of a head that have no end in them */
    size_t       waits;                 /* bytes that the client has not taken */
    uint64_t     lingered;
    bool         chunked, advancing;    /* the answer is chunked; ... */
    bool         ended, dead, eof;      /* no more requests; broken; the client sends no more */
    bool         answered;              /* it has already served a request */
    void        *job;
    char         client[64];            /* its address */
    int          status;                /* of the answer; 0: none yet */
    uint64_t     since_ns;              /* when the request's head arrived; 0: no request */
    http_note    note;
};

static void conn_advance(http_conn *c);

/* Counts what clients have not taken. */
static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
    http_conn *c = arg;
    const size_t now = evbuffer_get_length(out);
    (void)info;
    c->server->backlog += now - c->waits;
    c->waits = now;
}

static void server_listen_again(http_server *s)
{
    for (unsigned i = 0; i < s->n_listeners; i++)
        if (s->n_conns >= s->limits.connections) evconnlistener_disable(s->listeners[i]);
        else evconnlistener_enable(s->listeners[i]);
}

static void conn_body_free(http_conn *c)
{
    c->server->bodies -= c->body.len;
    text_free(&c->body);
}

static uint64_t http_now(void)
{
    struct timespec t = { 0 };
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Records a finished request.  cut: the answer was not sent completely. */
static void conn_record(http_conn *c, bool cut)
{
    const http_handlers *h = &c->server->handlers;
    const http_record r = { .head = &c->request.head, .client = c->client, .cut = cut,
                            .status = c->status ? c->status : 499, .note = &c->note,
                            .ns = c->since_ns ? http_now() - c->since_ns : 0 };
    const bool any = c->since_ns || c->status;
    c->since_ns = 0;
    c->status = 0;
    if (any && h->ended) h->ended(h->user, &r);
    if (any) c->note = (http_note){ .counted = false };
}

static void conn_free(http_conn *c)
{
    http_server *s = c->server;
    void *job = c->job;
    conn_record(c, true);
    c->job = NULL;
    if (job) s->handlers.gone(s->handlers.user, job);
    evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
    s->backlog -= c->waits;
    conn_body_free(c);
    if (c->before) c->before->next = c->next;
    else s->conns = c->next;
    if (c->next) c->next->before = c->before;
    event_free(c->timer);
    bufferevent_free(c->bev);
    free(c->head);
    free(c);
    s->n_conns--;
    server_listen_again(s);
}

static void conn_timer(http_conn *c, unsigned seconds)
{
    const struct timeval tv = { .tv_sec = (long)seconds };
    if (seconds) event_add(c->timer, &tv);
    else event_del(c->timer);
}

/* ---- answers ---- */

static const char *status_text(int status)
{
    static const struct { int status; const char *text; } texts[] = {
        { 200, "OK" }, { 204, "No Content" }, { 304, "Not Modified" }, { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" }, { 404, "Not Found" }, { 405, "Method Not Allowed" },
        { 408, "Request Timeout" }, { 409, "Conflict" },
        { 413, "Content Too Large" }, { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" }, { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" }, { 500, "Internal Server Error" },
        { 501, "Not Implemented" }, { 503, "Service Unavailable" }, { 505, "HTTP Version Not Supported" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) return texts[i].text;
    return "Error";
}

/* Ends the connection soon, from the event loop. */
static void conn_die(http_conn *c)
{
    c->dead = true;
    conn_timer(c, 1);
    event_active(c->timer, EV_TIMEOUT, 0);
}

static void conn_write(http_conn *c, const void *bytes, size_t len)
{
    if (c->dead) return;
    if (bufferevent_write(c->bev, bytes, len)) conn_die(c);
    else c->server->sent += len;
}

static void conn_head(http_conn *c, int status, const char *type, const char *more)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    const size_t before = evbuffer_get_length(out);
    if (c->server->drains) c->ended = true;
    c->status = status;
    evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s", status, status_text(status), type,
                        more ? more : "");
    if (c->ended) evbuffer_add_printf(out, "Connection: close\r\n");
    else if (c->request.head.minor == 0) evbuffer_add_printf(out, "Connection: keep-alive\r\n");
    c->server->sent += evbuffer_get_length(out) - before;
}

/* The answer has ended: the next request comes, or the end. */
static void conn_answered(http_conn *c)
{
    c->job = NULL;
    c->answered = true;
    conn_record(c, false);
    c->ended |= c->server->drains;
    conn_body_free(c);
    free(c->head);
    c->head = NULL;
    c->request = (http_request){ .head = { .method = "", .minor = 1 } };
    c->scanned = 0;
    c->state = c->ended ? CONN_LINGER : CONN_HEAD;
    conn_timer(c, c->ended ? c->server->limits.write_s : c->server->limits.idle_s);
    if (!c->advancing) conn_advance(c);
}

void http_reply(http_conn *c, int status, const char *type, const char *more, const char *body, size_t len)
{
    char length[64];
    conn_head(c, status, type, more);
    const int n = snprintf(length, sizeof length, "Content-Length: %llu\r\n\r\n", (unsigned long long)len);
    conn_write(c, length, (size_t)n);
    if (len && status != 304 && strcmp(c->request.head.method, "HEAD")) conn_write(c, body, len);
    conn_answered(c);
}

void http_stream_begin(http_conn *c, const char *type, const char *more)
{
    c->chunked = c->request.head.minor > 0;
    if (!c->chunked) c->ended = true;                   /* the end of the connection ends the answer */
    conn_head(c, 200, type, more);
    if (c->chunked) conn_write(c, "Transfer-Encoding: chunked\r\n\r\n", 30);
    else conn_write(c, "\r\n", 2);
    c->state = CONN_STREAM;
}

void http_stream(http_conn *c, const char *bytes, size_t len)
{
    char size[32];
    if (!len) return;
    if (c->chunked) conn_write(c, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", len));
    conn_write(c, bytes, len);
    if (c->chunked) conn_write(c, "\r\n", 2);
    /* A client that reads more slowly than the answer is made may lag, up to a limit. */
    const http_limits *l = &c->server->limits;
    if (c->waits > l->lag || (c->waits > IN_FLIGHT && c->server->backlog > l->all_lag)) conn_die(c);
}

void http_stream_end(http_conn *c)
{
    if (c->chunked) conn_write(c, "0\r\n\r\n", 5);
    conn_answered(c);
}

void http_break(http_conn *c)
{
    c->job = NULL;
    conn_die(c);
}

size_t http_backlog(http_conn *c) { return c->waits; }

void http_set_job(http_conn *c, void *job) { c->job = job; }

http_note *http_note_of(http_conn *c) { return &c->note; }

/* A refusal before any handler; it ends the connection, since the beginning of the next request is
 * unknown. */
static void conn_refuse(http_conn *c, int status, const char *why)
{
    serve_text body = { 0 };
    c->ended = true;
    if (!c->request.head.method) c->request.head.method = "";
    snprintf(c->note.why, sizeof c->note.why, "%s", why);
    c->server->handlers.refusal(c->server->handlers.user, &body, status, why);
    if (body.failed) text_clear(&body);
    http_reply(c, status, "application/json", NULL, body.bytes ? body.bytes : "", body.len);
    text_free(&body);
}

/* ---- requests ---- */

static struct evbuffer *conn_input(http_conn *c) { return bufferevent_get_input(c->bev); }

static void conn_dispatch(http_conn *c)
{
    if (c->body.failed) {
        conn_refuse(c, 503, "out of memory for the request");
        return;
    }
    c->request.body = c->body.bytes ? c->body.bytes : "";
    c->request.n_body = c->body.len;
    c->state = CONN_BUSY;
    conn_timer(c, 0);
    c->server->handlers.request(c->server->handlers.user, c, &c->request);
}

static const char too_large[] = "the request body is larger than the server allows";

static bool conn_parse_head(http_conn *c, size_t len)
{
    const char *why = "";
    free(c->head);
    if (!(c->head = malloc(len + 1))) return conn_refuse(c, 503, "out of memory for the request"), true;
    evbuffer_remove(conn_input(c), c->head, len);
    c->head[len] = 0;
    c->since_ns = http_now();
    const int status = http_parse_head(c->head, len, &c->request.head, &why);
    const http_head *h = &c->request.head;
    c->ended = status || h->close;
    c->chunks = (http_chunks){ 0 };
    if (status) conn_refuse(c, status, why);
    else if (h->length > c->server->limits.body) conn_refuse(c, 413, too_large);
    else if (*h->encoding && strcmp(h->encoding, "identity"))
        conn_refuse(c, 415, "the request body is compressed; send it uncompressed");
    else if (h->length || h->chunked) {
        c->ended = true;                    /* with a refusal, which leaves the body unread */
        c->state = CONN_BUSY;
        if (!c->server->handlers.admitted(c->server->handlers.user, c, &c->request)) return true;
        c->ended = h->close;
        c->state = CONN_BODY;
        conn_timer(c, c->server->limits.body_s);
        if (h->expects && !evbuffer_get_length(conn_input(c)))
            conn_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    } else {
        conn_dispatch(c);
    }
    return true;
}

/* Whether a carriage return stands before this line feed. */
static bool line_ends_whole(struct evbuffer *in, size_t at)
{
    struct evbuffer_ptr before;
    char c = 0;
    if (!at) return false;
    evbuffer_ptr_set(in, &before, at - 1, EVBUFFER_PTR_SET);
    return evbuffer_copyout_from(in, &before, &c, 1) == 1 && c == '\r';
}

/* Whether a head was there. */
static bool conn_take_head(http_conn *c)
{
    struct evbuffer *in = conn_input(c);
    struct evbuffer_ptr from, at;
    char first[2];
    while (!c->scanned && evbuffer_copyout(in, first, 2) == 2 && !memcmp(first, "\r\n", 2))
        evbuffer_drain(in, 2);
    const size_t have = evbuffer_get_length(in);
    if (!have) return false;
    if (!c->scanned) conn_timer(c, c->server->limits.head_s);
    at = evbuffer_search_eol(in, NULL, NULL, EVBUFFER_EOL_LF);
    if (at.pos >= 0 && !line_ends_whole(in, (size_t)at.pos)) {
        conn_refuse(c, 400, "header lines must end with CRLF");
        return true;
    }
    evbuffer_ptr_set(in, &from, c->scanned > 3 ? c->scanned - 3 : 0, EVBUFFER_PTR_SET);
    at = evbuffer_search(in, "\r\n\r\n", 4, &from);
    if (at.pos < 0 ? have > c->server->limits.head : (size_t)at.pos + 4 > c->server->limits.head) {
        conn_refuse(c, 431, "the request header is larger than the server allows");
        return true;
    }
    c->scanned = have;
    return at.pos >= 0 && conn_parse_head(c, (size_t)at.pos + 4);
}

/* Whether the body has advanced. */
static bool conn_take_body(http_conn *c)
{
    struct evbuffer *in = conn_input(c);
    const size_t most = c->server->limits.body;
    while (evbuffer_get_length(in)) {
        struct evbuffer_iovec piece;
        const char *data;
        size_t used, n;
        evbuffer_peek(in, -1, NULL, &piece, 1);
        data = piece.iov_base;
        if (c->request.head.chunked) {
            if (!http_parse_chunk(&c->chunks, piece.iov_base, piece.iov_len, &used, &data, &n))
                return conn_refuse(c, 400, "malformed chunk in the request body"), true;
        } else {
            const uint64_t left = c->request.head.length - c->body.len;
            n = used = left < piece.iov_len ? (size_t)left : piece.iov_len;
        }
        if (n > most - c->body.len) return conn_refuse(c, 413, too_large), true;
        if (n > c->server->limits.bodies - c->server->bodies)
            return conn_refuse(c, 503, "the bodies of other requests fill the memory; try again later"), true;
        text_add(&c->body, data, n);
        if (!c->body.failed) c->server->bodies += n;
        evbuffer_drain(in, used);
        const bool whole = c->request.head.chunked ? c->chunks.done : c->body.len == c->request.head.length;
        if (whole || c->body.failed) return conn_dispatch(c), true;
    }
    return false;
}

static void conn_linger(http_conn *c)
{
    struct evbuffer *in = conn_input(c);
    c->lingered += evbuffer_get_length(in);
    evbuffer_drain(in, evbuffer_get_length(in));
    if (c->lingered > LINGER_BYTES) c->dead = true;
    if (!http_backlog(c) && !c->dead) {
#ifdef _WIN32
        shutdown(bufferevent_getfd(c->bev), SD_SEND);
#else
        shutdown(bufferevent_getfd(c->bev), SHUT_WR);
#endif
        conn_timer(c, LINGER_S);
        c->dead |= c->eof;
    }
}

/* The client sends no more: what it began has no end. */
static bool conn_cut_short(http_conn *c)
{
    if (c->state == CONN_BODY || evbuffer_get_length(conn_input(c))) {
        conn_refuse(c, 400, "the request is incomplete");
    } else {
        c->ended = true;
        c->state = CONN_LINGER;
    }
    return true;
}

static void conn_advance(http_conn *c)
{
    bool more = true;
    c->advancing = true;
    while (more && !c->dead) {
        more = false;
        if (c->state == CONN_HEAD && http_backlog(c) < IN_FLIGHT)
            more = conn_take_head(c) || (c->eof && conn_cut_short(c));
        else if (c->state == CONN_BODY) more = conn_take_body(c) || (c->eof && conn_cut_short(c));
        else if (c->state == CONN_LINGER) conn_linger(c);
    }
    c->advancing = false;
    if (c->dead) conn_die(c);
}

static void on_read(struct bufferevent *bev, void *arg) { (void)bev, conn_advance(arg); }
static void on_written(struct bufferevent *bev, void *arg) { (void)bev, conn_advance(arg); }

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    http_conn *c = arg;
    (void)bev;
    const bool idle = !c->scanned && c->state != CONN_BODY && !http_backlog(c);
    if (!(what & BEV_EVENT_EOF) || c->dead || idle || c->state == CONN_BUSY || c->state == CONN_STREAM) {
        conn_free(c);
        return;
    }
    /* A client that has sent all of it may still read answers; while one is made, it has gone. */
    c->eof = true;
    conn_advance(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    http_conn *c = arg;
    (void)fd, (void)what;
    if (!c->dead && (c->state == CONN_BODY || (c->state == CONN_HEAD && c->scanned))) {
        conn_refuse(c, 408, "the request did not arrive in time");
        return;
    }
    conn_free(c);
}

/* ---- connections ---- */

static void conn_name(http_conn *c, const struct sockaddr *a)
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;
    const void *at = a->sa_family == AF_INET ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr;
    if ((a->sa_family != AF_INET && a->sa_family != AF_INET6)
        || !evutil_inet_ntop(a->sa_family, at, c->client, sizeof c->client)) memcpy(c->client, "-", 2);
}

void http_on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int len, void *arg)
{
    http_server *s = arg;
    const struct timeval write = { .tv_sec = (long)s->limits.write_s };
    const int one = 1, system_bytes = SOCKET_BYTES;
    (void)l, (void)len;
    http_conn *c = calloc(1, sizeof *c);
    if (c) c->bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (c) c->timer = event_new(s->base, -1, 0, on_timer, c);
    if (!c || !c->bev || !c->timer) {
        if (c && c->timer) event_free(c->timer);
        if (c && c->bev) bufferevent_free(c->bev);
        else evutil_closesocket(fd);
        free(c);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (const void *)&one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, (const void *)&system_bytes, sizeof system_bytes);
    c->server = s;
    conn_name(c, a);
    c->request.head = (http_head){ .method = "", .minor = 1 };
    c->next = s->conns;
    if (s->conns) s->conns->before = c;
    s->conns = c;
    s->n_conns++;
    evbuffer_add_cb(bufferevent_get_output(c->bev), on_output, c);
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    bufferevent_setwatermark(c->bev, EV_READ, 0, IN_FLIGHT);
    bufferevent_set_timeouts(c->bev, NULL, &write);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    conn_timer(c, s->limits.head_s);
    server_listen_again(s);
}

http_server *http_server_new(struct event_base *base, const http_limits *l, const http_handlers *h)
{
    http_server *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->base = base;
    s->limits = *l;
    s->handlers = *h;
    if (s->limits.head > IN_FLIGHT - 1) s->limits.head = IN_FLIGHT - 1;
    return s;
}

void http_server_free(http_server *s)
{
    if (!s) return;
    s->drains = true;
    while (s->conns) conn_free(s->conns);
    for (unsigned i = 0; i < s->n_listeners; i++) evconnlistener_free(s->listeners[i]);
    while (s->n_bound) evutil_closesocket(s->bound[--s->n_bound]);
    if (s->path) remove(s->path);
    free(s);
}

void http_server_drain(http_server *s)
{
    s->drains = true;
    server_listen_again(s);
    for (http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (c->state != CONN_HEAD || c->scanned || !c->answered) continue;
        if (!http_backlog(c)) {
            conn_free(c);
            continue;
        }
        /* The client has not taken all of its last answer yet. */
        c->ended = true;
        c->state = CONN_LINGER;
        conn_timer(c, s->limits.write_s);
    }
}

unsigned http_busy(const http_server *s)
{
    unsigned n = 0;
    for (const http_conn *c = s->conns; c; c = c->next)
        n += c->state != CONN_HEAD || c->waits || c->scanned;
    return n;
}

unsigned http_connections(const http_server *s) { return s->n_conns; }
uint64_t http_bytes_sent(const http_server *s) { return s->sent; }
