/* Answers of the flat interface: a sampler, and a turn of the conversation.
 * SPDX-License-Identifier: MIT */
#include "own.h"

/* ---- making one ---- */

static void answer_done(flat_object *o)
{
    flat_answer *a = (flat_answer *)o;
    flat_conversation *v = (flat_conversation *)o->parent;
    if (v->answer == a) v->answer = NULL;
    qsf_sampler_free(a->sampler);
    qsf_grammar_free(a->grammar);
    for (flat_stop *s = a->stops, *next; s; s = next) {
        next = s->next;
        qsf_flat_dealloc(s, sizeof *s + s->len);
    }
}

/* Cancelling a turn may truncate its sequence, which drops the unfinished batch of another one: it
 * then waits until that is done. */
static void answer_cancel(flat_object *o)
{
    flat_answer *a = (flat_answer *)o;
    flat_context *c = qsf_flat_up(&a->o, FLAT_CONTEXT);
    flat_conversation *v = qsf_flat_up(&a->o, FLAT_CONVERSATION);
    if (v->answer != a || a->is_leaving) return;
    if (!c->owner || c->owner == &a->o) {
        qsf_flat_turn_cancel(v);
        if (c->owner) qsf_flat_batch_over(c);
        return;
    }
    a->is_leaving = true;
    a->next = c->leaving;
    c->leaving = a;
    qsf_flat_keep(&a->o);
    if (c->owner != &c->o) return;
    for (uint32_t i = 0; i < c->n_order; i++) if (!c->order[i]->is_leaving) return;
    (void)qsf_seq_truncate(c->context, v->seq, qsf_seq_length(c->context, v->seq));     /* drops the batch */
    qsf_flat_batch_over(c);
}

typedef struct answer_options { qsf_sampler_options sampler; qsf_turn_options *turn; } answer_options;

static qsf_status answer_set(void *options, const char *name, const char *value, qsf_error *err)
{
    answer_options *o = options;
    const qsf_option *known;
    for (size_t i = 0; (known = qsf_sampler_option(i)) != NULL; i++)
        if (!strcmp(known->name, name)) return qsf_sampler_set(&o->sampler, name, value, err);
    return qsf_turn_set(o->turn, name, value, err);
}

uint32_t qsf_flat_answer_new(uint32_t conversation, const char *options)
{
    uint32_t handle;
    flat_asked asked;
    flat_conversation *v = qsf_flat_at(conversation, FLAT_CONVERSATION);
    flat_answer *a = v && v->turn ? qsf_flat_make(&handle, FLAT_ANSWER, sizeof *a, &v->o, answer_done) : NULL;
    if (!a) return 0;
    a->o.cancel = answer_cancel;
    answer_options o = { .turn = &a->turn };
    qsf_sampler_defaults(&o.sampler);
    qsf_turn_defaults(&a->turn);
    a->turn.draft = ((flat_context *)v->o.parent)->guesses;
    if (qsf_flat_options(&a->o, options, &asked, answer_set, &o)) return handle;
    if (asked.choice >= 0) o.sampler.seed = qsf_choice_seed(o.sampler.seed, (uint64_t)asked.choice);
    (void)qsf_sampler_new(qsf_flat_model(handle), &o.sampler, &a->sampler, &a->o.error);
    return handle;
}

/* An answer that was made. */
static flat_answer *answer_at(uint32_t handle)
{
    flat_answer *a = qsf_flat_at(handle, FLAT_ANSWER);
    return a && a->sampler ? a : NULL;
}

/* The same, if it may be changed: what a turn uses stays. */
static flat_answer *idle_at(uint32_t handle)
{
    flat_answer *a = answer_at(handle);
    if (!a || !qsf_flat_answer_runs(a, (flat_conversation *)a->o.parent)) return a;
    qsf_flat_fail(&a->o, QSF_E_ARGUMENT, "the answer has begun");
    return NULL;
}

