/* Requests to a hub and to those it redirects to: each answer's headers, and its bytes to a sink.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_HTTP_H
#define QSF_HUB_HTTP_H

#include "headers.h"

typedef struct hub_http hub_http;

/* Takes bytes of an answer of status 200 or 206, whose headers are complete. false: enough; the
 * sink knows why. */
typedef bool (*hub_sink)(void *user, const hub_answer *a, const void *bytes, size_t n);

typedef struct hub_http_options {
    const char *base;           /* the hub's address, which alone is sent the token */
    const char *token;          /* NULL: none */
    bool      (*stopped)(void *user);                /* asked often; NULL: never */
    void       *user;
} hub_http_options;

/* *out keeps what the options point to.  QSF_E_UNSUPPORTED: no libcurl */
qsf_status hub_http_new(const hub_http_options *o, hub_http **out, qsf_error *err);
/* Another one, for another thread, to the same hub with the same token. */
qsf_status hub_http_like(const hub_http *h, bool (*stopped)(void *user), void *user, hub_http **out,
                         qsf_error *err);
void       hub_http_free(hub_http *h);               /* takes NULL */

/* One request, and those that it is redirected to.  from: the first byte that is wanted; sink NULL:
 * only headers are asked for, and a redirection to another origin is the end.
 *
 * QSF_OK          there is an answer, whatever its status, and the sink had all of it
 * QSF_E_IO        no connection, or it ended early; temporary if *again
 * QSF_E_CANCELLED the caller stopped it, or the sink had enough */
qsf_status hub_http_get(hub_http *h, const char *url, uint64_t from, hub_sink sink, void *user,
                        hub_answer *a, bool *again, qsf_error *err);
/* The same for the bytes from..end - 1; end 0: all that follow. */
qsf_status hub_http_get_part(hub_http *h, const char *url, uint64_t from, uint64_t end, hub_sink sink,
                             void *user, hub_answer *a, bool *again, qsf_error *err);
/* The address that answered last, after redirections. */
const char *hub_http_at(const hub_http *h);
/* Waits, but not longer than until the caller stops it: false. */
bool       hub_http_wait(hub_http *h, double seconds);

/* Whether two addresses have the same scheme, host and port. */
bool hub_same_origin(const char *a, const char *b);
/* An address as messages show it: without what may be a key. */
void hub_url_shown(const char *url, char *out, size_t cap);

#endif
