/* The engine's state, shared by its thread's file and that of its events.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_ENGINE_OWN_H
#define QSF_SERVE_ENGINE_OWN_H

#include "drafter.h"
#include "scheduler.h"

#include <pthread.h>

enum { RING_BYTES = 1 << 20 };         /* a power of two; more than one event can take */

struct serve_engine {
    qsf_context   *context;
    serve_engine_options o;
    drafter        drafter;
    serve_facts    facts;
    serve_metrics *metrics;
    scheduler      schedule;

    pthread_t       thread;
    bool            started;
    pthread_mutex_t lock;              /* of the list of jobs */
    pthread_cond_t  changed;
    serve_job      *jobs, **jobs_end;
    unsigned        n_jobs;            /* answers in it */
    bool            looks;             /* something else wants to be looked at */
    atomic_bool     ends, spoilt;

    char           *ring;              /* [RING_BYTES] */
    _Atomic size_t  written, taken;    /* bytes since the beginning */
    size_t          given;             /* of the event that the front looks at */
    atomic_bool     woken;
    int             wake_fd;
    struct { atomic_uint state, n_prompt, n_done, n_tokens; } *slots;
};

/* Publishes the engine's state.  It is called before the end of a job is posted, too: a client that
 * has its whole answer and asks for the state must not find the job still running. */
void engine_show(serve_engine *e);
/* Wakes the front, which takes the events that are there. */
void engine_show_events(serve_engine *e);

#endif
