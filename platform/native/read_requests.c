/* The requests of a reader: some are part of its state, so that reading needs no memory later.
 * SPDX-License-Identifier: MIT */
#include "read_requests.h"

#if defined(NATIVE_POSIX)
#include <stdlib.h>

void qsf_native_requests_init(native_requests *p)
{
    p->unused = p->newest = NULL;
    for (unsigned i = 0; i < NATIVE_REQUESTS; i++) {
        p->first[i].older = NULL;
        p->first[i].next = p->unused;
        p->unused = &p->first[i];
    }
}

void qsf_native_requests_done(native_requests *p)
{
    while (p->newest) {
        native_request *older = p->newest->older;
        free(p->newest);
        p->newest = older;
    }
}

native_request *qsf_native_request_take(native_requests *p, const native_reader *reader, void *state,
                                        uint64_t at, void *dst, size_t len)
{
    native_request *r = p->unused;
    if (r) {
        p->unused = r->next;
    } else {
        if (!(r = malloc(sizeof *r))) return NULL;
        r->older = p->newest;
        p->newest = r;
    }
    *r = (native_request){ { .reader = reader }, state, NULL, r->older, at, dst, len, NATIVE_QUEUED, QSF_OK,
                            NULL, 0 };
    return r;
}

qsf_status qsf_native_request_give(native_requests *p, native_request *r)
{
    r->next = p->unused;
    p->unused = r;
    return r->st;
}
#endif
