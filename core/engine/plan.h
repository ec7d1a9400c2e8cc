/* How a memory budget is spent: what each part of a context takes, and what is reduced to fit.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PLAN_H
#define QSF_PLAN_H

#include "engine/ladder.h"

/* How a context's memory is laid out. */
typedef struct qsf_memory {
    uint64_t *caps;       /* [n_units + 2] bytes of each slot */
    qsf_pin  *pins;       /* [n_units + 2] what it keeps */
    qsf_fetch_plan fetch; /* with these */
    uint64_t reserve;     /* all that the context takes for its life but itself and the threads */
    qsf_embedding_plan   embedding;
    qsf_head_stream_plan head;
} qsf_memory;
qsf_status qsf_memory_init(qsf_memory *m, const qsf_model *model, qsf_error *err);
void       qsf_memory_done(qsf_memory *m, const qsf_model *model);      /* accepts a partly built one */
/* Of m->reserve, what is there for rounding pieces up to whole cache lines and pages. */
uint64_t   qsf_plan_rounding(const qsf_source *s);
/* Sizes everything for o->ram_budget, changes o to what was granted and fills m, which was begun.
 * ctx_given: the caller asked for o->n_ctx, so it is reduced last.  The message of QSF_E_BUDGET
 * gives the smallest budget that works. */
qsf_status qsf_plan_make(const qsf_model *model, qsf_context_options *o, bool ctx_given, qsf_memory *m,
                         qsf_plan *plan, qsf_error *err);

#endif
