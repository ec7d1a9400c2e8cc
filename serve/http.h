/* HTTP/1 over libevent's sockets: connections, requests with their limits, answers and streams.
 * SPDX-License-Identifier: MIT
 *
 * Everything here belongs to the thread that runs the event base.  A connection has one request at
 * a time; those that a client sends ahead wait in its socket.
 *
 * evhttp is not used: the releases that systems have can neither give a refusal (400, 413, 431) a
 * body of ours, nor notice while an answer is made that the client has gone, nor survive the bytes
 * of a next request then. */
#ifndef QSF_SERVE_HTTP_H
#define QSF_SERVE_HTTP_H

#include "http_parse.h"
#include "text.h"

struct event_base;
typedef struct http_server http_server;
typedef struct http_conn http_conn;

typedef struct http_limits {
    size_t   head, body, bodies;      /* bytes; bodies: of all that are there at once */
    size_t   lag, all_lag;            /* bytes of a stream, of all, that clients have not taken */
    unsigned connections;
    unsigned head_s, body_s;          /* seconds for all of a head, all of a body */
    unsigned idle_s, write_s;         /* between requests; without the client taking a byte */
} http_limits;

typedef struct http_request {
    http_head   head;
    const char *body;                 /* terminated */
    size_t      n_body;
} http_request;

/* Data of a request's log record that the handlers fill in. */
typedef struct http_note {
    char     model[256], code[48], why[400], ignored[400];
    bool     counted;                 /* the figures below are set */
    uint32_t n_prompt, n_kept, n_tokens;
    uint64_t first_ns;                /* since the request arrived; 0: no token */
} http_note;

/* A finished request. */
typedef struct http_record {
    const http_head *head;
    const char      *client;          /* its address; "-" for a local socket */
    int              status;          /* 499: the client disconnected before an answer */
    bool             cut;             /* the client disconnected during the answer */
    uint64_t         ns;              /* from the request's head to the end */
    const http_note *note;
} http_record;

typedef struct http_handlers {
    void *user;
    /* The head of a request has come, its body has not.  false: the handler has refused it. */
    bool (*admitted)(void *user, http_conn *c, const http_request *r);
    /* A request has come; it is valid until its answer ends.  The handler answers now or later. */
    void (*request)(void *user, http_conn *c, const http_request *r);
    /* The connection ends before its answer has; job is what http_set_job gave it. */
    void (*gone)(void *user, void *job);
    /* Writes the body of a refusal that no handler has seen. */
    void (*refusal)(void *user, serve_text *body, int status, const char *why);
    /* A request has finished; may be NULL. */
    void (*ended)(void *user, const http_record *r);
} http_handlers;

http_server *http_server_new(struct event_base *base, const http_limits *l, const http_handlers *h);
void http_server_free(http_server *s);                       /* takes NULL; ends all connections */
/* Whether a host is a socket's path: it contains a slash or ends with ".sock". */
bool http_is_path(const char *host);
/* Binds host and port (0: any free port; *port is set to it).  Clients can connect; their
 * connections wait until http_listen accepts them.  NULL: done; else why not. */
const char *http_bind(http_server *s, const char *host, int *port);
/* Accepts connections to the addresses of http_bind, or to the listening socket fd >= 0.  NULL:
 * done; else why not. */
const char *http_listen(http_server *s, int fd);
/* Closes idle connections, and busy ones after their answers.  A new connection gets one answer. */
void http_server_drain(http_server *s);
/* Number of connections whose request is unanswered or whose answer is not fully sent. */
unsigned http_busy(const http_server *s);
unsigned http_connections(const http_server *s);
uint64_t http_bytes_sent(const http_server *s);

/* Answers.  more: further header lines, each with its end, or NULL. */
void http_reply(http_conn *c, int status, const char *type, const char *more, const char *body, size_t len);
void http_stream_begin(http_conn *c, const char *type, const char *more);
/* A client that lags too far is disconnected, from the event loop. */
void http_stream(http_conn *c, const char *bytes, size_t len);
void http_stream_end(http_conn *c);
/* Bytes of the answer that the client has not taken. */
size_t http_backlog(http_conn *c);
void http_set_job(http_conn *c, void *job);
http_note *http_note_of(http_conn *c);
/* Ends a stream in the middle, so that the client knows. */
void http_break(http_conn *c);

#endif
