/* A step's batch: how many rows each turn has in it.
 * SPDX-License-Identifier: MIT
 *
 * A batch has one row of every answer, with its guesses, and rows of prompts in what is left: as
 * many as do not make it more than twice as long.  What steps take is measured. */
#include "base/host.h"
#include "turn/schedule_own.h"

/* The place of a number of rows among the sizes that are measured: each up to eight, then two for
 * each power of two. */
static unsigned size_of_rows(uint32_t rows)
{
    unsigned i = 8, half = 8;
    if (rows <= 8) return rows;
    for (; rows >= 2 * half; half *= 2) i += 2;
    i += 1 + (rows >= half + half / 2);
    return i < SCHEDULE_SIZES ? i : SCHEDULE_SIZES - 1;
}

/* The time of a step with this many rows of answers: as measured; else that of the next smaller
 * measured step, so that it will be tried.  0: not measured. */
static double answers_ns(const qsf_schedule *s, uint32_t rows)
{
    while (rows > 1 && !(s->answer_ns[size_of_rows(rows)] > 0)) rows--;
    return s->answer_ns[size_of_rows(rows)];
}

/* Draft tokens for each of this many answers: the number that yields the most tokens a second,
 * estimated from the measured times of steps and from how often drafts were accepted. */
static uint32_t draft_of(qsf_schedule *s, uint32_t answers)
{
    enum { TRY = 32 };
    const double alone = answers_ns(s, answers), right = (s->right + 1) / (s->right + s->wrong + 2);
    double tokens = 1, run = 1;
    uint32_t n = 0;
    if (!answers || !s->most_draft) return 0;
    if (!(alone > 0)) return 0;             /* the others are compared with that */
    double best = answers / alone;
    for (uint32_t k = 1; k <= s->most_draft && answers * (1 + k) <= s->n_logits; k++) {
        tokens += run *= right;
        const double guesses = answers * k * s->guess_ns;
        const double rate = answers * tokens / (answers_ns(s, answers * (1 + k)) + guesses);
        if (rate > best) best = rate, n = k;
    }
    if (n) s->undrafted = 0;
    else if (++s->undrafted % TRY == 0) n = 1;      /* what paid badly may pay again */
    return n;
}

void qsf_schedule_begin(qsf_schedule *s, qsf_row *rows, uint32_t turns, uint32_t answers)
{
    s->rows = rows;
    s->n_rows = s->taken = s->n_answer = s->left = 0;
    s->others = turns;
    s->spare = s->n_logits - turns;
    s->draft = draft_of(s, answers);
    s->guessed = false;
    (void)qsf_schedule_count(s);
}

/* n guesses have taken ns. */
static void guesses_took(qsf_schedule *s, uint64_t ns, size_t n)
{
    const double each = (double)ns / (double)QSF_MAX(n, 1u);
    s->guess_ns = s->guess_ns > 0 ? 0.9 * s->guess_ns + 0.1 * each : each;
}

void qsf_schedule_guess(qsf_schedule *s, qsf_turn *const *turns, size_t n)
{
    if (!s->draft) return;
    const uint64_t begin = qsf_now(s->platform);
    size_t made;
    s->guessed = qsf_turns_guess(turns, n, s->draft, &made) > 0;
    if (s->guessed) guesses_took(s, qsf_now(s->platform) - begin, made);
}

/* Blocks that the batch's rows have left. */
static uint32_t blocks_left(const qsf_schedule *s) { return s->n_free > s->taken ? s->n_free - s->taken : 0; }

void qsf_schedule_next(qsf_schedule *s, uint32_t turns) { s->others -= turns; }

void qsf_schedule_given(qsf_schedule *s, uint32_t rows, uint32_t blocks)
{
    s->n_rows += rows;
    s->n_answer += rows;
    s->taken += blocks;
}

