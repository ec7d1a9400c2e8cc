/* Runs the expressions of a tokenizer's steps on code points.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_MATCH_H
#define QSF_STEPS_MATCH_H

#include "tokens/steps.h"

/* A matcher's state; initially zero. */
typedef struct steps_matcher {
    const qsf_platform *platform;
    const qsf_steps    *steps;
    qsf_error *err;
    bool       failed;                  /* see err */
    qsf_status status;
    uint32_t  *seen;                    /* one bit per instruction and position that was tried */
    uint64_t   seen_words;
    uint32_t  *journal;                 /* [n_journal][2] the bits set in `seen` */
    size_t     n_journal, journal_cap;
    uint32_t  *stack;                   /* [n_stack][2] instruction and position to try next */
    size_t     n_stack, stack_cap;
    /* the current piece */
    const steps_expression *e;
    const uint32_t *c;
    size_t     n;
    uint64_t   budget;                  /* remaining instructions */
} steps_matcher;

void qsf_steps_matcher_free(steps_matcher *m);
/* Makes c[0..n) the current piece. */
qsf_status qsf_steps_match_begin(steps_matcher *m, const steps_expression *e, const uint32_t *c, size_t n);
/* The first match that begins at pos or later; false: none, or m->failed. */
bool       qsf_steps_match_next(steps_matcher *m, size_t pos, size_t *from, size_t *to);

#endif
