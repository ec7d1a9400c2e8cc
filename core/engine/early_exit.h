/* Early exit: rows that skip layers, which are computed for them with a later batch.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_EARLY_EXIT_H
#define QSF_EARLY_EXIT_H

#include "engine/executor.h"

typedef struct qsf_early_exit {
    const qsf_hparams *hp;
    float    threshold;                      /* a cosine; 0: no row leaves */
    uint32_t n_waiting;                      /* rows that wait */
    uint32_t joined;                         /* the last of them: the batch under way has taken them along */
    qsf_batch_row rows[QSF_EXIT_MOST];
    uint32_t layer[QSF_EXIT_MOST];           /* each one's next */
    float   *x;                              /* [QSF_EXIT_MOST][n_embd]; the context's memory */
    float   *last;                           /* [n_embd] at the last check */
    bool     checked;                        /* the batch under way has a state to compare with */
    bool     gone;                           /* and has left the others for the last layers */
} qsf_early_exit;

/* A batch begins. */
void qsf_exit_begin(qsf_early_exit *e);
/* Before layer `layer` is computed: rows that wait for it, or for a skipped one, are put in front
 * of the batch's own, which x computes. */
void qsf_exit_join(qsf_early_exit *e, qsf_batch *batch, qsf_executor *x, uint32_t layer);
/* *next, the layer after `layer`, which was computed, becomes a later one if the batch leaves.
 * n_new: rows that it began with. */
qsf_status qsf_exit_next(qsf_early_exit *e, qsf_batch *batch, qsf_executor *x, uint32_t n_new, uint32_t layer,
                         uint32_t *next, qsf_error *err);
/* The batch is done, and so are the rows that joined it, unless it has left. */
void qsf_exit_end(qsf_early_exit *e);
/* The batch is dropped: the rows that joined it wait where they did. */
void qsf_exit_drop(qsf_early_exit *e);

/* Positions of sequence s from n on have been removed. */
void qsf_exit_truncate(qsf_early_exit *e, uint32_t s, uint32_t n);
/* Whether the first n positions of s are computed to the end. */
qsf_status qsf_exit_check(const qsf_early_exit *e, uint32_t s, uint32_t n, qsf_error *err);

/* The cosine of a and b; 0 if one of them is all zeros. */
double qsf_cosine(const float *a, const float *b, size_t n);

#endif
