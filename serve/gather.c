/* A step's batch: which branches have rows in it.  The schedule decides how many.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

static void batch_add(scheduler *s, serve_branch *b, uint32_t n)
{
    b->n_rows = n;
    s->order[s->n_order++] = b;
    s->served[b->job->key % SERVE_KEYS] += n;
}

/* Rows of a prompt, or of a paused answer's tokens. */
static uint32_t prompt_gather(scheduler *s, serve_branch *b)
{
    qsf_schedule *q = s->pool.schedule;
    const uint32_t have = qsf_seq_length(s->pool.context, b->seq);
    const uint32_t n = (b->stage == BRANCH_PAUSED ? b->n_back : (uint32_t)branch_prompt(b)->n) - have;
    (void)seq_make_room(&s->pool, qsf_schedule_needs(q, b->seq, n), -1);
    if (b->stage == BRANCH_PROMPT) return qsf_schedule_prompt(q, branch_turn(s, b), NULL, b->seq, n);
    return qsf_schedule_prompt(q, NULL, b->back + have, b->seq, n);
}

static uint32_t answer_gather(scheduler *s, serve_branch *b, qsf_row *rows)
{
    qsf_schedule *q = s->pool.schedule;
    if (!b->beam) return qsf_schedule_answer(q, branch_turn(s, b), b->seq, b->job->turn.grammar);
    const uint32_t n = beam_rows(b->beam, rows);
    qsf_schedule_given(q, n, answer_blocks(s, b));
    return n;
}

/* Rows of answers; returns their number. */
static uint32_t answers_gather(scheduler *s)
{
    qsf_schedule *q = s->pool.schedule;
    uint32_t n = 0;
    for (unsigned i = 0; i < s->n_running && n < s->n_batch;) {
        serve_branch *b = s->running[i];
        uint32_t rows = b->beam ? beam_rows(b->beam, NULL) : 1;
        qsf_schedule_next(q, branch_width(b));
        if (b->stage == BRANCH_ANSWER && n + rows <= s->n_batch
            && answer_room(s, b, qsf_schedule_taken(q))) {
            rows = answer_gather(s, b, s->rows + n);
            n += rows;
            batch_add(s, b, rows);
        }
        i += i < s->n_running && s->running[i] == b;
    }
    return n;
}

uint32_t scheduler_gather(scheduler *s)
{
    qsf_schedule *q = s->pool.schedule;
    uint32_t answers = 0, prompts = 0;
    size_t n_turns = 0;
    s->n_order = 0;
    seq_pool_blocks(&s->pool);
    scheduler_resume(s);
    for (unsigned i = 0; i < s->n_running; i++) {
        s->running[i]->n_rows = 0;
        if (s->running[i]->stage != BRANCH_ANSWER) continue;
        answers += branch_width(s->running[i]);
        if (!s->running[i]->beam) s->turns[n_turns++] = branch_turn(s, s->running[i]);
    }
    qsf_schedule_begin(q, s->rows, s->n_taken, answers);
    qsf_schedule_guess(q, s->turns, n_turns);
    uint32_t n = answers_gather(s);
    for (unsigned i = 0; i < s->n_running; i++) prompts += s->running[i]->stage == BRANCH_PROMPT;
    qsf_schedule_prompts(q, prompts, s->embed.jobs);
    for (unsigned i = 0; i < s->n_running; i++) {
        serve_branch *b = s->running[i];
        if (b->stage != BRANCH_PROMPT && (b->stage != BRANCH_PAUSED || b->disk >= 0)) continue;
        const uint32_t more = prompt_gather(s, b);
        if (more) batch_add(s, b, more);
        n += more;
    }
    return n + embed_gather(&s->embed, n, qsf_schedule_left(q), qsf_schedule_taken(q));
}
