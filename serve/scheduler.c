/* Which branches run, with which sequence, and with how many rows a step.
 * SPDX-License-Identifier: MIT
 *
 * A step's batch has one row of every answer, and rows of prompts with what is left.  A prompt is
 * let in when blocks for all of it are free; an answer that finds no block later makes kept
 * sequences go, then another answer pause.  A paused one computes its tokens again, and its turn
 * does not notice. */
#include "scheduler.h"

#include <stdlib.h>

bool scheduler_begin(scheduler *s, qsf_context *c, const serve_engine_options *o, serve_engine *e,
                     serve_metrics *metrics, qsf_error *err)
{
    *s = (scheduler){ .metrics = metrics, .engine = e, .slots = o->slots, .draft = o->draft,
                      .n_logits = o->context.n_logits };
    s->waiting_end = &s->waiting;
    s->n_batch = qsf_context_batch(c);
    s->running = calloc(s->slots, sizeof *s->running);
    s->order = calloc(s->slots, sizeof *s->order);
    s->rows = calloc(s->n_batch, sizeof *s->rows);
    s->turns = calloc(s->slots, sizeof *s->turns);
    if (!s->running || !s->order || !s->rows || !s->turns) {
        err->status = QSF_E_MEMORY;
        return false;
    }
    embed_begin(&s->embed, s, c, o);
    return seq_pool_begin(&s->pool, c, o, o->slots + o->kept + EMBED_TEXTS, metrics, err);
}

void scheduler_end(scheduler *s)
{
    for (unsigned i = 0; i < s->n_running; i++) qsf_sampler_free(s->running[i]->sampler);
    seq_pool_end(&s->pool);
    free(s->running);
    free(s->order);
    free(s->rows);
    free(s->turns);
}

/* ---- waiting ---- */

static void waiting_remove(scheduler *s, serve_branch **at)
{
    serve_branch *b = *at;
    *at = b->next;
    if (!b->next) s->waiting_end = at;
    b->next = NULL;
    s->n_waiting--;
}

static void waiting_end(scheduler *s, serve_branch **at, qsf_turn_end end, bool late)
{
    serve_branch *b = *at;
    waiting_remove(s, at);
    branch_forget_disk(s, b);
    if (branch_width(b) > 1) {
        beam_report(s, b, end, late);
        return;
    }
    b->stage = BRANCH_OVER;
    b->prompt_done = true;
    branch_report(s, b, end, late);
    engine_branch_over(s->engine, b);
}

void scheduler_add(scheduler *s, serve_job *j)
{
    if (embed_wants(j)) embed_add(&s->embed, j);
    else scheduler_enter(s, j);
}

void scheduler_look(scheduler *s)
{
    const uint64_t now = serve_now();
    embed_look(&s->embed, now);
    seq_forget_dropped(&s->pool);
    if (s->pool.disk) disk_look(s->pool.disk);
    for (serve_branch **at = &s->waiting; *at;) {
        const serve_job *j = (*at)->job;
        const bool late = j->deadline_ns && j->deadline_ns <= now;
        if (late || atomic_load_explicit(&j->cancelled, memory_order_relaxed))
            waiting_end(s, at, QSF_TURN_CANCELLED, late);
        else at = &(*at)->next;
    }
    for (unsigned i = s->n_running; i-- > 0;) {
        serve_branch *b = s->running[i];
        const bool late = b->job->deadline_ns && b->job->deadline_ns <= now;
        if (late || atomic_load_explicit(&b->job->cancelled, memory_order_relaxed))
            branch_end(s, b, QSF_TURN_CANCELLED, late);
    }
}

/* ---- letting in ---- */

enum { BEAM_MOST = 1 << 16 };               /* tokens of a path */

/* Begins the branch's turn in its sequence, whose first n tokens are those of the prompt. */
static qsf_status branch_begin_turn(scheduler *s, serve_branch *b, uint32_t n)
{
    const serve_request *r = &b->job->request;
    const serve_tokens *p = branch_prompt(b);
    qsf_turn *t = branch_turn(s, b);
    qsf_turn_options to;
    qsf_turn_state before = { .size = sizeof before };
    qsf_turn_get_state(t, &before);
    b->n_guessed = before.n_guessed;
    b->n_right = before.n_right;
    b->ns_sampling = before.ns_sampling;
    qsf_status st = branch_sampler(b, qsf_context_model(s->pool.context), &b->sampler);
    if (st || (st = qsf_turn_hold(t, p->ids, n))) return st;
    const int64_t most = (int64_t)s->n_seq - (int64_t)p->n;
    branch_options(b, r->max_tokens < 0 || r->max_tokens > most ? most : r->max_tokens, &to);
    to.draft = s->draft;
    drafter_turn(s->drafter, b->seq, &to);
    if (branch_width(b) > 1) {
        qsf_model_info info = { .size = sizeof info };
        qsf_model_get_info(qsf_context_model(s->pool.context), &info);
        if (to.max_tokens > BEAM_MOST) to.max_tokens = BEAM_MOST;
        if (!(b->beam = beam_new(b, info.n_vocab, (uint32_t)to.max_tokens))) return QSF_E_MEMORY;
        to.max_tokens = 0;
    }
    return qsf_turn_begin(t, p->ids, p->n, b->sampler, &to);
}

