/* What makes the guesses of answers, if that is not a search in earlier text: the model's own layer
 * for multi-token prediction, an EAGLE 3 head, or a draft model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_DRAFTER_H
#define QSF_SERVE_DRAFTER_H

#include "engine.h"

typedef struct drafter {
    qsf_context *context;                  /* its own; NULL: earlier text makes the guesses */
    bool         own;                      /* it is the model's own layer for multi-token prediction */
    qsf_mtp     *mtp;                      /* one of these two is not NULL */
    qsf_draft_model *model;
    bool         told;                     /* that it has failed */
} drafter;

/* Takes what it needs, *bytes, off o->context's budget, and fills the options of its own context.
 * *bytes is 0 if o->drafts is NULL.  Errors are those of qsf_context_plan. */
qsf_status drafter_plan(serve_engine_options *o, qsf_model *m, qsf_context_options *own, uint64_t *bytes,
                        qsf_error *err);
/* Adds its bytes to the error of a context that does not fit the rest of the budget. */
void drafter_explain(const serve_engine_options *o, uint64_t bytes, qsf_error *err);
/* Makes its context, which follows c from now on. */
qsf_status drafter_begin(drafter *d, const serve_engine_options *o, qsf_context *c,
                         const qsf_context_options *own, qsf_error *err);
void drafter_end(drafter *d);              /* before c is freed */
/* Sets the options of a turn in sequence s. */
void drafter_turn(const drafter *d, qsf_seq s, qsf_turn_options *o);
/* Logs once that it has failed, if it has. */
void drafter_look(drafter *d);

#endif
