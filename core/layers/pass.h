/* One pass of a batch through a part of the network: all inputs of the arithmetic in one argument.
 * SPDX-License-Identifier: MIT
 *
 * The step (step.c) fills a new pass for each layer and for the head; nothing in it changes while
 * it is used, except through the pointers that are marked as output. */
#ifndef QSF_PASS_H
#define QSF_PASS_H

#include "layers/batch.h"
#include "layers/buffers.h"
#include "layers/cpu.h"
#include "weights/layers.h"

/* The offsets of a layer's data in what sequences keep. */
typedef struct qsf_layer_place {
    uint32_t kv;            /* in the KV cache, which does not count layers that `quality` leaves out */
    size_t   state;         /* in a slot of state */
} qsf_layer_place;

typedef struct qsf_pass {
    const qsf_hparams *hp;
    const qsf_context_options *o;       /* as granted */
    const qsf_kernels *k;
    const qsf_batch   *batch;
    const qsf_buffers *b;               /* output, too */
    const qsf_cpu     *cpu;             /* output, too */
    const qsf_weights *w;               /* of the layer; for embedding and head: of their unit */
    const qsf_layer   *layer;           /* NULL for embedding and head */
    int32_t            number;          /* of the layer; -1 for embedding and head */
    qsf_layer_place    place;
} qsf_pass;

/* Reports NaN and infinities before rounding, a maximum or a top-k choice would hide them. */
static inline void qsf_pass_check(const qsf_pass *p, const float *x, size_t n)
{
    if (!qsf_all_finite(x, n)) atomic_store_explicit(p->cpu->not_finite, true, memory_order_relaxed);
}

/* NULL: nothing is recorded. */
static inline qsf_recorder *qsf_pass_recorder(const qsf_pass *p)
{
#if defined(QSF_NO_RECORD)      /* saves the code if records are never requested */
    (void)p;
    return NULL;
#else
    return p->cpu->recorder;
#endif
}

/* Gives rows x[n][ld] of the batch, those from `first` on, to the watcher before matrices multiply
 * them.  kind: of the first of these matrices. */
void qsf_pass_give(const qsf_pass *p, uint32_t kind, const float *x, size_t ld, size_t cols, uint32_t first,
                   uint32_t n);
static inline void qsf_pass_watch(const qsf_pass *p, uint32_t kind, const float *x, size_t ld, size_t cols,
                                  uint32_t first, uint32_t n)
{
#if defined(QSF_NO_RECORD)
    (void)p, (void)kind, (void)x, (void)ld, (void)cols, (void)first, (void)n;
#else
    if (p->cpu->watch) qsf_pass_give(p, kind, x, ld, cols, first, n);
#endif
}

/* The norm of n columns; bias may be NULL, y may be x. */
void qsf_pass_norm(const qsf_pass *p, qsf_norm norm, float *y, const float *x, const float *weight,
                   const float *bias, size_t n);
/* The rotary angles of row r of the batch. */
void qsf_pass_angles(const qsf_pass *p, uint32_t r);

/* Runs the operation that run describes on the pool's threads.  Returns the time when it
 * ended. */
uint64_t qsf_pass_share(const qsf_pass *p, qsf_op_run *run);
/* Accounts for an operation that the caller has done alone since `begin`.  Returns the time now. */
uint64_t qsf_pass_alone(const qsf_pass *p, qsf_op op, uint64_t begin);

#endif
