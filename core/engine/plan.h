/* How a budget is spent: what every part of a context takes, and what gives way.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PLAN_H
#define QSF_PLAN_H

#include "engine/embedding.h"
#include "engine/head_stream.h"
#include "model/model.h"

typedef struct qsf_memory {
    uint32_t n_slots;
    uint64_t *caps;       /* [n_units + 2] bytes of each slot */
    int32_t  *pins;       /* [n_units + 2] unit, or -1 */
    uint64_t stored, raw; /* staging */
    uint32_t n_stages;    /* buffers of stored bytes each */
    uint64_t reserve;     /* all that the context takes for its life but itself and the threads */
    qsf_embedding_plan   embedding;
    qsf_head_stream_plan head;
} qsf_memory;
/* Sizes everything for o->ram_budget and changes o to what was granted.  m->caps and m->pins are
 * the caller's, with room for n_units + 2.  ctx_given: the caller asked for o->n_ctx, so it is the
 * last to give way.  QSF_E_BUDGET says the smallest budget that works. */
qsf_status qsf_plan_make(const qsf_model *model, qsf_context_options *o, bool ctx_given, qsf_memory *m,
                         qsf_plan *plan, qsf_error *err);
/* Tells the log what the plan reduced. */
void       qsf_plan_log(const qsf_model *model, const qsf_plan *plan, const qsf_context_options *o);

#endif