/* Blocks reserved for running prompts and not taken yet. */
static uint32_t blocks_promised(scheduler *s)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < s->n_running; i++) {
        const serve_branch *b = s->running[i];
        const uint32_t whole = b->stage == BRANCH_PROMPT ? (uint32_t)branch_prompt(b)->n : b->n_back,
            have = qsf_seq_length(s->pool.context, b->seq);
        n += branch_width(b);
        if (b->stage != BRANCH_ANSWER && have < whole)
            n += qsf_schedule_blocks(s->pool.schedule, b->seq, whole - have);
    }
    return n;
}

/* Reports how many tokens of a branch's prompt are done. */
static void branch_progress(scheduler *s, const serve_branch *b, uint32_t n)
{
    serve_event e = { .kind = EVENT_PROGRESS, .branch = (uint16_t)b->index, .job = b->job, .n_tokens = n,
                      .n_prompt = (uint32_t)branch_prompt(b)->n, .n_kept = b->n_kept,
                      .ns = serve_now() - b->job->arrived_ns };
    engine_post(s->engine, &e, NULL, "");
}

/* Begins a waiting branch; false: no room for it now. */
static bool branch_let_in(scheduler *s, serve_branch *b)
{
    seq_pool *pool = &s->pool;
    const serve_tokens *p = branch_prompt(b);
    uint32_t same;
    seq_pool_blocks(pool);
    int32_t like = seq_like(pool, b->job->lora.key, p->ids, (uint32_t)p->n - 1, &same);
    const uint32_t promised = blocks_promised(s);
    uint32_t need = (uint32_t)(p->n - same) / pool->block + 2 + branch_width(b) + promised;
    if (!seq_make_room(pool, need, like)) {
        if (s->n_running) return false;
        like = -1;                          /* it is alone, and the one that it resembles is evicted, too */
        same = 0;
        (void)seq_make_room(pool, (uint32_t)p->n / pool->block + 2, -1);
    }
    if ((b->seq = seq_take(pool, like)) < 0 && (b->seq = seq_take(pool, -1)) < 0) return false;
    if (like == b->seq) like = -1;          /* it was the only one to evict */
    b->refused = seq_adapt(pool, b->seq, &b->job->lora);
    if (like >= 0 && (b->refused || qsf_seq_share(pool->context, b->seq, like, same))) same = 0;
    if (like < 0) same = 0;
    s->running[s->n_running++] = b;
    s->n_taken += branch_width(b);
    b->n_kept = same;
    b->stage = BRANCH_PROMPT;
    metric_add(same ? &s->metrics->prefix_hits_total : &s->metrics->prefix_misses_total, 1);
    metric_add(&s->metrics->prompt_tokens_total, p->n);
    metric_add(&s->metrics->kept_tokens_total, same);
    metric_time(&s->metrics->queue_time, serve_now() - b->job->arrived_ns);
    branch_progress(s, b, same);
    if (b->refused || branch_begin_turn(s, b, same)) branch_end(s, b, QSF_TURN_FAILED, false);
    return true;
}

/* Whether another answer to the same prompt computes it now: then this one waits and shares it. */
static bool sibling_first(const serve_branch *b)
{
    const unsigned first = b->index - b->index % serve_request_each(&b->job->request);
    return b->index != first && !b->job->branches[first].prompt_done;
}

/* Whether a branch's sequence is on its way from disk. */
static bool disk_brings(const scheduler *s, const serve_branch *b)
{
    return b->disk >= 0 && disk_coming(s->pool.disk, b->disk);
}

/* The first in line: of the highest priority, of the client that was served least, the first that
 * came. */
