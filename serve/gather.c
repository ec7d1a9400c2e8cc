/* A step's batch: which branches have rows in it, and how many.
 * SPDX-License-Identifier: MIT */
#include "scheduler.h"

/* The place of a number of rows among the sizes that are measured: each up to eight, then two for
 * each power of two. */
static unsigned size_of(uint32_t rows)
{
    unsigned i = 8, half = 8;
    if (rows <= 8) return rows;
    for (; rows >= 2 * half; half *= 2) i += 2;
    i += 1 + (rows >= half + half / 2);
    return i < SERVE_SIZES ? i : SERVE_SIZES - 1;
}

/* The time of a step with this many rows of answers: as measured; else that of the next smaller
 * measured step, plus the time of a prompt's row for each of the others.  0: not measured. */
static double rows_ns(const scheduler *s, uint32_t rows)
{
    uint32_t n = rows;
    while (n > 1 && !(s->answer_ns[size_of(n)] > 0)) n--;
    const double less = s->answer_ns[size_of(n)];
    return less > 0 ? less + (rows - n) * s->pool.row_ns : 0;
}

/* Rows of prompts that may share a step with this many answers without making it more than twice as
 * long; if there are more prompts than answers, their share grows with the ratio. */
static uint32_t prompt_rows(const scheduler *s, uint32_t answers)
{
    uint32_t prompts = 0;
    enum { LEAST = 4 };
    const uint32_t left = s->n_batch - answers;
    if (!answers) return left;
    double rows = s->step_rows;
    const double alone = s->answer_ns[size_of(answers)];
    if (!s->step_rows) rows = alone > 0 && s->pool.row_ns > 0 ? alone / s->pool.row_ns : 32;
    if (rows < LEAST) rows = LEAST;
    for (unsigned i = 0; i < s->n_running; i++) prompts += s->running[i]->stage == BRANCH_PROMPT;
    if (!s->step_rows && prompts > answers) rows = rows * prompts / answers;
    return rows < left ? (uint32_t)rows : left;
}

static void batch_add(scheduler *s, serve_branch *b, uint32_t n)
{
    b->n_rows = n;
    s->order[s->n_order++] = b;
    s->served[b->job->key % SERVE_KEYS] += n;
}

/* Rows of a prompt, or of a paused answer's tokens. */
static uint32_t prompt_gather(scheduler *s, serve_branch *b, qsf_row *rows, uint32_t most, uint32_t *taken)
{
    const uint32_t have = qsf_seq_length(s->pool.context, b->seq);
    const uint32_t whole = b->stage == BRANCH_PAUSED ? b->n_back : (uint32_t)branch_prompt(b)->n;
    uint32_t n = whole - have < most ? whole - have : most;
    (void)seq_make_room(&s->pool, *taken + seq_blocks_for(&s->pool, b->seq, n), -1);
    const uint32_t fit = seq_rows_in(&s->pool, b->seq, s->pool.n_free > *taken ? s->pool.n_free - *taken : 0);
    if (n > fit) n = fit;
    *taken += seq_blocks_for(&s->pool, b->seq, n);
    if (!n) return 0;
    if (b->stage == BRANCH_PROMPT) return (uint32_t)qsf_turn_rows(branch_turn(s, b), rows, n);
    for (uint32_t i = 0; i < n; i++) rows[i] = (qsf_row){ b->seq, b->back[have + i], false };
    return n;
}

/* Draft tokens for each of this many answers: the number that yields the most tokens a second,
 * estimated from the measured times of steps and from how often drafts were accepted. */
static uint32_t draft_of(scheduler *s, uint32_t answers)
{
    enum { TRY = 32 };
    const double alone = rows_ns(s, answers), right = (s->right + 1) / (s->right + s->wrong + 2);
    double tokens = 1, run = 1;
    uint32_t n = 0;
    if (!answers || !s->draft) return 0;
    if (!(alone > 0)) return 1;
    double best = answers / alone;
    for (uint32_t k = 1; k <= s->draft && answers * (1 + k) <= s->n_logits; k++) {
        tokens += run *= right;
        const double rate = answers * tokens / rows_ns(s, answers * (1 + k));
        if (rate > best) best = rate, n = k;
    }
    if (n) s->undrafted = 0;
    else if (++s->undrafted % TRY == 0) n = 1;      /* what paid badly may pay again */
    return n;
}

