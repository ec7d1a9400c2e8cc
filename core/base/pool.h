/* Threads that share the pieces of a job: one parallel stretch at a time, its pieces claimed one by
 * one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_POOL_H
#define QSF_POOL_H

#include "base/host.h"

enum { QSF_MAX_THREADS = 256, QSF_POOL_PIECES = 4096 };

typedef struct qsf_pool qsf_pool;

/* n_threads - 1 threads are started; the caller of qsf_pool_run is thread 0.  n_threads 0: one a
 * processor.
 */
qsf_status qsf_pool_new(const qsf_platform *p, uint32_t n_threads, qsf_pool **out, qsf_error *err);
void qsf_pool_free(qsf_pool *pool);                                   /* takes NULL and half-built */
uint32_t qsf_pool_threads(const qsf_platform *p, uint32_t n_threads); /* how many it would have */
uint32_t qsf_pool_size(const qsf_pool *pool); /* threads that may run: all, or as set by qsf_pool_use */
/* Between runs: from now on only the first n threads may run, 1 <= n <= those that were started;
 * the others sleep, and cost nothing. */
void qsf_pool_use(qsf_pool *pool, uint32_t n);
uint64_t qsf_pool_bytes(uint32_t n_threads); /* memory of a pool, without the threads' stacks */

/* Calls fn(arg, thread, piece) once for each piece of [0, n), n <= QSF_POOL_PIECES, and returns
 * when all calls have returned. size: any number; jobs of the same fn, n and size take about the
 * same time.
 *
 * thread is below the number of threads that were started, and no two calls with the same one
 * overlap: scratch memory is chosen by it. Which thread does which piece, and whether more than the
 * caller does any, depends on what else the machine does: results must not. */
void qsf_pool_run(qsf_pool *pool, uint32_t n, uint32_t size,
                  void (*fn)(void *arg, uint32_t thread, uint32_t piece), void *arg);

/* How many pieces suit n items: several for each thread,
 * so that one that is not running holds up little. */
uint32_t qsf_pool_pieces(const qsf_pool *pool, size_t n);

/* The items of a piece. */
typedef struct qsf_range {
    size_t begin, end;
} qsf_range;
static inline qsf_range qsf_range_of(size_t n, uint32_t piece, uint32_t n_pieces)
{
    return (qsf_range){ (size_t)((uint64_t)n * piece / n_pieces),
                        (size_t)((uint64_t)n * (piece + 1) / n_pieces) };
}

#endif
