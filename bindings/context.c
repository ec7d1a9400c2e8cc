/* Contexts and conversations of the flat interface: plans, sequences, adapters, sessions.
 * SPDX-License-Identifier: MIT */
#include "own.h"

/* ---- contexts ---- */

static void context_done(flat_object *o)
{
    flat_context *c = (flat_context *)o;
    qsf_context_free(c->context);
    qsf_flat_dealloc(c->seqs, c->n_seqs * sizeof *c->seqs);
}

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

/* Reads options, makes room for guesses, and forgets the warnings of the plan before. */
static qsf_status context_begin(flat_context *c, flat_model *m, const char *options, qsf_context_options *o)
{
    flat_asked asked;
    if (c->context) return qsf_flat_fail(&c->o, QSF_E_ARGUMENT, "the context is open already");
    qsf_context_defaults(o);
    const qsf_status st = qsf_flat_options(&c->o, options, &asked, context_set, o);
    if (st) return st;
    c->plan.size = sizeof c->plan;
    qsf_flat_lock();
    m->warnings[0] = 0;
    qsf_flat_unlock();
    c->guesses = qsf_draft_room(m->model, o, QSF_DRAFT_MOST);
    return QSF_OK;
}

int32_t qsf_flat_context_plan(uint32_t context, const char *options)
{
    flat_context *c = qsf_flat_at(context, FLAT_CONTEXT);
    qsf_context_options o;
    if (!c) return QSF_E_ARGUMENT;
    flat_model *m = qsf_flat_up(&c->o, FLAT_MODEL);
    qsf_status st = context_begin(c, m, options, &o);
    if (!st && !(st = qsf_context_plan(m->model, &o, &c->plan, &c->o.error))) qsf_plan_log(m->model,
                                                                                           &c->plan, &o);
    return (int32_t)st;
}

int32_t qsf_flat_context_open(uint32_t context, const char *options)
{
    flat_context *c = qsf_flat_at(context, FLAT_CONTEXT);
    qsf_context_options o;
    if (!c) return QSF_E_ARGUMENT;
    flat_model *m = qsf_flat_up(&c->o, FLAT_MODEL);
    qsf_status st = context_begin(c, m, options, &o);
    if (st) return (int32_t)st;
    if (!c->seqs && !(c->seqs = qsf_flat_alloc(&c->o, o.n_seqs * sizeof *c->seqs))) return QSF_E_MEMORY;
    c->n_seqs = o.n_seqs;
    st = qsf_context_new(m->model, &o, &c->context, &c->o.error);
    if (st) {
        qsf_flat_dealloc(c->seqs, c->n_seqs * sizeof *c->seqs);
        c->seqs = NULL;
        return (int32_t)st;
    }
    return (int32_t)qsf_context_get_plan(c->context, &c->plan);
}

