/* Records of what a context does, given to the caller's callback (qsf_context_options.record).
 * SPDX-License-Identifier: MIT
 *
 * While an operation runs, each thread notes its work in an entry of its own; the caller reads
 * these when all pieces are done, and emits the records.  If no records were requested, none of
 * this runs. */
#ifndef QSF_RECORDER_H
#define QSF_RECORDER_H

#include "base/pool.h"
#include "layers/operation.h"

/* What one thread did of the operation under way; 64 bytes, a line of the cache.  Times are 0 if
 * it did nothing. */
typedef struct qsf_thread_span {
    uint64_t begin, end;
    uint64_t first[QSF_OP_PRODUCTS], busy[QSF_OP_PRODUCTS];     /* of each product */
} qsf_thread_span;

typedef struct qsf_recorder {
    qsf_record_fn    fn;                /* NULL: not requested */
    void            *user;
    const qsf_platform *platform;
    const qsf_source *source;
    const qsf_kernels *k;
    uint32_t         n_threads;
    qsf_thread_span *threads;           /* [n_threads]; NULL if not requested */
    const qsf_op_run *run;              /* under way */
} qsf_recorder;

/* Runs an operation as qsf_pool_run does, and notes what its threads do; one that has no pieces. */
void qsf_record_pool(qsf_recorder *r, qsf_pool *pool, const qsf_op_run *run);
void qsf_record_none(qsf_recorder *r);
/* A thread's part of the product with m. */
void qsf_record_product(qsf_recorder *r, const qsf_matrix *m, uint32_t thread, uint64_t begin, uint64_t end);
/* Gives the records of an operation that is over: of its products, its threads, and itself.  layer:
 * -1 for none; n_rows: of the batch. */
void qsf_record_op(qsf_recorder *r, const qsf_op_run *run, int32_t layer, uint32_t n_rows, uint64_t now);
/* Gives one of the caller's thread that ends now. */
void qsf_record_stretch(const qsf_recorder *r, qsf_record_type type, const char *name, int32_t layer,
                        uint32_t n_rows, uint64_t begin);

#endif
