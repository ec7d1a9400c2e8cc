/* Conversations of the flat interface: a sequence of the context, the prompt of its next answer,
 * and how that answer is split; adapters and sessions.
 * SPDX-License-Identifier: MIT */
#include "own.h"

/* ---- conversations ---- */

static void conversation_done(flat_object *o)
{
    flat_conversation *v = (flat_conversation *)o;
    flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    qsf_flat_drafts_count(c, v);
    qsf_conversation_free(v->talk);
    qsf_turn_free(v->turn);
    if (v->turn && v->seq >= 0) {
        c->seqs[v->seq] = NULL;
        qsf_schedule_use(c->schedule, v->seq, QSF_SEQ_FREE, 0);
        if (!c->owner) (void)qsf_seq_truncate(c->context, v->seq, 0);
    }
}

/* NULL: it has been freed or is another model's, which is then the conversation's error. */
static qsf_adapter *adapter_of(flat_conversation *v, uint32_t handle)
{
    const flat_adapter *a = qsf_flat_at(handle, FLAT_ADAPTER);
    const bool is_ours = a && a->o.parent == qsf_flat_up(&v->o, FLAT_MODEL);
    if (is_ours && a->adapter) return a->adapter;
    qsf_flat_fail(&v->o, QSF_E_ARGUMENT, a && !is_ours ? "an adapter is another model's"
                  : "an adapter has been freed");
    return NULL;
}

static qsf_status adapters_set(flat_context *c, flat_conversation *v)
{
    qsf_adapter_use uses[FLAT_ADAPTERS];
    for (size_t i = 0; i < v->n_adapters; i++) {
        uses[i] = (qsf_adapter_use){ adapter_of(v, v->adapters[i]), v->scales[i] };
        if (!uses[i].adapter) return QSF_E_ARGUMENT;
    }
    return qsf_flat_said(&v->o, qsf_seq_set_adapters(c->context, v->seq, uses, v->n_adapters));
}

/* A sequence that no conversation has is emptied when the next one takes it: that drops an
 * unfinished batch. */
static qsf_status conversation_sit(flat_context *c, flat_conversation *v)
{
    const qsf_status st = qsf_flat_claim(&v->o, NULL);
    if (st) return st;
    const qsf_seq s = qsf_schedule_unused(c->schedule);
    if (s < 0)
        return qsf_flat_fail(&v->o, QSF_E_FULL, "all sequences of the context have conversations: free one, "
                             "or open the context with more (seqs)");
    v->seq = s;
    (void)qsf_seq_set_adapters(c->context, s, NULL, 0);
    (void)qsf_seq_truncate(c->context, s, 0);
    return QSF_OK;
}

static void conversation_seated(flat_context *c, flat_conversation *v)
{
    c->seqs[v->seq] = v;
    qsf_schedule_use(c->schedule, v->seq, QSF_SEQ_KEPT, 0);
}

static qsf_status conversation_start(flat_context *c, flat_conversation *v)
{
    qsf_status st = conversation_sit(c, v);
    if (!st) st = qsf_turn_new(c->context, v->seq, &v->turn, &v->o.error);
    if (!st) conversation_seated(c, v);
    return st;
}

static qsf_status conversation_make(flat_conversation *v, const char *options, qsf_conversation **out)
{
    const flat_model *m = qsf_flat_up(&v->o, FLAT_MODEL);
    flat_asked asked;
    const qsf_status st = qsf_flat_options(&v->o, options, &asked, NULL, NULL);
    return st ? st : qsf_conversation_new(m->model, &asked.chat, out, &v->o.error);
}

uint32_t qsf_flat_conversation_new(uint32_t context, const char *options)
{
    uint32_t handle;
    flat_context *c = qsf_flat_context_at(context);
    flat_conversation *v = c ? qsf_flat_make(&handle, FLAT_CONVERSATION, sizeof *v, &c->o,
                                             conversation_done) : NULL;
    if (!v) return 0;
    v->handle = handle;
    v->seq = -1;
    if (!conversation_make(v, options, &v->talk)) (void)conversation_start(c, v);
    return handle;
}

static flat_conversation *conversation_at(uint32_t handle)
{
    flat_conversation *v = qsf_flat_at(handle, FLAT_CONVERSATION);
    return v && v->turn ? v : NULL;
}

/* ---- its sequence ---- */

qsf_status qsf_flat_seated(flat_object *o, const flat_conversation *v)
{
    return v->seq >= 0 ? QSF_OK : qsf_flat_fail(o, QSF_E_ARGUMENT, "the conversation has no sequence: "
                                                "qsf_flat_conversation_seat");
}

