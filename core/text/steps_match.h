/* Runs the expressions of a tokenizer's steps over code points.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEPS_MATCH_H
#define QSF_STEPS_MATCH_H

#include "text/steps.h"

/* What matching works in; zeros to begin with. */
typedef struct steps_matcher {
    const qsf_platform *platform;
    const qsf_steps    *steps;
    qsf_error *err;
    bool       failed;                  /* err says why */
    qsf_status status;
    uint32_t  *seen;                    /* a bit for each instruction and place that failed, or is tried */
    uint64_t   seen_words;
    uint32_t  *journal;                 /* [n_journal][2] what is set in it */
    size_t     n_journal, journal_cap;
    uint32_t  *stack;                   /* [n_stack][2] what is tried next: instruction, place */
    size_t     n_stack, stack_cap;
    /* of the piece being looked through */
    const steps_expression *e;
    const uint32_t *c;
    size_t     n;
    uint64_t   budget;                  /* instructions that may still run in it */
} steps_matcher;

void steps_matcher_free(steps_matcher *m);
/* Makes c[0..n) the piece to look through. */
qsf_status steps_match_begin(steps_matcher *m, const steps_expression *e, const uint32_t *c, size_t n);
/* The first match that begins at pos or later; false: none, or m->failed. */
bool       steps_match_next(steps_matcher *m, size_t pos, size_t *from, size_t *to);

#endif