uint32_t qsf_schedule_answer(qsf_schedule *s, qsf_turn *t, qsf_seq q, bool forced)
{
    const uint32_t room = s->n_batch - s->n_rows;
    const uint32_t own = forced ? (uint32_t)QSF_MIN(qsf_turn_wanted(t), (size_t)QSF_SCHEDULE_FORCED) : 1;
    uint32_t n = QSF_MAX(own, 1u) + QSF_MIN(s->draft, s->spare), logits = 0;
    qsf_row *rows = s->rows + s->n_rows;
    if (!room) return 0;
    if (n > 1 && room <= s->others) n = 1;
    else if (n > 1 && n > room - s->others) n = room - s->others;
    const uint32_t fit = qsf_schedule_fit(s, q, blocks_left(s));
    const uint64_t begin = qsf_now(s->platform);
    n = (uint32_t)qsf_turn_rows(t, rows, n < fit ? n : fit ? fit : 1);
    const uint64_t took = qsf_now(s->platform) - begin;
    for (uint32_t i = 0; i < n; i++) logits += rows[i].logits;
    if (logits > 1) {
        s->spare -= logits - 1;
        if (!s->guessed) guesses_took(s, took, logits - 1);
    }
    s->taken += qsf_schedule_blocks(s, q, n);
    s->n_rows += n;
    s->n_answer += n;
    return n;
}

/* If there are more prompts than answers, their share grows with the ratio. */
void qsf_schedule_prompts(qsf_schedule *s, uint32_t prompts, bool half)
{
    enum { LEAST = 4, FIRST = 32 };
    const uint32_t answers = s->n_rows;
    const double alone = s->answer_ns[size_of_rows(answers)];
    s->left = s->n_batch - answers;
    if (answers) {
        double rows = s->step_rows;
        if (!s->step_rows) rows = alone > 0 && s->row_ns > 0 ? alone / s->row_ns : FIRST;
        if (rows < LEAST) rows = LEAST;
        if (!s->step_rows && prompts > answers) rows = rows * prompts / answers;
        if (rows < s->left) s->left = (uint32_t)rows;
    }
    s->reserved = half ? s->left / 2 : 0;
    s->left -= s->reserved;
}

uint32_t qsf_schedule_needs(const qsf_schedule *s, qsf_seq q, uint32_t rows)
{
    return s->taken + qsf_schedule_blocks(s, q, QSF_MIN(rows, s->left));
}

uint32_t qsf_schedule_taken(const qsf_schedule *s) { return s->taken; }
uint32_t qsf_schedule_left(const qsf_schedule *s) { return s->left + s->reserved; }

uint32_t qsf_schedule_prompt(qsf_schedule *s, qsf_turn *t, const int32_t *ids, qsf_seq q, uint32_t n)
{
    qsf_row *rows = s->rows + s->n_rows;
    const uint32_t fit = qsf_schedule_fit(s, q, blocks_left(s));
    n = QSF_MIN(QSF_MIN(n, fit), s->left);
    if (!n) return 0;
    if (t) n = (uint32_t)qsf_turn_rows(t, rows, n);
    else for (uint32_t i = 0; i < n; i++) rows[i] = (qsf_row){ q, ids[i], false };
    s->taken += qsf_schedule_blocks(s, q, n);
    s->n_rows += n;
    s->left -= n;
    return n;
}

/* ---- what steps take ---- */

void qsf_schedule_measure(qsf_schedule *s, uint64_t ns, uint32_t rows)
{
    const uint32_t answers = s->n_answer, others = rows - answers;
    const double alone = answers ? s->answer_ns[size_of_rows(answers)] : 0;
    double *to = others ? &s->row_ns : &s->answer_ns[size_of_rows(answers)];
    double took = (double)ns;
    if (others) took = alone > 0 && took > alone ? (took - alone) / others : took / rows;
    *to = *to > 0 ? 0.9 * *to + 0.1 * took : took;
}

void qsf_schedule_drafted(qsf_schedule *s, uint64_t guessed, uint64_t right)
{
    const double old = 0.95;
    s->right = old * s->right + (double)right;
    s->wrong = old * s->wrong + (right < guessed);
}

double qsf_schedule_row_ns(const qsf_schedule *s) { return s->row_ns; }
