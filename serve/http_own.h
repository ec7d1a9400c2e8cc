/* Internals shared by the HTTP server's files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_HTTP_OWN_H
#define QSF_SERVE_HTTP_OWN_H

#include "http.h"

#include <event2/listener.h>
#include <event2/util.h>

enum { MOST_LISTENERS = 8 };

struct http_server {
    struct event_base *base;
    http_limits   limits;
    http_handlers handlers;
    struct evconnlistener *listeners[MOST_LISTENERS];
    unsigned      n_listeners;
    evutil_socket_t bound[MOST_LISTENERS];  /* bound, connections wait there */
    unsigned      n_bound;
    const char   *path;                     /* of the UNIX socket; NULL: none */
    http_conn    *conns;
    unsigned      n_conns;
    uint64_t      sent;
    size_t        bodies, backlog;      /* bytes of all request bodies; of answers not yet sent */
    bool          drains;
};

/* ---- http.c ---- */
/* Accepts a new connection. */
void http_on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int len, void *arg);

#endif
