/* Several turns of one context in one batch, as qsf-serve and the flat interface have them: how
 * many rows each turn gets, which sequence goes if another one needs its memory, and turns that
 * change their sequences.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SCHEDULE_H
#define QSF_SCHEDULE_H

#include "qsf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The turn continues in sequence s (-1: in none yet), which holds a prefix of its tokens or
 * nothing: the rest is computed again, and the answer is the same.  Also after its own sequence was
 * truncated.  Not while rows of the turn are computed, nor before qsf_turn_next has returned
 * QSF_PENDING or the last piece. */
QSF_API void   qsf_turn_move(qsf_turn *t, qsf_seq s);
/* Makes the guesses of these turns' next rows, at most `most` for each, if they have guess_many:
 * those of several turns share the batches of whatever makes them.  Their qsf_turn_rows then have
 * them.  Returns for how many turns; *made: how many tokens. */
QSF_API size_t qsf_turns_guess(qsf_turn *const *turns, size_t n, size_t most, size_t *made);
/* How many tokens must be computed before the turn's next one can be chosen. */
QSF_API size_t qsf_turn_wanted(const qsf_turn *t);

/* As qsf_embed_begin or, with score, as qsf_rerank_begin, which has no options: in sequence s
 * alone, one text after another.  The other sequences stay. */
QSF_API qsf_status qsf_embed_in(qsf_context *c, qsf_seq s, const int32_t *ids, const size_t *lens, size_t n,
                                const qsf_embed_options *opts, bool score, float *out, qsf_embed_run **e);

/* The sampler's seed of one of several answers to a request's seed, which may be any number. */
QSF_API uint64_t qsf_choice_seed(uint64_t seed, uint64_t choice);

/* A schedule decides for the turns of one context how many rows each has in the next batch, and
 * which sequence goes if another one needs its memory.  It moves nothing by itself: the caller
 * saves and empties the sequence that it names.  qsf-serve and the flat interface use it.
 *
 *   qsf_schedule_begin(s, rows, n_turns, n_answers);
 *   qsf_schedule_guess of the turns that have begun their answers, if they have guess_many
 *   for each turn that has begun its answer: qsf_schedule_next, qsf_schedule_answer
 *   qsf_schedule_prompts(s, n_prompts, false);
 *   for each turn whose prompt is computed: qsf_schedule_prompt
 *   qsf_batch_begin, qsf_step, qsf_schedule_measure; then qsf_turn_computed of each turn */
typedef struct qsf_schedule qsf_schedule;

/* Options of qsf_schedule_new. */
typedef struct qsf_schedule_options {
    size_t   size;           /* set by the caller: sizeof(qsf_schedule_options) */
    uint32_t n_seqs;         /* sequences 0 to n_seqs - 1 of the context are the schedule's */
    uint32_t n_logits;       /* rows of a batch that may ask for logits, at least one for each turn */
    uint32_t step_rows;      /* rows of prompts in a step with answers; 0: chosen by measured times */
    uint32_t draft;          /* the most guesses of an answer in a step */
} qsf_schedule_options;

/* *out is the caller's, for qsf_schedule_free (takes NULL).  The context must outlive it. */
QSF_API qsf_status qsf_schedule_new(qsf_context *c, const qsf_schedule_options *o, qsf_schedule **out,
                                    qsf_error *err);
QSF_API void       qsf_schedule_free(qsf_schedule *s);

/* Counts the context's free blocks again, and returns their number.  The functions below use the
 * number counted last. */
QSF_API uint32_t   qsf_schedule_count(qsf_schedule *s);
/* How many blocks the next rows of a sequence take; how many rows fit in a number of blocks. */
QSF_API uint32_t   qsf_schedule_blocks(const qsf_schedule *s, qsf_seq q, uint32_t rows);
QSF_API uint32_t   qsf_schedule_fit(const qsf_schedule *s, qsf_seq q, uint32_t blocks);