int32_t qsf_flat_conversation_seat(uint32_t conversation)
{
    flat_conversation *v = conversation_at(conversation);
    if (!v) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    if (v->seq >= 0) {                  /* it is the last that should leave now */
        qsf_schedule_use(c->schedule, v->seq, qsf_schedule_seq(c->schedule, v->seq)->use, 0);
        return QSF_OK;
    }
    qsf_status st = conversation_sit(c, v);
    if (!st && (st = adapters_set(c, v))) v->seq = -1;
    if (st) return (int32_t)st;
    qsf_turn_move(v->turn, v->seq);
    conversation_seated(c, v);
    return QSF_OK;
}

int32_t qsf_flat_conversation_leave(uint32_t conversation)
{
    flat_conversation *v = conversation_at(conversation);
    if (!v) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    if (v->seq < 0) return QSF_OK;
    const qsf_status st = qsf_flat_free_for(&v->o, NULL);
    if (st) return (int32_t)st;
    if (v->answer && v->answer->is_ready)
        return (int32_t)qsf_flat_fail(&v->o, QSF_E_ARGUMENT, "the conversation's answer has pieces: read "
                                      "them first, until QSF_PENDING");
    qsf_flat_drafts_count(c, v);
    (void)qsf_seq_truncate(c->context, v->seq, 0);
    (void)qsf_seq_set_adapters(c->context, v->seq, NULL, 0);
    c->seqs[v->seq] = NULL;
    qsf_schedule_use(c->schedule, v->seq, QSF_SEQ_FREE, 0);
    v->seq = -1;
    qsf_turn_move(v->turn, -1);
    return QSF_OK;
}

int32_t qsf_flat_conversation_sequence(uint32_t conversation)
{
    const flat_conversation *v = conversation_at(conversation);
    return v ? v->seq : -1;
}

static size_t same_tokens(const int32_t *a, const int32_t *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

void qsf_flat_conversation_share(flat_conversation *v)
{
    enum { LEAST = 32 };                /* a block */
    const flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    const flat_conversation *like = NULL;
    size_t n, have;
    const int32_t *ids = qsf_conversation_tokens(v->talk, &n), *own = qsf_turn_tokens(v->turn, &have);
    const size_t most = n ? n - 1 : 0;
    size_t best = same_tokens(ids, own, have < most ? have : most) + LEAST;
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        const flat_conversation *w = c->seqs[s];
        if (!w || w == v || w->n_adapters != v->n_adapters
            || memcmp(w->adapters, v->adapters, v->n_adapters * sizeof *v->adapters)) continue;
        const int32_t *theirs = qsf_turn_tokens(w->turn, &have);
        const size_t same = same_tokens(ids, theirs, have < most ? have : most);
        if (same < best) continue;
        best = same;
        like = w;
    }
    if (!like || qsf_seq_share(c->context, v->seq, like->seq, (uint32_t)best)) return;
    (void)qsf_turn_hold(v->turn, ids, qsf_seq_length(c->context, v->seq));
}

/* ---- prompts ---- */

/* Ends its answer, before what reads it changes. */
static qsf_status conversation_end(flat_conversation *v)
{
    const qsf_status st = v->answer ? qsf_flat_claim(&v->o, v) : QSF_OK;
    if (!st) v->answer = NULL;
    return st;
}

/* Records the library's error; returns st. */
static int32_t conversation_said(flat_conversation *v, qsf_status st)
{
    if (st) v->o.error = *qsf_conversation_error(v->talk);
    return (int32_t)st;
}

int32_t qsf_flat_conversation_chat(uint32_t conversation, const char *options)
{
    flat_conversation *v = conversation_at(conversation);
    qsf_conversation *talk = NULL;
    if (!v) return QSF_E_ARGUMENT;
    qsf_status st = conversation_make(v, options, &talk);
    if (!st) st = conversation_end(v);
    qsf_conversation *old = st ? talk : v->talk;
    if (!st) v->talk = talk;
    qsf_conversation_free(old);
    return (int32_t)st;
}

int32_t qsf_flat_conversation_split(uint32_t conversation, const char *options, int32_t kind,
                                    const char *shape, size_t len)
{
    flat_conversation *v = conversation_at(conversation);
    flat_asked asked;
    qsf_answer_options o;
    if (!v) return QSF_E_ARGUMENT;
    qsf_status st = conversation_end(v);
    if (!st) st = qsf_flat_options(&v->o, options, &asked, NULL, NULL);
    if (st) return (int32_t)st;
    qsf_answer_defaults(&o);
    o.tool_choice = asked.tool_choice;
    o.parallel_tool_calls = asked.parallel;
    o.id_seed = (uint64_t)asked.id_seed;
    o.shape_kind = (qsf_grammar_kind)kind;
    o.shape = shape;
    o.shape_len = len;
    o.json_blanks = qsf_flat_blanks(&asked);
    o.json_loose = asked.json_loose;
    return conversation_said(v, qsf_conversation_split(v->talk, &o));
}

