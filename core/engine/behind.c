/* The callbacks of a context whose later layers are computed elsewhere.
 * SPDX-License-Identifier: MIT */
#include "engine/behind.h"
#include "base/sized.h"
#include "engine/context.h"
#include "model/part.h"

qsf_status qsf_context_set_behind(qsf_context *c, const qsf_behind *b)
{
    qsf_behind_use own = { 0 };
    const qsf_source *s = c->model->source;
    const qsf_status st = QSF_TAKE(&own.use, b, qsf_behind, &c->error);
    if (st) return st;
    if (!own.use.compute || !own.use.back || !own.use.share || c->behind.rows)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "the rest of a model can be set only once, with all its "
                                                   "functions");
    if (!qsf_part_begins(s) || qsf_part_ends(s))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s: layers %u to %u are open here; a rest can only "
                        "follow the first layers, not include the last one", s->path, (unsigned)s->n_before,
                        (unsigned)qsf_part_end(s) - 1);
    if (qsf_state_place(s, c->o.quality, s->hp.n_layers) || c->lora.n_used)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s: layers that keep state, and adapters, cannot be "
                        "followed by layers elsewhere", s->path);
    own.rows = qsf_alloc_array(c->platform, c->o.n_batch, sizeof *own.rows, "the rest", &c->error);
    if (!own.rows) return QSF_E_MEMORY;
    c->behind = own;
    return QSF_OK;
}

qsf_status qsf_behind_compute(qsf_context *c)
{
    for (uint32_t i = 0; i < c->batch.n; i++) {
        const qsf_batch_row *r = &c->batch.rows[i];
        c->behind.rows[i] = (qsf_row){ (qsf_seq)r->seq, r->token, r->logits >= 0 };
    }
    const qsf_behind *b = &c->behind.use;
    const qsf_rows *states = &c->now.rows[QSF_ROWS_STATES], *logits = &c->now.rows[QSF_ROWS_LOGITS];
    const qsf_status st = b->compute(b->user, c->behind.rows, c->batch.n, states->x, states->ld, logits->x,
                                     logits->ld);
    return !st ? st : qsf_fail(&c->error, st, "%s: the layers after %u could not be computed",
                               c->model->source->path, (unsigned)qsf_part_end(c->model->source) - 1);
}

qsf_status qsf_behind_adapt(qsf_context *c, qsf_seq s, const qsf_adapter_use *uses, size_t n)
{
    const qsf_behind *b = &c->behind.use;
    const qsf_status st = b->adapters(b->user, s, uses, n);
    return !st ? st : qsf_fail(&c->error, st, "%s: the layers after %u cannot have these adapters",
                               c->model->source->path, (unsigned)qsf_part_end(c->model->source) - 1);
}

bool qsf_behind_there(const qsf_context *c) { return c->behind.rows; }

void qsf_behind_done(qsf_context *c)
{
    if (c->behind.rows) qsf_dealloc(c->platform, c->behind.rows, c->o.n_batch * sizeof *c->behind.rows);
}