int32_t qsf_flat_answer_bias(uint32_t answer, int32_t token, double bias)
{
    flat_answer *a = idle_at(answer);
    return a ? (int32_t)qsf_sampler_bias(a->sampler, token, (float)bias, &a->o.error) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_answer_ban(uint32_t answer, const char *text, size_t len)
{
    flat_answer *a = idle_at(answer);
    return a ? (int32_t)qsf_sampler_ban(a->sampler, text, len, &a->o.error) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_answer_breaker(uint32_t answer, const char *text, size_t len)
{
    flat_answer *a = idle_at(answer);
    return a ? (int32_t)qsf_sampler_breaker(a->sampler, text, len, &a->o.error) : QSF_E_ARGUMENT;
}
int32_t qsf_flat_answer_stop(uint32_t answer, const char *text, size_t len)
{
    flat_answer *a = idle_at(answer);
    flat_stop *s = a ? qsf_flat_alloc(&a->o, sizeof *s + len) : NULL;
    if (!s) return a ? QSF_E_MEMORY : QSF_E_ARGUMENT;
    s->len = len;
    s->next = a->stops;
    if (len) memcpy(s->text, text, len);
    a->stops = s;
    a->n_stops++;
    return QSF_OK;
}

int32_t qsf_flat_answer_grammar(uint32_t answer, const char *options, int32_t kind, const char *text,
                                size_t len)
{
    flat_answer *a = idle_at(answer);
    flat_asked asked;
    qsf_grammar_options o;
    if (!a) return QSF_E_ARGUMENT;
    const qsf_status st = qsf_flat_options(&a->o, options, &asked, NULL, NULL);
    if (st) return (int32_t)st;
    qsf_grammar_defaults(&o);
    o.json_blanks = qsf_flat_blanks(&asked);
    o.json_loose = asked.json_loose;
    qsf_grammar_free(a->grammar);
    return (int32_t)qsf_grammar_new(qsf_flat_model(answer), (qsf_grammar_kind)kind, text, len, &o,
                                    &a->grammar,
                                    &a->o.error);
}

/* ---- its turn ---- */

static qsf_status answer_turn_begin(flat_answer *a, flat_conversation *v)
{
    const size_t each = sizeof(char *) + sizeof(size_t), bytes = a->n_stops * each;
    const char **places = bytes ? qsf_flat_alloc(&a->o, bytes) : NULL;
    size_t *lens = (size_t *)(void *)(places + a->n_stops), i = 0;
    if (bytes && !places) return QSF_E_MEMORY;
    for (const flat_stop *s = a->stops; s; s = s->next, i++) {
        places[i] = s->text;
        lens[i] = s->len;
    }
    qsf_turn_options o = a->turn;
    o.stops = places;
    o.stop_lengths = lens;
    o.n_stops = i;
    o.grammar = a->grammar;
    qsf_flat_drafts_turn(v, &o);
    const qsf_status st = qsf_conversation_begin(v->talk, v->turn, a->sampler, &o);
    if (st) a->o.error = *qsf_conversation_error(v->talk);
    qsf_flat_dealloc(places, bytes);
    return st;
}

int32_t qsf_flat_answer_begin(uint32_t answer)
{
    flat_answer *a = answer_at(answer);
    if (!a) return QSF_E_ARGUMENT;
    flat_conversation *v = qsf_flat_up(&a->o, FLAT_CONVERSATION);
    qsf_status st = qsf_flat_claim(&a->o, v);
    if (st) return (int32_t)st;         /* the answer before this one continues */
    if ((st = qsf_flat_seated(&a->o, v))) return (int32_t)st;
    qsf_flat_conversation_share(v);
    st = answer_turn_begin(a, v);
    v->answer = st ? NULL : a;
    return (int32_t)st;
}

flat_answer *qsf_flat_answer_at(uint32_t handle, flat_conversation **v)
{
    flat_answer *a = qsf_flat_at(handle, FLAT_ANSWER);
    *v = a ? qsf_flat_up(&a->o, FLAT_CONVERSATION) : NULL;
    if (a && (*v)->answer == a) return a;
    if (a) qsf_flat_fail(&a->o, QSF_E_ARGUMENT, "the answer has not begun, or its conversation has changed "
                         "since");
    return NULL;
}

int32_t qsf_flat_answer_next(uint32_t answer)
{
    flat_conversation *v;
    flat_answer *a = qsf_flat_answer_at(answer, &v);
    if (!a) return QSF_E_ARGUMENT;
    qsf_flat_answer_forget(a);
    const qsf_status st = qsf_conversation_next(v->talk, &a->piece);
    if (st == QSF_PENDING) return (int32_t)st;
    a->has_events = !st;
    a->is_ready = !st && !a->piece.end && a->turn.draft;        /* guesses may have been right */
    if (!st && a->piece.end != QSF_TURN_FAILED) return QSF_OK;
    a->o.error = *qsf_conversation_error(v->talk);
    return (int32_t)a->o.error.status;
}

/* Damaged low bits of a progressive file are an error of qsf_flat_refine only: the answer continues
 * with the high bits. */
int32_t qsf_flat_answer_step(uint32_t answer)
{
    flat_conversation *v;
    flat_answer *a = qsf_flat_answer_at(answer, &v);
    bool waiting = false;
    if (!a) return QSF_E_ARGUMENT;
    flat_context *c = qsf_flat_up(&a->o, FLAT_CONTEXT);
    qsf_status st = qsf_flat_may_step(&a->o, v);
    if (st) return (int32_t)st;
    if ((st = qsf_flat_drafts_load(c, &waiting))) return (int32_t)st + (waiting ? QSF_FLAT_WAITING : 0);
    qsf_flat_answer_forget(a);
    (void)qsf_refine(c->context, false);
    st = qsf_turn_step(v->turn, &waiting);
    c->owner = &a->o;
    if (st != QSF_PENDING) qsf_flat_batch_over(c);
    a->is_ready = !st && qsf_flat_answer_runs(a, v);
    if (st && st != QSF_PENDING) a->o.error = *qsf_turn_error(v->turn);
    return (int32_t)st + (waiting ? QSF_FLAT_WAITING : 0);
}

int32_t qsf_flat_answer_event(uint32_t answer)
{
    flat_answer *a = answer_at(answer);
    if (!a || !a->has_events) return 0;
    const flat_conversation *v = (flat_conversation *)a->o.parent;
    a->event.size = sizeof a->event;
    return qsf_conversation_event(v->talk, &a->event) ? 0 : (int32_t)a->event.type;
}

int32_t qsf_flat_answer_logprobs(uint32_t answer, int32_t *tokens, float *logprobs, size_t cap)
{
    const flat_answer *a = answer_at(answer);
    if (!a) return -(int32_t)QSF_E_ARGUMENT;
    for (size_t i = 0; i < a->piece.n_logprobs && i < cap; i++) {
        tokens[i] = a->piece.logprobs[i].token;
        logprobs[i] = a->piece.logprobs[i].logprob;
    }
    return (int32_t)a->piece.n_logprobs;
}
