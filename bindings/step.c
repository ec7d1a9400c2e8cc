/* Steps of several conversations' answers, whose rows go into one batch.
 * SPDX-License-Identifier: MIT */
#include "own.h"
#include "base/host.h"

qsf_status qsf_flat_steps_new(flat_context *c)
{
    const qsf_schedule_options o = { .size = sizeof o, .n_seqs = c->n_seqs, .n_logits = c->n_logits,
                                     .draft = c->guesses };
    c->n_batch = qsf_context_batch(c->context);
    c->rows = qsf_flat_alloc(&c->o, c->n_batch * sizeof *c->rows);
    c->order = qsf_flat_alloc(&c->o, c->n_seqs * sizeof *c->order);
    c->turns = qsf_flat_alloc(&c->o, c->n_seqs * sizeof *c->turns);
    if (!c->rows || !c->order || !c->turns) return QSF_E_MEMORY;
    return qsf_schedule_new(c->context, &o, &c->schedule, &c->o.error);
}

void qsf_flat_steps_free(flat_context *c)
{
    qsf_schedule_free(c->schedule);
    qsf_flat_dealloc(c->rows, c->n_batch * sizeof *c->rows);
    qsf_flat_dealloc(c->order, c->n_seqs * sizeof *c->order);
    qsf_flat_dealloc(c->turns, c->n_seqs * sizeof *c->turns);
    c->schedule = NULL;
    c->rows = NULL;
    c->order = NULL;
    c->turns = NULL;
}

static flat_conversation *talk_of(const flat_answer *a) { return (flat_conversation *)a->o.parent; }

/* ---- who is in the batch ---- */

/* Whether a sequence has as many positions as the context gives it: then its turn ends. */
static bool talk_full(const flat_context *c, const flat_conversation *v)
{
    return !c->plan.kv_window && qsf_seq_length(c->context, v->seq) >= c->plan.n_ctx;
}

/* The turn finds that it has no room for its next row, and ends. */
static void talk_end(const flat_answer *a) { (void)qsf_turn_step(talk_of(a)->turn, NULL); }

/* A turn that has lost its sequence computes its tokens again as a prompt's. */
static void step_list(flat_context *c, flat_answer *a)
{
    qsf_turn_state st = { .size = sizeof st };
    const size_t wanted = qsf_turn_wanted(talk_of(a)->turn);
    (void)qsf_turn_get_state(talk_of(a)->turn, &st);
    qsf_flat_drafts_count(c, talk_of(a));
    if (a->is_listed || st.end || !wanted || c->n_order == c->n_logits) return;
    if (talk_full(c, talk_of(a))) {
        talk_end(a);
        return;
    }
    a->is_listed = true;
    a->is_prompt = st.n_done < st.n_prompt || wanted > QSF_SCHEDULE_FORCED;
    a->n_rows = (uint32_t)wanted;
    c->order[c->n_order++] = a;
}

static qsf_status step_order(flat_context *c, const uint32_t *answers, size_t n)
{
    qsf_status st = QSF_OK;
    c->n_order = 0;
    for (size_t i = 0; i < n && !st; i++) {
        flat_conversation *v;
        flat_answer *a = qsf_flat_answer_at(answers[i], &v);
        if (!a || v->seq < 0 || v->o.parent != &c->o)
            st = qsf_flat_fail(&c->o, QSF_E_ARGUMENT, "an answer has not begun, its conversation has no "
                               "sequence, or it is another context's");
        else step_list(c, a);
    }
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        const bool runs = c->seqs[s] && c->seqs[s]->answer && c->seqs[s]->answer->is_listed;
        const bool ran = qsf_schedule_seq(c->schedule, (qsf_seq)s)->use == QSF_SEQ_RUNS;
        if (runs || ran) qsf_schedule_use(c->schedule, (qsf_seq)s, runs ? QSF_SEQ_RUNS : QSF_SEQ_KEPT, 0);
        if (!c->seqs[s] && qsf_seq_length(c->context, (qsf_seq)s))
            (void)qsf_seq_truncate(c->context, (qsf_seq)s, 0);
    }
    for (uint32_t i = 0; i < c->n_order; i++) c->order[i]->is_listed = false;
    return st;
}

/* ---- its rows ---- */

static void step_guesses(flat_context *c)
{
    size_t n = 0;
    for (uint32_t i = 0; i < c->n_order; i++)
        if (!c->order[i]->is_prompt) c->turns[n++] = talk_of(c->order[i])->turn;
    qsf_schedule_guess(c->schedule, c->turns, n);
}

/* Rows of answers; false: a block is missing. */
static bool step_answers(flat_context *c)
{
    qsf_schedule *q = c->schedule;
    for (uint32_t i = 0; i < c->n_order; i++) {
        flat_answer *a = c->order[i];
        const flat_conversation *v = talk_of(a);
        qsf_schedule_next(q, 1);
        if (a->is_prompt) continue;
        if (qsf_schedule_taken(q) + qsf_schedule_blocks(q, v->seq, 1) > qsf_schedule_count(q)) return false;
        c->n_rows += a->n_rows = qsf_schedule_answer(q, v->turn, v->seq, a->grammar || a->n_rows > 1);
    }
    return true;
}

