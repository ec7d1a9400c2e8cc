/* Products of matrices of floats, on all threads: see gemm.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_GEMM_H
#define QSF_TUNE_GEMM_H

#include "base/pool.h"
#include "tune/tune_lanes.h"

/* Threads, and what they multiply in. */
typedef struct tune_team {
    const qsf_platform *platform;
    const tune_lanes   *lanes;
    qsf_pool           *pool;
    uint32_t            n_threads;
    size_t              cap_a, cap_b, cap_own;      /* floats; cap_own: a thread's */
    float              *a, *b;
    float              *own;    /* [n_threads][cap_own] */
} tune_team;

/* own: floats that each thread has for itself. */
qsf_status qsf_tune_team_new(tune_team *t, const qsf_platform *p, uint32_t n_threads, size_t own,
                             qsf_error *err);
void       qsf_tune_team_done(tune_team *t);        /* takes zeros and half-built */

/* Calls fn(arg, thread, begin, end) for ranges that make up [0, n). */
typedef void tune_rows_fn(void *arg, uint32_t thread, size_t begin, size_t end);
void       qsf_tune_rows(tune_team *t, size_t n, tune_rows_fn *fn, void *arg);

/* A matrix whose element (i, j) is p[i * row + j * col]. */
typedef struct tune_view { const float *p; size_t row, col; } tune_view;

/* c[m][ldc] = a[m][k] . b[k][n]; add: added to what is there. */
void       qsf_tune_product(tune_team *t, float *c, size_t ldc, tune_view a, tune_view b, size_t m, size_t n,
                            size_t k, bool add);
/* The same by the calling thread; scratch[qsf_tune_scratch(m, n, k)]. */
void       qsf_tune_product_own(const tune_lanes *l, float *c, size_t ldc, tune_view a, tune_view b, size_t m,
                                size_t n, size_t k, bool add, float *scratch);
size_t     qsf_tune_scratch(size_t m, size_t n, size_t k);

#endif
