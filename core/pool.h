/* Threads that run one function together and meet at barriers: one parallel region a step.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_POOL_H
#define QSF_POOL_H

#include "host.h"

enum { QSF_MAX_THREADS = 256 };

typedef struct qsf_pool qsf_pool;

/* n_threads - 1 threads are started; the caller of qsf_pool_run is thread 0.  n_threads 0: one a processor. */
qsf_status qsf_pool_new(const qsf_platform *p, uint32_t n_threads, qsf_pool **out, qsf_error *err);
void       qsf_pool_free(qsf_pool *pool);      /* takes NULL and half-built */
uint32_t   qsf_pool_threads(const qsf_platform *p, uint32_t n_threads);     /* how many it would have */
uint32_t   qsf_pool_size(const qsf_pool *pool);     /* threads that run: all, or as many as qsf_pool_use said */
/* Between runs: from now on the first n threads run, 1 <= n <= those that were started; the others sleep, and cost nothing. */
void       qsf_pool_use(qsf_pool *pool, uint32_t n);
uint64_t   qsf_pool_bytes(uint32_t n_threads);      /* memory of a pool, without the threads' stacks */

/* Calls fn(arg, i) for every thread i that runs and returns when all have returned. */
void qsf_pool_run(qsf_pool *pool, void (*fn)(void *arg, uint32_t thread), void *arg);
/* Inside fn: waits until every thread that runs is here. */
void qsf_pool_barrier(qsf_pool *pool);

#endif
