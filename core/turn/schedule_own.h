/* A schedule's state, shared by its two files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SCHEDULE_OWN_H
#define QSF_SCHEDULE_OWN_H

#include "base/base.h"
#include "qsf_schedule.h"

enum { SCHEDULE_SIZES = 32 };

struct qsf_schedule {
    const qsf_platform *platform;
    qsf_context *context;
    uint32_t n_seqs, window, block, n_free;     /* n_free: blocks, when they were counted last */
    uint64_t uses;
    qsf_seq_state *seqs;                        /* [n_seqs] */

    /* the batch that is being filled */
    qsf_row *rows;                              /* [n_batch], the caller's */
    uint32_t n_batch, n_logits, step_rows, most_draft;
    uint32_t n_rows, taken;                     /* taken: blocks of the rows so far */
    uint32_t others, spare, draft;              /* spare: rows with logits, besides one for each turn */
    bool     guessed;                           /* qsf_schedule_guess has made the guesses */
    uint32_t n_answer, left, reserved;          /* n_answer: rows of answers; left: rows for prompts */

    /* measured */
    double   row_ns;                            /* a prompt's row */
    double   answer_ns[SCHEDULE_SIZES];         /* a step with this many rows of answers alone */
    double   guess_ns;                          /* a guess */
    double   right, wrong;                      /* guesses, recent ones weighted most */
    uint32_t undrafted;                         /* steps without guesses since they did not pay */
};

#endif
