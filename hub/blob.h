/* Downloads one file: resumed, locked, and compared with what the hub says of it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HUB_BLOB_H
#define QSF_HUB_BLOB_H

#include "cache.h"
#include "http.h"
#include "hub.h"

typedef struct hub_blob {
    const char *url, *name;     /* name: for people */
    const char *path, *lock;    /* of the file, and of the lock that other processes see */
    const char *sha256;         /* in hexadecimal digits; "": not known */
    const char *version;        /* as hub_answer_version has it, of each answer; "": any */
    int64_t     size;           /* -1: not known */
    unsigned    part, n_parts;
    const char *page;           /* for people, of the repository; "": it is not a hub's */
    bool        has_token;
} hub_blob;

/* Does nothing if the file is there.  What came before a failure stays as PATH.incomplete. */
qsf_status hub_blob_get(const hub_options *o, hub_http *h, const hub_blob *b, qsf_error *err);

/* ---- requests that are repeated if that can help ---- */
/* How often, and when, a request is made again. */
typedef struct hub_tries { int n; } hub_tries;
/* After a request: st and a are its result, again as hub_http_get has set it. true: it is to be
 * made again, and the time for that has come. false: *err has the error if st is one; else the
 * answer's status is final. */
bool hub_again(const hub_options *o, hub_http *h, hub_tries *t, qsf_status st, const hub_answer *a,
               bool again, const char *name);
/* The error of a refusal, with advice.  page, has_token: as of a blob. */
qsf_status hub_refusal(const char *url, const hub_answer *a, const char *page, bool has_token,
                       qsf_error *err);

#endif
