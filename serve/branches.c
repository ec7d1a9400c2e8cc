/* A branch, which computes one answer of a job: what it is, how it comes in line, and how it ends.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include <string.h>

unsigned branch_width(const serve_branch *b)
{
    const int64_t width = b->job->request.beam_width;
    return width > 1 ? (unsigned)width : 1;
}

qsf_turn *branch_turn(scheduler *s, const serve_branch *b) { return s->pool.seqs[b->seq].turn; }

const serve_tokens *branch_prompt(const serve_branch *b)
{
    return &b->job->prompts[b->index / serve_request_each(&b->job->request)];
}

void branch_forget_disk(scheduler *s, serve_branch *b)
{
    if (b->disk >= 0) disk_let_go(s->pool.disk, b->disk);
    b->disk = -1;
}

/* ---- in line ---- */

void scheduler_enter(scheduler *s, serve_job *j)
{
    uint64_t least = UINT64_MAX;
    bool active = false;
    for (unsigned i = 0; i < s->n_running; i++) {
        const unsigned key = s->running[i]->job->key % SERVE_KEYS;
        if (s->served[key] < least) least = s->served[key];
        active |= key == j->key % SERVE_KEYS;
    }
    /* A client that was idle gets no credit for that time. */
    uint64_t *served = &s->served[j->key % SERVE_KEYS];
    if (!active && least != UINT64_MAX && *served < least) *served = least;
    for (unsigned i = 0; i < j->n_branches; i++) {
        serve_branch *b = &j->branches[i];
        if (branch_width(b) > 1 && i % (unsigned)j->request.n) continue;     /* the first one's beam */
        *s->waiting_end = b;
        s->waiting_end = &b->next;
        s->n_waiting++;
    }
    metric_set(&s->metrics->waiting, s->n_waiting);
}

/* ---- the end of an answer ---- */

void branch_report(scheduler *s, serve_branch *b, qsf_turn_end end, bool late)
{
    qsf_turn_state st = { .size = sizeof st, .n_prompt = branch_prompt(b)->n };
    const char *text = "";
    qsf_status why = QSF_OK;
    if (b->sampler) qsf_turn_get_state(branch_turn(s, b), &st);
    if (end == QSF_TURN_FAILED && b->refused) {
        text = qsf_last_error(s->pool.context);
        why = b->refused;
    } else if (end == QSF_TURN_FAILED) {
        text = qsf_turn_error(branch_turn(s, b))->text;
        why = qsf_turn_error(branch_turn(s, b))->status;
        if (!*text) text = qsf_last_error(s->pool.context);
    }
    serve_event e = { .kind = EVENT_END, .branch = (uint16_t)b->index, .job = b->job, .end = end,
                      .late = late, .len = (uint32_t)strlen(text), .n_prompt = (uint32_t)st.n_prompt,
                      .n_kept = (uint32_t)st.n_kept, .n_tokens = (uint32_t)st.n_tokens,
                      .n_drafted = b->n_drafted, .n_accepted = b->n_accepted, .status = why,
                      .score = b->score };
    metric_add(&s->metrics->generated_tokens_total, st.n_tokens);
    if (end == QSF_TURN_FAILED) metric_add(&s->metrics->failed_total, 1);
    if (end == QSF_TURN_CANCELLED) metric_add(&s->metrics->cancelled_total, 1);
    metric_time(&s->metrics->request_time, serve_now() - b->job->arrived_ns);
    engine_post(s->engine, &e, NULL, text);
}

void beam_report(scheduler *s, serve_branch *b, qsf_turn_end end, bool late)
{
    const qsf_model *model = qsf_context_model(s->pool.context);
    if (b->beam) beam_finish(b->beam, end);
    for (unsigned i = 0; i < (unsigned)b->job->request.n; i++) {
        const int32_t *ids;
        const char *piece;
        char text[3 * 260];
        qsf_utf8_tail tail = { 0 };
        serve_event e = { .kind = EVENT_END, .branch = (uint16_t)(b->index + i), .job = b->job, .end = end,
                          .late = late, .n_prompt = (uint32_t)branch_prompt(b)->n, .n_kept = b->n_kept };
        qsf_turn_end own = end;
        if (b->beam && beam_answer(b->beam, i, &ids, &e.n_tokens, &e.score, &own)) {
            for (uint32_t k = 0; k < e.n_tokens; k++) {
                size_t len = qsf_token_piece(model, ids[k], false, &piece);
                for (size_t at = 0; at < len; at += 256) {
                    serve_event p = { .kind = EVENT_PIECE, .branch = e.branch, .job = b->job,
                                      .token = ids[k] };
                    p.len = (uint32_t)qsf_utf8_push(&tail, piece + at, len - at < 256 ? len - at : 256, text);
                    if (p.len) engine_post(s->engine, &p, NULL, text);
                }
            }
        }
        e.end = own;
        engine_post(s->engine, &e, NULL, "");
        metric_add(&s->metrics->generated_tokens_total, e.n_tokens);
    }
    if (end == QSF_TURN_CANCELLED) metric_add(&s->metrics->cancelled_total, 1);
    metric_time(&s->metrics->request_time, serve_now() - b->job->arrived_ns);
    if (b->beam) beam_release(b->beam, &s->pool);
    beam_free(b->beam);
    b->beam = NULL;
    b->seq = -1;
    b->stage = BRANCH_OVER;
    b->prompt_done = true;
    for (unsigned i = (unsigned)b->job->request.n; i-- > 0;) engine_branch_over(s->engine, b);
}

void branch_end(scheduler *s, serve_branch *b, qsf_turn_end end, bool late)
{
    unsigned i = 0;
    while (s->running[i] != b) i++;
    memmove(s->running + i, s->running + i + 1, (--s->n_running - i) * sizeof *s->running);
    s->n_taken -= branch_width(b);
    branch_forget_disk(s, b);
    if (b->stage != BRANCH_ANSWER || !b->beam) qsf_turn_cancel(branch_turn(s, b));
    if (branch_width(b) > 1) {
        if (!b->beam) seq_give_back(&s->pool, (uint32_t)b->seq);
        qsf_sampler_free(b->sampler);
        b->sampler = NULL;
        beam_report(s, b, end, late);
        return;
    }
    branch_report(s, b, end, late);
    if (end == QSF_TURN_FAILED || b->stage == BRANCH_PAUSED) seq_give_back(&s->pool, (uint32_t)b->seq);
    else seq_keep(&s->pool, (uint32_t)b->seq, b->job->session, serve_now());
    qsf_sampler_free(b->sampler);
    b->sampler = NULL;
    b->seq = -1;
    b->stage = BRANCH_OVER;
    b->prompt_done = true;
    engine_branch_over(s->engine, b);
}
