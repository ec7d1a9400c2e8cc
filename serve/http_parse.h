/* The head of an HTTP/1 request, and bodies in chunks: bytes in, fields or a status out.
 * SPDX-License-Identifier: MIT
 *
 * What two readers could take in two ways is refused: both lengths, a length twice, folded lines,
 * lines that end in a line feed alone, space before a colon. */
#ifndef QSF_SERVE_HTTP_PARSE_H
#define QSF_SERVE_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct http_head {
    const char *method, *path, *query;         /* query: after the '?'; "" without one */
    int         minor;                         /* HTTP/1.minor, 0 or 1 */
    bool        chunked, expects, close;       /* expects: 100-continue; close: after the answer */
    uint64_t    length;                        /* of the body; 0 if it is not given */
    /* of these headers, "" if they are missing */
    const char *host, *origin, *authorization, *content_type, *api_key, *encoding, *if_none_match;
    const char *asks_headers;                  /* Access-Control-Request-Headers */
    bool        asks_private;                  /* Access-Control-Request-Private-Network: true */
} http_head;

/* Reads a head, text[0..len) with the empty line at its end.  Its fields lie in text, which is
 * written to.  0, or the status of the refusal, and *why in words. */
int http_parse_head(char *text, size_t len, http_head *out, const char **why);

/* A body in chunks.  Begins with all zeros. */
typedef struct http_chunks {
    int      stage;
    uint64_t left;             /* of the chunk's bytes */
    size_t   n_line;           /* of a line of sizes or trailers, so far */
    bool     digits, done;
    size_t   extra;            /* bytes of all lines */
} http_chunks;

/* Reads from in[0..len) up to the end of the body.  *used: how much of it; *data and *n_data: the
 * next stretch of the body in it, maybe empty.  Call again with the rest while *used > 0 and not
 * c->done.  false: malformed. */
bool http_parse_chunk(http_chunks *c, const char *in, size_t len, size_t *used, const char **data,
                      size_t *n_data);

#endif