/* Rows of an answer: one and its guesses, and text that its grammar forces, whose tokens come in
 * one batch.  The answers after this one need `others` of the rows that are left.  spare: rows with
 * logits, besides one for each answer. */
static uint32_t answer_gather(scheduler *s, serve_branch *b, qsf_row *rows, uint32_t left, uint32_t others,
                              uint32_t draft, uint32_t *spare, uint32_t *taken)
{
    enum { FORCED = 32 };
    uint32_t n = 1 + (draft < *spare ? draft : *spare), logits = 0;
    if (b->beam) {
        *taken += answer_blocks(s, b);
        return beam_rows(b->beam, rows);
    }
    if (b->job->turn.grammar && s->draft <= *spare) n = FORCED;
    if (n > 1 && left <= others) n = 1;
    else if (n > 1 && n > left - others) n = left - others;
    const uint32_t fit = seq_rows_in(&s->pool, b->seq, s->pool.n_free > *taken ? s->pool.n_free - *taken : 0);
    n = (uint32_t)qsf_turn_rows(branch_turn(s, b), rows, n < fit ? n : fit ? fit : 1);
    for (uint32_t i = 0; i < n; i++) logits += rows[i].logits;
    if (logits > 1) *spare -= logits - 1;
    *taken += seq_blocks_for(&s->pool, b->seq, n);
    return n;
}

uint32_t scheduler_gather(scheduler *s)
{
    uint32_t n = 0, taken = 0, others = s->n_taken, answers = 0, spare = s->n_logits - s->n_taken;
    s->n_order = 0;
    seq_pool_blocks(&s->pool);
    scheduler_resume(s);
    for (unsigned i = 0; i < s->n_running; i++) {
        s->running[i]->n_rows = 0;
        if (s->running[i]->stage == BRANCH_ANSWER) answers += branch_width(s->running[i]);
    }
    const uint32_t draft = draft_of(s, answers);
    for (unsigned i = 0; i < s->n_running && n < s->n_batch;) {
        serve_branch *b = s->running[i];
        uint32_t rows = b->beam ? beam_rows(b->beam, NULL) : 1;
        others -= branch_width(b);
        if (b->stage == BRANCH_ANSWER && n + rows <= s->n_batch && answer_room(s, b, taken)) {
            rows = answer_gather(s, b, s->rows + n, s->n_batch - n, others, draft, &spare, &taken);
            n += rows;
            batch_add(s, b, rows);
        }
        i += i < s->n_running && s->running[i] == b;
    }
    uint32_t left = prompt_rows(s, n);
    const uint32_t texts = s->embed.jobs ? left / 2 : 0;
    left -= texts;
    for (unsigned i = 0; i < s->n_running && left; i++) {
        serve_branch *b = s->running[i];
        if (b->stage != BRANCH_PROMPT && (b->stage != BRANCH_PAUSED || b->disk >= 0)) continue;
        const uint32_t more = prompt_gather(s, b, s->rows + n, left, &taken);
        if (more) batch_add(s, b, more);
        n += more;
        left -= more;
    }
    return n + embed_gather(&s->embed, n, left + texts, taken);
}

/* ---- what steps take ---- */

void scheduler_measure(scheduler *s, uint64_t ns, uint32_t rows)
{
    uint32_t answers = 0;
    for (unsigned i = 0; i < s->n_order; i++)
        if (s->order[i]->stage == BRANCH_ANSWER) answers += s->order[i]->n_rows;
    const uint32_t others = rows - answers;
    const double alone = answers ? s->answer_ns[size_of(answers)] : 0;
    double *to = others ? &s->pool.row_ns : &s->answer_ns[size_of(answers)];
    double took = (double)ns;
    if (others) took = alone > 0 && took > alone ? (took - alone) / others : took / rows;
    *to = *to ? 0.9 * *to + 0.1 * took : took;
}

void scheduler_drafted(scheduler *s, uint64_t guessed, uint64_t right)
{
    const double old = 0.95;
    s->right = old * s->right + (double)right;
    s->wrong = old * s->wrong + (right < guessed);
}