static flat_context *context_at(uint32_t handle)
{
    flat_context *c = qsf_flat_at(handle, FLAT_CONTEXT);
    return c && c->context ? c : NULL;
}
int32_t qsf_flat_refine(uint32_t context)
{
    flat_context *c = context_at(context);
    return c ? (int32_t)qsf_flat_said(&c->o, qsf_refine(c->context, false)) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_wait(uint32_t context)
{
    flat_context *c = context_at(context);
    return c ? (int32_t)qsf_flat_said(&c->o, qsf_wait(c->context)) : QSF_E_ARGUMENT;
}

/* ---- conversations ---- */

static void conversation_done(flat_object *o)
{
    flat_conversation *v = (flat_conversation *)o;
    flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    if (!v->turn) return;
    qsf_turn_free(v->turn);
    c->seqs[v->seq] = NULL;
}

/* A sequence that no conversation has is emptied when the next one takes it: that drops an
 * unfinished batch. */
static qsf_status conversation_start(flat_context *c, flat_conversation *v)
{
    uint32_t s = 0;
    const qsf_status st = qsf_flat_claim(&v->o, NULL);
    if (st) return st;
    while (s < c->n_seqs && c->seqs[s]) s++;
    if (s == c->n_seqs)
        return qsf_flat_fail(&v->o, QSF_E_FULL, "all sequences of the context have conversations: free one, "
                             "or open the context with more (seqs)");
    v->seq = (qsf_seq)s;
    (void)qsf_seq_set_adapters(c->context, v->seq, NULL, 0);
    (void)qsf_seq_truncate(c->context, v->seq, 0);
    const qsf_status made = qsf_turn_new(c->context, v->seq, &v->turn, &v->o.error);
    if (!made) c->seqs[s] = v;
    return made;
}

uint32_t qsf_flat_conversation_new(uint32_t context)
{
    uint32_t handle;
    flat_context *c = context_at(context);
    flat_conversation *v = c ? qsf_flat_make(&handle, FLAT_CONVERSATION, sizeof *v, &c->o,
                                             conversation_done) : NULL;
    if (!v) return 0;
    (void)conversation_start(c, v);
    return handle;
}

static flat_conversation *conversation_at(uint32_t handle)
{
    flat_conversation *v = qsf_flat_at(handle, FLAT_CONVERSATION);
    return v && v->turn ? v : NULL;
}

int32_t qsf_flat_conversation_adapt(uint32_t conversation, const uint32_t *adapters, const float *scales,
                                    size_t n)
{
    enum { MOST = 8 };
    flat_conversation *v = conversation_at(conversation);
    qsf_adapter_use uses[MOST];
    if (!v) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    if (n > MOST) return (int32_t)qsf_flat_fail(&v->o, QSF_E_ARGUMENT, "at most 8 adapters at once");
    for (size_t i = 0; i < n; i++) {
        const flat_adapter *a = qsf_flat_at(adapters[i], FLAT_ADAPTER);
        if (!a || !a->adapter) return (int32_t)qsf_flat_fail(&v->o, QSF_E_ARGUMENT,
                                                             "an adapter has been freed");
        uses[i] = (qsf_adapter_use){ a->adapter, scales[i] };
    }
    qsf_status st = qsf_flat_claim(&v->o, v);
    if (st) return (int32_t)st;
    st = qsf_seq_set_adapters(c->context, v->seq, uses, n);
    if (!qsf_seq_length(c->context, v->seq)) (void)qsf_turn_hold(v->turn, NULL, 0);
    return (int32_t)qsf_flat_said(&v->o, st);
}

int32_t qsf_flat_conversation_tokens(uint32_t conversation, int32_t *dst, size_t cap)
{
    const flat_conversation *v = conversation_at(conversation);
    size_t n;
    if (!v) return -(int32_t)QSF_E_ARGUMENT;
    const int32_t *ids = qsf_turn_tokens(v->turn, &n);
    if (n && cap) memcpy(dst, ids, (n < cap ? n : cap) * sizeof *dst);
    return (int32_t)n;
}

/* ---- sessions ---- */

int32_t qsf_flat_session_save(uint32_t conversation, qsf_write_fn write, void *user)
{
    flat_conversation *v = conversation_at(conversation);
    size_t n;
    if (!v) return QSF_E_ARGUMENT;
    const flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    const qsf_status st = qsf_flat_claim(&v->o, v);
    if (st) return (int32_t)st;
    const int32_t *ids = qsf_turn_tokens(v->turn, &n);
    return (int32_t)qsf_session_save(c->context, v->seq, ids, n, write, user, &v->o.error);
}

int32_t qsf_flat_session_load(uint32_t conversation, uint64_t length,
                              qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len), void *user)
{
    flat_conversation *v = conversation_at(conversation);
    const qsf_custom_file from = { .size = sizeof from, .length = length, .read = read, .user = user };
    size_t n = 0;
    if (!v) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    const size_t cap = c->plan.n_ctx;
    qsf_status st = qsf_flat_claim(&v->o, v);
    if (st) return (int32_t)st;
    int32_t *ids = qsf_flat_alloc(&v->o, cap * sizeof *ids);
    if (!ids) return QSF_E_MEMORY;
    st = qsf_session_load(c->context, v->seq, &from, ids, cap, &n, &v->o.error);
    if (!st && (st = qsf_turn_hold(v->turn, ids, n))) v->o.error = *qsf_turn_error(v->turn);
    qsf_flat_dealloc(ids, cap * sizeof *ids);
    return (int32_t)st;
}