static serve_branch **scheduler_next(scheduler *s)
{
    serve_branch **best = NULL;
    for (serve_branch **at = &s->waiting; *at; at = &(*at)->next) {
        if (sibling_first(*at) || disk_brings(s, *at)) continue;
        const serve_job *j = (*at)->job, *k = best ? (*best)->job : NULL;
        if (!k || j->request.priority > k->request.priority
            || (j->request.priority == k->request.priority
                && s->served[j->key % SERVE_KEYS] < s->served[k->key % SERVE_KEYS])) best = at;
    }
    return best;
}

static void scheduler_let_in(scheduler *s)
{
    unsigned coming = 0;
    for (const serve_branch *b = s->waiting; b; b = b->next) coming += disk_brings(s, b);
    while (s->n_taken + coming < s->slots) {
        serve_branch **at = scheduler_next(s);
        if (!at || s->n_taken + branch_width(*at) > s->slots) return;
        serve_branch *b = *at;
        for (unsigned i = 0; i < s->n_running; i++) if (s->running[i]->stage == BRANCH_PAUSED) return;
        if (branch_comes(s, b)) {
            coming++;
            continue;
        }
        waiting_remove(s, at);
        if (branch_let_in(s, b)) continue;
        b->next = s->waiting;               /* it stays first in line */
        s->waiting = b;
        if (!b->next) s->waiting_end = &b->next;
        s->n_waiting++;
        return;
    }
}

/* ---- results ---- */

static void branch_piece(scheduler *s, serve_branch *b, const qsf_turn_piece *piece, uint64_t now)
{
    if (piece->token >= 0) {
        metric_time(b->last_ns ? &s->metrics->between_tokens : &s->metrics->first_token,
                    now - (b->last_ns ? b->last_ns : b->job->arrived_ns));
        b->last_ns = now;
        b->n_told++;
    }
    const bool wanted = b->job->request.logprobs >= 0 && piece->token >= 0;
    if (piece->n_logprobs) b->score += (double)piece->logprobs[0].logprob;
    /* A parser of tool calls is notified of every token. */
    const bool each = b->job->turn.special || b->job->request.tokens;
    if (!piece->len && !wanted && (!each || piece->token < 0)) return;
    serve_event e = { .kind = EVENT_PIECE, .branch = (uint16_t)b->index, .job = b->job,
                      .len = (uint32_t)piece->len, .token = piece->token, .n_tokens = b->n_told,
                      .n_kept = b->n_kept, .ns = now - b->job->arrived_ns,
                      .n_logprobs = wanted ? (uint32_t)piece->n_logprobs : 0 };
    engine_post(s->engine, &e, piece->logprobs, piece->text);
}

/* Counts a turn's draft tokens, and its time of sampling, since the last call. */
static void branch_count(scheduler *s, serve_branch *b)
{
    qsf_turn_state t = { .size = sizeof t };
    qsf_turn_get_state(branch_turn(s, b), &t);
    const uint64_t guessed = t.n_guessed - b->n_guessed, right = t.n_right - b->n_right;
    metric_add(&s->metrics->sample_ns_total, t.ns_sampling - b->ns_sampling);
    metric_add(&s->metrics->drafts_total, guessed);
    metric_add(&s->metrics->drafts_accepted_total, right);
    if (guessed) qsf_schedule_drafted(s->pool.schedule, guessed, right);
    b->n_drafted += (uint32_t)guessed;
    b->n_accepted += (uint32_t)right;
    b->n_guessed = t.n_guessed;
    b->n_right = t.n_right;
    b->ns_sampling = t.ns_sampling;
}

/* Whether the token is one of the request's stop tokens. */
static bool branch_stops(scheduler *s, const serve_branch *b, int32_t token)
{
    const serve_request *r = &b->job->request;
    qsf_turn_state st = { .size = sizeof st };
    size_t i = 0;
    while (i < r->n_stop_ids && r->stop_ids[i] != token) i++;
    if (i == r->n_stop_ids) return false;
    qsf_turn_get_state(branch_turn(s, b), &st);
    return (int64_t)st.n_tokens >= r->min_tokens;
}

/* The pieces of a branch whose logits are there. */
static void branch_deliver(scheduler *s, serve_branch *b, uint64_t now)
{
    qsf_turn_piece piece = { .size = sizeof piece };
    while (qsf_turn_next(branch_turn(s, b), &piece) == QSF_OK) {
        branch_piece(s, b, &piece, now);
        if (!piece.end && piece.token >= 0 && branch_stops(s, b, piece.token)) {
            qsf_turn_cancel(branch_turn(s, b));         /* its last piece is the text that was held back */
            if (qsf_turn_next(branch_turn(s, b), &piece) == QSF_OK) branch_piece(s, b, &piece, now);
            piece.end = QSF_TURN_END_TOKEN;
        }
        if (!piece.end) continue;
        branch_count(s, b);
        branch_end(s, b, piece.end, false);
        return;
    }
    branch_count(s, b);
}

