/* Passes the inputs of matrices to a callback that measures them (convert/calibrate).
 * SPDX-License-Identifier: MIT
 *
 * A watcher is called between two operations of a step, once for each input that matrices share,
 * by the thread that computes; the pool is idle then and may be used. */
#ifndef QSF_WATCH_H
#define QSF_WATCH_H

#include "base/pool.h"
#include "kernels.h"
#include "layers/batch.h"

typedef struct qsf_watched {
    int32_t  layer;               /* -1: the head's */
    uint32_t kind;                /* the first of the matrices that read it: ATTN_Q, FFN_UP, OUTPUT, ... */
    const float *x;               /* [n][ld] of which cols count */
    size_t   ld;
    uint32_t cols, n;
    const qsf_batch_row *rows;    /* [n], or of the whole batch: */
    const uint32_t *row_of;       /* [n] places in it; NULL: row i is i */
    uint32_t expert;              /* 1 + the index of the expert that takes these rows; 0: not an expert's */
    const qsf_kernels *k;
    qsf_pool *pool;
} qsf_watched;

typedef struct qsf_watch {
    void (*fn)(void *user, const qsf_watched *w);       /* NULL: not watched */
    void  *user;
} qsf_watch;

#endif
