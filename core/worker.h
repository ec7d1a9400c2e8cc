/* One thread beside the caller that does what it is given, in the order it was given.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WORKER_H
#define QSF_WORKER_H

#include "host.h"

enum { QSF_WORKER_JOBS = 4 };      /* most that wait or run at once */

typedef struct qsf_worker qsf_worker;

uint64_t   qsf_worker_bytes(void);             /* memory of one, without its stack */
/* For a host with threads (qsf_host_threads); its memory is mem's.  The thread calls fn(arg, what, ticket) for every job. */
qsf_status qsf_worker_new(const qsf_platform *p, const qsf_platform *mem, void (*fn)(void *arg, uint32_t what, uint32_t ticket), void *arg, qsf_worker **out,
                          qsf_error *err);
void       qsf_worker_free(qsf_worker *w);     /* does what was given first; takes NULL */

/* All of these are for one caller.  A ticket counts from 1; jobs whose tickets are QSF_WORKER_JOBS apart are never there together. */
bool       qsf_worker_full(const qsf_worker *w);
uint32_t   qsf_worker_give(qsf_worker *w, uint32_t what);          /* the ticket; not where it is full */
bool       qsf_worker_done(const qsf_worker *w, uint32_t ticket);  /* what the thread wrote for it can be read then */
void       qsf_worker_wait(qsf_worker *w, uint32_t ticket);

#endif