int32_t qsf_flat_conversation_json(uint32_t conversation, const char *messages, size_t len)
{
    flat_conversation *v = conversation_at(conversation);
    return v ? conversation_said(v, qsf_conversation_json(v->talk, messages, len)) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_conversation_text(uint32_t conversation, const char *text, size_t len)
{
    flat_conversation *v = conversation_at(conversation);
    return v ? conversation_said(v, qsf_conversation_text(v->talk, text, len)) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_conversation_ids(uint32_t conversation, const int32_t *ids, size_t n)
{
    flat_conversation *v = conversation_at(conversation);
    return v ? conversation_said(v, qsf_conversation_ids(v->talk, ids, n)) : QSF_E_ARGUMENT;
}

static int32_t ids_copied(const int32_t *ids, size_t n, int32_t *dst, size_t cap)
{
    if (n && cap) memcpy(dst, ids, (n < cap ? n : cap) * sizeof *dst);
    return (int32_t)n;
}

int32_t qsf_flat_conversation_prompt(uint32_t conversation, int32_t *dst, size_t cap)
{
    const flat_conversation *v = conversation_at(conversation);
    size_t n;
    if (!v) return -(int32_t)QSF_E_ARGUMENT;
    const int32_t *ids = qsf_conversation_tokens(v->talk, &n);
    return ids_copied(ids, n, dst, cap);
}

int32_t qsf_flat_conversation_tokens(uint32_t conversation, int32_t *dst, size_t cap)
{
    const flat_conversation *v = conversation_at(conversation);
    size_t n;
    if (!v) return -(int32_t)QSF_E_ARGUMENT;
    const int32_t *ids = qsf_turn_tokens(v->turn, &n);
    return ids_copied(ids, n, dst, cap);
}

/* ---- adapters ---- */

int32_t qsf_flat_conversation_adapt(uint32_t conversation, const uint32_t *adapters, const float *scales,
                                    size_t n)
{
    flat_conversation *v = conversation_at(conversation);
    if (!v) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    if (n > FLAT_ADAPTERS) return (int32_t)qsf_flat_fail(&v->o, QSF_E_ARGUMENT, "at most 8 adapters at once");
    for (size_t i = 0; i < n; i++) if (!adapter_of(v, adapters[i])) return QSF_E_ARGUMENT;
    qsf_status st = qsf_flat_claim(&v->o, v);
    if (st) return (int32_t)st;
    v->n_adapters = n;
    if (n) memcpy(v->adapters, adapters, n * sizeof *adapters);
    if (n) memcpy(v->scales, scales, n * sizeof *scales);
    if (v->seq >= 0 && (st = adapters_set(c, v))) v->n_adapters = 0;
    if (!qsf_seq_length(c->context, v->seq)) (void)qsf_turn_hold(v->turn, NULL, 0);
    return (int32_t)st;
}

/* ---- sessions ---- */

int32_t qsf_flat_session_save(uint32_t conversation, qsf_write_fn write, void *user)
{
    flat_conversation *v = conversation_at(conversation);
    size_t n;
    if (!v) return QSF_E_ARGUMENT;
    const flat_context *c = qsf_flat_up(&v->o, FLAT_CONTEXT);
    const qsf_status st = c->owner ? qsf_flat_claim(&v->o, v) : QSF_OK;
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
    /* An answer whose conversation has a sequence again continues from there. */
    const bool goes_on = v->answer && !qsf_seq_length(c->context, v->seq)
        && qsf_flat_answer_runs(v->answer, v) && !v->answer->is_ready;
    qsf_status st = goes_on ? qsf_flat_free_for(&v->o, NULL) : qsf_flat_claim(&v->o, v);
    if (st) return (int32_t)st;
    int32_t *ids = qsf_flat_alloc(&v->o, cap * sizeof *ids);
    if (!ids) return QSF_E_MEMORY;
    st = qsf_session_load(c->context, v->seq, &from, ids, cap, &n, &v->o.error);
    if (!st && goes_on) {
        size_t have;
        const int32_t *own = qsf_turn_tokens(v->turn, &have);
        if (have > n || same_tokens(ids, own, have) < have)
            (void)qsf_seq_truncate(c->context, v->seq, 0);      /* of another answer */
        qsf_turn_move(v->turn, v->seq);
    } else if (!st && (st = qsf_turn_hold(v->turn, ids, n))) v->o.error = *qsf_turn_error(v->turn);
    qsf_flat_dealloc(ids, cap * sizeof *ids);
    return (int32_t)st;
}