/* Rows of prompts; false: they would have more if idle conversations left. */
static bool step_prompts(flat_context *c, uint32_t prompts)
{
    qsf_schedule *q = c->schedule;
    bool all = true;
    qsf_schedule_prompts(q, prompts, false);
    for (uint32_t i = 0; i < c->n_order; i++) {
        flat_answer *a = c->order[i];
        const flat_conversation *v = talk_of(a);
        if (!a->is_prompt) continue;
        all &= qsf_schedule_needs(q, v->seq, a->n_rows) <= qsf_schedule_count(q);
        c->n_rows += a->n_rows = qsf_schedule_prompt(q, v->turn, NULL, v->seq, a->n_rows);
    }
    return all || qsf_schedule_oldest(q, -1, 0) < 0;
}

/* Fills and begins a batch. */
static qsf_status step_begin(flat_context *c, const uint32_t *answers, size_t n)
{
    uint32_t prompts = 0, with_rows = 0;
    c->last = 0;
    const qsf_status st = step_order(c, answers, n);
    if (st || !c->n_order) return st;
    for (uint32_t i = 0; i < c->n_order; i++) prompts += c->order[i]->is_prompt;
    c->n_rows = 0;
    qsf_schedule_begin(c->schedule, c->rows, c->n_order, c->n_order - prompts);
    step_guesses(c);
    const bool room = step_answers(c) && step_prompts(c, prompts) && c->n_rows;
    if (!room && (c->n_order > 1 || qsf_schedule_oldest(c->schedule, -1, 0) >= 0)) {
        if (c->n_order > 1) c->last = talk_of(c->order[c->n_order - 1])->handle;
        return qsf_flat_fail(&c->o, QSF_E_FULL, "the sequences do not all fit: one has to leave");
    }
    if (!room) {                        /* alone: no other sequence can leave */
        talk_end(c->order[0]);
        c->n_order = 0;
        return QSF_OK;
    }
    for (uint32_t i = 0; i < c->n_order; i++) if (c->order[i]->n_rows) c->order[with_rows++] = c->order[i];
    c->n_order = with_rows;
    c->began_ns = qsf_now(qsf_platform_native());
    const qsf_status begun = qsf_batch_begin(c->context, c->rows, c->n_rows);
    if (!begun) c->owner = &c->o;
    return qsf_flat_said(&c->o, begun);
}

/* ---- its end ---- */

static void step_done(flat_context *c)
{
    size_t first = 0, n_turns = 0;
    const uint64_t now = qsf_now(qsf_platform_native());
    qsf_schedule_measure(c->schedule, now - c->began_ns, c->n_rows);
    for (uint32_t i = 0; i < 2 * c->n_order; i++) {     /* the rows of prompts follow the others */
        flat_answer *a = c->order[i % c->n_order];
        if (a->is_prompt != (i >= c->n_order)) continue;
        const size_t asked = qsf_turn_computed(talk_of(a)->turn, first);
        first += asked;
        a->is_ready = asked > 0;
        if (asked) c->turns[n_turns++] = talk_of(a)->turn;
    }
    qsf_turns_pick(c->turns, n_turns);
}

int32_t qsf_flat_step(uint32_t context, const uint32_t *answers, size_t n)
{
    flat_context *c = qsf_flat_context_at(context);
    bool waiting = false;
    if (!c) return QSF_E_ARGUMENT;
    if (c->owner != &c->o) {
        qsf_status st = qsf_flat_may_step(&c->o, NULL);
        if (!st && (st = qsf_flat_drafts_load(c, &waiting)))
            return (int32_t)st + (waiting ? QSF_FLAT_WAITING : 0);
        if (!st) st = step_begin(c, answers, n);
        if (st || !c->owner) return (int32_t)st;
    }
    (void)qsf_refine(c->context, false);
    const qsf_status st = qsf_step(c->context, &waiting);
    if (st == QSF_PENDING) return (int32_t)st + (waiting ? QSF_FLAT_WAITING : 0);
    if (!st) step_done(c);
    else qsf_flat_said(&c->o, st);
    for (uint32_t i = 0; st && i < c->n_order; i++) qsf_flat_turn_cancel(talk_of(c->order[i]));
    qsf_flat_batch_over(c);
    return (int32_t)st;
}

/* Answers that are over leave their sequences idle. */
static void step_idle(flat_context *c)
{
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        const flat_conversation *v = c->seqs[s];
        if (v && qsf_schedule_seq(c->schedule, (qsf_seq)s)->use == QSF_SEQ_RUNS
            && !(v->answer && qsf_flat_answer_runs(v->answer, v)))
            qsf_schedule_use(c->schedule, (qsf_seq)s, QSF_SEQ_KEPT, 0);
    }
}

uint32_t qsf_flat_oldest(uint32_t context, uint32_t but)
{
    flat_context *c = qsf_flat_context_at(context);
    const flat_conversation *v = qsf_flat_at(but, FLAT_CONVERSATION), *oldest = NULL;
    if (!c || c->owner) return 0;
    step_idle(c);
    const qsf_seq kept = qsf_schedule_oldest(c->schedule, v ? v->seq : -1, 0);
    if (kept >= 0) return c->seqs[kept]->handle;
    const flat_conversation *last = qsf_flat_at(c->last, FLAT_CONVERSATION);
    if (last && last != v && last->seq >= 0) return c->last;    /* it may have left since */
    for (uint32_t s = 0; s < c->n_seqs; s++) {
        const flat_conversation *w = c->seqs[s];
        if (w && w != v && (!oldest || qsf_schedule_seq(c->schedule, w->seq)->used
                                        < qsf_schedule_seq(c->schedule, oldest->seq)->used)) oldest = w;
    }
    return oldest ? oldest->handle : 0;
}
