/* One background thread that runs the tasks it is given in order.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WORKER_H
#define QSF_WORKER_H

#include "base/host.h"

enum { QSF_WORKER_JOBS = 8 };      /* most that wait or run at once */

typedef struct qsf_worker qsf_worker;

/* A piece of work; its giver's, and the thread's from qsf_worker_give until qsf_worker_take returns
 * what came of it. */
typedef struct qsf_job {
    qsf_status (*fn)(void *arg, uint32_t what, qsf_error *err);
    void       *arg;
    uint32_t    what;
    bool        given;
    uint32_t    ticket;
    qsf_status  result;
    qsf_error   error;
} qsf_job;

uint64_t   qsf_worker_bytes(void);             /* memory of one, without its stack */
/* For a host with threads (qsf_host_threads); its memory is mem's. */
qsf_status qsf_worker_new(const qsf_platform *p, const qsf_platform *mem, qsf_worker **out, qsf_error *err);
void       qsf_worker_free(qsf_worker *w);     /* does what was given first; takes NULL */

/* All of these are for one caller. */
uint32_t   qsf_worker_room(const qsf_worker *w);                   /* jobs that it can still be given */
void       qsf_worker_give(qsf_worker *w, qsf_job *job);           /* not without room */
/* What fn returned for a job that was given; QSF_PENDING: it has not yet.
 * wait: does not return QSF_PENDING. */
qsf_status qsf_worker_take(qsf_worker *w, qsf_job *job, bool wait, qsf_error *err);

#endif
