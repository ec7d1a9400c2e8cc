/* The requests of a reader that reads in the background, and the list of those that are free.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_READ_REQUESTS_H
#define QSF_READ_REQUESTS_H

#include "native.h"

#if defined(NATIVE_POSIX)
enum { NATIVE_REQUESTS = 64 };             /* as many at once need no memory but the file's own */

typedef enum native_stage { NATIVE_QUEUED, NATIVE_RUNNING, NATIVE_DONE } native_stage;

typedef struct native_request {
    qsf_read     base;
    void        *state;                    /* the reader's, of this file */
    struct native_request *next;           /* in the reader's queue, or in the list of free requests */
    struct native_request *older;          /* links the requests beyond NATIVE_REQUESTS */
    uint64_t     at;
    uint8_t     *dst;
    size_t       len;                      /* still missing */
    native_stage stage;
    qsf_status   st;                       /* the result, when done */
    struct native_request *whole;          /* the request that it is a part of; NULL: none */
    unsigned     parts;                    /* of it that are missing besides its own bytes */
} native_request;

/* The caller's lock protects it. */
typedef struct native_requests {
    native_request *unused, *newest;
    native_request  first[NATIVE_REQUESTS];
} native_requests;

void qsf_native_requests_init(native_requests *p);
void qsf_native_requests_done(native_requests *p);
/* A request for these bytes, NATIVE_QUEUED; NULL: out of memory. */
native_request *qsf_native_request_take(native_requests *p, const native_reader *reader, void *state,
                                        uint64_t at, void *dst, size_t len);
/* Frees a request that is done; returns its result. */
qsf_status qsf_native_request_give(native_requests *p, native_request *r);
#endif

#endif