/* How a sequence is used. */
typedef enum qsf_seq_use {
    QSF_SEQ_FREE = 0,
    QSF_SEQ_RUNS = 1,
    QSF_SEQ_KEPT = 2         /* idle, with tokens that may be useful again */
} qsf_seq_use;
typedef struct qsf_seq_state {
    qsf_seq_use use;
    uint64_t    used;        /* when that was set, counted in such uses */
    uint64_t    held_ns;     /* until then it should stay, by the caller's clock */
} qsf_seq_state;
QSF_API const qsf_seq_state *qsf_schedule_seq(const qsf_schedule *s, qsf_seq q);
QSF_API void    qsf_schedule_use(qsf_schedule *s, qsf_seq q, qsf_seq_use use, uint64_t held_ns);
QSF_API void    qsf_schedule_hold(qsf_schedule *s, qsf_seq q, uint64_t held_ns);
/* The kept sequence that should go first, except `but`: the least recently used one, those that are
 * held last.  A free sequence.  -1: none. */
QSF_API qsf_seq qsf_schedule_oldest(const qsf_schedule *s, qsf_seq but, uint64_t now_ns);
QSF_API qsf_seq qsf_schedule_unused(const qsf_schedule *s);

/* Begins a batch in rows[qsf_context_batch] of this many turns, of which some have begun their
 * answers. */
QSF_API void     qsf_schedule_begin(qsf_schedule *s, qsf_row *rows, uint32_t turns, uint32_t answers);
/* Makes the guesses of the turns that have begun their answers, if they have guess_many and if
 * guesses pay. */
QSF_API void     qsf_schedule_guess(qsf_schedule *s, qsf_turn *const *turns, size_t n);
/* The next turns in line are looked at, whether or not they get rows. */
QSF_API void     qsf_schedule_next(qsf_schedule *s, uint32_t turns);
/* The most rows of an answer in a step whose grammar forces more than one. */
enum { QSF_SCHEDULE_FORCED = 32 };
/* Adds the next row of an answer in sequence q, with guesses if they pay; forced: its grammar may
 * force more, up to QSF_SCHEDULE_FORCED.  Returns the number of rows. */
QSF_API uint32_t qsf_schedule_answer(qsf_schedule *s, qsf_turn *t, qsf_seq q, bool forced);
/* The caller has added rows of answers itself, which take that many blocks. */
QSF_API void     qsf_schedule_given(qsf_schedule *s, uint32_t rows, uint32_t blocks);
/* All answers are there; rows of prompts follow.  half: half of their rows stay for others. */
QSF_API void     qsf_schedule_prompts(qsf_schedule *s, uint32_t prompts, bool half);
/* The free blocks with which that many more rows of a prompt, or those that the batch has left,
 * all fit. */
QSF_API uint32_t qsf_schedule_needs(const qsf_schedule *s, qsf_seq q, uint32_t rows);
/* Adds rows, at most n: those of a turn or, without one, of ids.  Returns their number. */
QSF_API uint32_t qsf_schedule_prompt(qsf_schedule *s, qsf_turn *t, const int32_t *ids, qsf_seq q, uint32_t n);
/* Blocks that the batch's rows take; rows that prompts have left. */
QSF_API uint32_t qsf_schedule_taken(const qsf_schedule *s);
QSF_API uint32_t qsf_schedule_left(const qsf_schedule *s);
/* The batch of this many rows took that long; guesses of an answer, and how many were right. */
QSF_API void     qsf_schedule_measure(qsf_schedule *s, uint64_t ns, uint32_t rows);
QSF_API void     qsf_schedule_drafted(qsf_schedule *s, uint64_t guessed, uint64_t right);
/* What a prompt's row takes; 0: not measured. */
QSF_API double   qsf_schedule_row_ns(const qsf_schedule *s);

#ifdef __cplusplus
}
#endif
#endif
