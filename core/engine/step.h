/* The step: what others need of it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEP_H
#define QSF_STEP_H

#include "engine/context.h"
#include "model/part.h"

/* Computes what an approximate head has left out of the logits that qsf_logits(c, i) gives, for the
 * tokens of mask, a bit for each token. */
qsf_status qsf_logits_of(qsf_context *c, size_t i, const uint32_t *mask);

/* How the token after a row of the next batch will be chosen. */
void qsf_choice_tell(qsf_context *c, const qsf_choice *x);

#if defined(QSF_NO_CANDIDATES)          /* no executor has any */
static inline void qsf_candidates_ask(qsf_context *c) { (void)c; }
static inline const qsf_candidates *qsf_candidates_of(const qsf_context *c, size_t i)
{
    (void)c, (void)i;
    return NULL;
}
#else
/* Candidates are enough for most rows of the next batch. */
static inline void qsf_candidates_ask(qsf_context *c) { c->now.few = true; }
/* Those of a row that asked, counted as qsf_logits counts; NULL: there are only its logits. */
static inline const qsf_candidates *qsf_candidates_of(const qsf_context *c, size_t i)
{
    return !c->now.active && i < c->batch.n_asked && c->now.candidates ? c->now.candidates + i : NULL;
}
#endif

/* What rows of an EAGLE 3 head begin with. */
typedef struct qsf_eagle_rows {
    const float *embd;          /* [n][n_embd] embeddings of their tokens */
    const float *states;        /* [n][n_features] of its model; own: [n][n_embd] its own hidden states */
    bool         own;
} qsf_eagle_rows;
/* Computes a batch of these; qsf_hidden gives their hidden states before the final norm. */
qsf_status qsf_compute_eagle(qsf_context *c, const qsf_row *rows, size_t n, const qsf_eagle_rows *from);

/* Whether a layer has been computed at this stage. */
bool qsf_stage_after(qsf_stage s, uint32_t layer);

#endif