static void scheduler_deliver(scheduler *s)
{
    size_t first = 0, n_turns = 0;
    for (unsigned i = 0; i < s->n_order; i++) {
        serve_branch *b = s->order[i];
        if (b->stage == BRANCH_PAUSED) {
            if (qsf_seq_length(s->pool.context, b->seq) >= b->n_back)
                b->stage = b->prompt_done ? BRANCH_ANSWER : BRANCH_PROMPT;
            s->order[i] = NULL;
            continue;
        }
        size_t n = b->n_rows;
        if (!b->beam || b->stage == BRANCH_PROMPT) n = qsf_turn_computed(branch_turn(s, b), first);
        if (b->stage == BRANCH_PROMPT && b->job->request.progress)
            branch_progress(s, b, qsf_seq_length(s->pool.context, b->seq));
        b->first = first;
        first += n;
        if (!n) s->order[i] = NULL;
        else if (!b->beam) s->turns[n_turns++] = branch_turn(s, b);
    }
    qsf_turns_pick(s->turns, n_turns);
    const uint64_t now = serve_now();
    for (unsigned i = 0; i < s->n_order; i++) {
        serve_branch *b = s->order[i];
        if (!b) continue;
        if (b->stage == BRANCH_PROMPT) {
            b->stage = BRANCH_ANSWER;
            b->prompt_done = true;
            if (b->beam) qsf_turn_cancel(branch_turn(s, b));
            seq_listed(&s->pool, (uint32_t)b->seq, true);
        }
        if (!b->beam) branch_deliver(s, b, now);
        else if (!beam_step(b->beam, &s->pool, qsf_context_model(s->pool.context), b->first))
            branch_end(s, b, QSF_TURN_MOST, false);
    }
}

/* All of a batch has failed: each of its branches ends. */
static void scheduler_fail(scheduler *s, qsf_status st)
{
    embed_deliver(&s->embed, st);
    for (unsigned i = 0; i < s->n_order; i++) branch_end(s, s->order[i], QSF_TURN_FAILED, false);
}

/* Computes the rows of a batch. */
static qsf_status scheduler_compute(scheduler *s, uint32_t n)
{
    qsf_context *c = s->pool.context;
    bool waiting;
    qsf_status st = qsf_batch_begin(c, s->rows, n);
    while (!st && (st = qsf_step(c, &waiting)) == QSF_PENDING) st = waiting ? qsf_wait(c) : QSF_OK;
    return st;
}

/* No branch has rows for the step: prompts block each other, or wait for the disk. */
static bool scheduler_stuck(scheduler *s)
{
    if (embed_yield(&s->embed)) return true;
    for (unsigned i = 0; i < s->n_running; i++) if (disk_brings(s, s->running[i])) return false;
    serve_branch *last = scheduler_last(s);
    if (last && s->n_running > 1) branch_pause(s, last);
    else if (s->n_running) branch_end(s, s->running[0], QSF_TURN_FULL, false);
    else embed_full(&s->embed);
    return true;
}

bool scheduler_step(scheduler *s)
{
    const uint64_t begin = serve_now();
    if (s->pool.disk) disk_look(s->pool.disk);
    scheduler_let_in(s);
    scheduler_show(s);
    if (!s->n_running && !s->embed.jobs) {
        seq_pool_blocks(&s->pool);                  /* for the figures */
        return false;
    }
    const uint32_t n = scheduler_gather(s);
    if (!n) return scheduler_stuck(s);
    const uint64_t gathered = serve_now();
    const qsf_status st = scheduler_compute(s, n);
    const uint64_t computed = serve_now();
    /* A client that has its answer sees the steps that made it. */
    metric_add(&s->metrics->gather_ns_total, gathered - begin);
    metric_add(&s->metrics->step_ns_total, computed - gathered);
    metric_add(&s->metrics->steps_total, 1);
    metric_add(&s->metrics->rows_total, n);
    metric_set(&s->metrics->batch_rows, n);
    metric_size(&s->metrics->batch_size, n);
    if (st) {
        engine_spoilt(s->engine, st);
        scheduler_fail(s, st);
    } else {
        qsf_schedule_measure(s->pool.schedule, computed - gathered, n);
        drafter_look(s->drafter);
        embed_deliver(&s->embed, QSF_OK);
        scheduler_deliver(s);
    }
    metric_add(&s->metrics->deliver_ns_total, serve_now() - computed);
    return true;
}
