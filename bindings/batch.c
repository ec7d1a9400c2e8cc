/* Who has the unfinished batch of a context, and what has to wait for its end.
 * SPDX-License-Identifier: MIT */
#include "own.h"

qsf_status qsf_flat_said(flat_object *o, qsf_status st)
{
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    if (st && st != QSF_PENDING) qsf_flat_fail(o, st, qsf_last_error(c->context));
    return st;
}

bool qsf_flat_answer_runs(const flat_answer *a, const flat_conversation *v)
{
    qsf_turn_state state = { .size = sizeof state };
    return v->answer == a && !qsf_turn_get_state(v->turn, &state) && !state.end;
}

void qsf_flat_answer_forget(flat_answer *a)
{
    a->piece = (qsf_turn_piece){ .size = sizeof a->piece, .text = "" };
    a->event = (qsf_answer_event){ .size = sizeof a->event };
    a->has_events = a->is_ready = false;
}

void qsf_flat_turn_cancel(flat_conversation *v)
{
    if (v->answer) qsf_flat_answer_forget(v->answer);
    qsf_turn_cancel(v->turn);
}

qsf_status qsf_flat_free_for(flat_object *o, const flat_conversation *v)
{
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    const flat_object *own = v && v->answer ? &v->answer->o : NULL;
    return !c->owner || c->owner == own ? QSF_OK
        : qsf_flat_fail(o, QSF_E_ARGUMENT, "the context has an unfinished batch of another answer or "
                        "embedding: step that first, or cancel it");
}

qsf_status qsf_flat_may_step(flat_object *o, const flat_conversation *v)
{
    const flat_context *c = qsf_flat_up(o, FLAT_CONTEXT);
    const qsf_status st = qsf_flat_free_for(o, v);
    for (uint32_t s = 0; !st && s < c->n_seqs; s++)
        if (c->seqs[s] && c->seqs[s] != v && c->seqs[s]->answer && c->seqs[s]->answer->is_ready)
            return qsf_flat_fail(o, QSF_E_ARGUMENT, "another answer of the context has pieces: read them "
                                 "first, until QSF_PENDING, or cancel it");
    return st;
}

qsf_status qsf_flat_claim(flat_object *o, flat_conversation *v)
{
    const qsf_status st = qsf_flat_free_for(o, v);
    if (st) return st;
    if (v) qsf_flat_turn_cancel(v);
    qsf_flat_batch_over(qsf_flat_up(o, FLAT_CONTEXT));
    return QSF_OK;
}

void qsf_flat_batch_over(flat_context *c)
{
    c->owner = NULL;
    c->n_order = 0;
    for (flat_answer *a; (a = c->leaving) != NULL;) {
        flat_conversation *v = qsf_flat_up(&a->o, FLAT_CONVERSATION);
        c->leaving = a->next;
        a->is_leaving = false;
        if (v->answer == a) qsf_flat_turn_cancel(v);
        qsf_flat_drop(&a->o);
    }
}
