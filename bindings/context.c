/* Contexts of the flat interface: plans and options.
 * SPDX-License-Identifier: MIT */
#include "own.h"

/* ---- contexts ---- */

static void context_close(flat_context *c)
{
    qsf_flat_steps_free(c);
    qsf_flat_drafts_end(c);
    qsf_context_free(c->context);
    qsf_flat_dealloc(c->seqs, c->n_seqs * sizeof *c->seqs);
    c->context = NULL;
    c->seqs = NULL;
}
static void context_done(flat_object *o) { context_close((flat_context *)o); }

uint32_t qsf_flat_context_new(uint32_t model)
{
    uint32_t handle;
    flat_model *m = qsf_flat_at(model, FLAT_MODEL);
    if (!m || !m->model) return 0;
    return qsf_flat_make(&handle, FLAT_CONTEXT, sizeof(flat_context), &m->o, context_done) ? handle : 0;
}

static qsf_status context_set(void *o, const char *name, const char *value, qsf_error *err)
{
    return qsf_context_set(o, name, value, err);
}

/* Reads options, and makes room for guesses; *own: options of the layer that makes them. */
static qsf_status context_begin(flat_context *c, flat_model *m, const char *options, qsf_context_options *o,
                                qsf_context_options *own)
{
    flat_asked asked;
    if (c->context) return qsf_flat_fail(&c->o, QSF_E_ARGUMENT, "the context is open already");
    qsf_context_defaults(o);
    const qsf_status st = qsf_flat_options(&c->o, options, &asked, context_set, o);
    if (st) return st;
    c->plan.size = sizeof c->plan;
    if (m->drafts) c->guesses = 0;
    else c->guesses = qsf_draft_room(m->model, o, QSF_DRAFT_MOST);
    return qsf_flat_drafts_plan(c, m, o, own);
}

/* Logs a plan. Its warnings are kept apart from those of a context that is open. */
static void plan_log(flat_context *c, flat_model *m, const qsf_context_options *o)
{
    qsf_flat_lock();
    m->planner = c;
    qsf_flat_unlock();
    qsf_plan_log(m->model, &c->plan, o);
    qsf_flat_lock();
    m->planner = NULL;
    qsf_flat_unlock();
}

int32_t qsf_flat_context_plan(uint32_t context, const char *options)
{
    flat_context *c = qsf_flat_at(context, FLAT_CONTEXT);
    qsf_context_options o, own;
    if (!c) return QSF_E_ARGUMENT;
    flat_model *m = qsf_flat_up(&c->o, FLAT_MODEL);
    qsf_status st = context_begin(c, m, options, &o, &own);
    if (st) return (int32_t)st;
    c->warnings[0] = 0;
    if (!(st = qsf_context_plan(m->model, &o, &c->plan, &c->o.error))) plan_log(c, m, &o);
    qsf_flat_drafts_planned(c, st);
    return (int32_t)st;
}

int32_t qsf_flat_context_open(uint32_t context, const char *options)
{
    flat_context *c = qsf_flat_at(context, FLAT_CONTEXT);
    qsf_context_options o, own;
    if (!c) return QSF_E_ARGUMENT;
    flat_model *m = qsf_flat_up(&c->o, FLAT_MODEL);
    qsf_status st = context_begin(c, m, options, &o, &own);
    if (st) return (int32_t)st;
    if (!c->seqs && !(c->seqs = qsf_flat_alloc(&c->o, o.n_seqs * sizeof *c->seqs))) return QSF_E_MEMORY;
    c->n_seqs = o.n_seqs;
    c->n_logits = o.n_logits ? o.n_logits : o.n_seqs;
    qsf_flat_lock();
    m->warnings[0] = 0;
    qsf_flat_unlock();
    st = qsf_context_new(m->model, &o, &c->context, &c->o.error);
    if (!st) st = qsf_flat_drafts_begin(c, m, &own);
    if (!st) st = qsf_flat_steps_new(c);
    if (!st) st = qsf_context_get_plan(c->context, &c->plan);
    qsf_flat_drafts_planned(c, st);
    if (st) context_close(c);
    return (int32_t)st;
}

qsf_context *qsf_flat_context(uint32_t handle)
{
    flat_object *o = qsf_flat_at(handle, FLAT_ANY);
    const flat_context *c = o ? qsf_flat_up(o, FLAT_CONTEXT) : NULL;
    return c ? c->context : NULL;
}

int32_t qsf_flat_refine(uint32_t context)
{
    flat_context *c = qsf_flat_context_at(context);
    return c ? (int32_t)qsf_flat_said(&c->o, qsf_refine(c->context, false)) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_wait(uint32_t context)
{
    flat_context *c = qsf_flat_context_at(context);
    return c ? (int32_t)qsf_flat_said(&c->o, qsf_wait(c->context)) : QSF_E_ARGUMENT;
}
