/* A thread that does jobs in order: a ring of them between two counters.
 * SPDX-License-Identifier: MIT */
#include "base/worker.h"

#include <stdatomic.h>

struct qsf_worker {
    _Alignas(64) _Atomic uint32_t given;     /* the caller counts up, the thread sleeps on it */
    _Alignas(64) _Atomic uint32_t done;      /* the thread counts up, the caller sleeps on it */
    _Alignas(64) qsf_job *jobs[QSF_WORKER_JOBS];
    bool         stop;
    qsf_thread  *thread;
    const qsf_platform *platform, *mem;
};

enum { WORKER_NAP = 1000000000 };            /* a wake that got lost on a strange host costs a second */

static void worker_main(void *arg)
{
    qsf_worker *w = arg;
    for (uint32_t n = 0;; n++) {
        while (atomic_load_explicit(&w->given, memory_order_acquire) == n)
            w->platform->wait32(w->platform->user, (uint32_t *)&w->given, n, WORKER_NAP);
        if (w->stop) return;
        qsf_job *job = w->jobs[n % QSF_WORKER_JOBS];
        job->error = (qsf_error){ 0 };
        job->result = job->fn(job->arg, job->what, &job->error);
        atomic_store_explicit(&w->done, n + 1, memory_order_release);
        w->platform->wake32(w->platform->user, (uint32_t *)&w->done, 1);
    }
}

uint64_t qsf_worker_bytes(void) { return sizeof(qsf_worker); }

qsf_status qsf_worker_new(const qsf_platform *p, const qsf_platform *mem, qsf_worker **out, qsf_error *err)
{
    *out = NULL;
    qsf_worker *w = qsf_alloc(mem, sizeof *w, "reading thread", err);
    if (!w) return QSF_E_MEMORY;
    w->platform = p;
    w->mem = mem;
    const qsf_status st = p->thread_start(p->user, worker_main, w, &w->thread);
    if (st) {
        qsf_dealloc(mem, w, sizeof *w);
        return qsf_fail(err, st, "cannot start the thread that prepares what is read");
    }
    *out = w;
    return QSF_OK;
}

/* Sleeps until the thread has done the job of that ticket. */
static void worker_wait(qsf_worker *w, uint32_t ticket)
{
    for (;;) {
        const uint32_t done = atomic_load_explicit(&w->done, memory_order_acquire);
        if ((int32_t)(done - ticket) >= 0) return;
        w->platform->wait32(w->platform->user, (uint32_t *)&w->done, done, WORKER_NAP);
    }
}

/* Stopping is a job as well, so that the thread that sleeps on the counter sees it. */
void qsf_worker_free(qsf_worker *w)
{
    if (!w) return;
    const qsf_platform *p = w->platform;
    const uint32_t last = atomic_load(&w->given);
    worker_wait(w, last);
    w->stop = true;
    atomic_store(&w->given, last + 1);
    p->wake32(p->user, (uint32_t *)&w->given, 1);
    p->thread_join(p->user, w->thread);
    qsf_dealloc(w->mem, w, sizeof *w);
}

uint32_t qsf_worker_room(const qsf_worker *w)
{
    return QSF_WORKER_JOBS - (atomic_load(&w->given) - atomic_load(&w->done));
}

void qsf_worker_give(qsf_worker *w, qsf_job *job)
{
    const uint32_t n = atomic_load_explicit(&w->given, memory_order_relaxed);
    assert(qsf_worker_room(w) && !job->given);
    job->given = true;
    job->ticket = n + 1;
    w->jobs[n % QSF_WORKER_JOBS] = job;
    atomic_store_explicit(&w->given, n + 1, memory_order_release);
    w->platform->wake32(w->platform->user, (uint32_t *)&w->given, 1);
}

qsf_status qsf_worker_take(qsf_worker *w, qsf_job *job, bool wait, qsf_error *err)
{
    assert(job->given);
    if (!wait && (int32_t)(atomic_load_explicit(&w->done, memory_order_acquire) - job->ticket) < 0)
        return QSF_PENDING;
    worker_wait(w, job->ticket);
    job->given = false;
    if (job->result && err) *err = job->error;
    return job->result;
}
