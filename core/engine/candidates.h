/* The most likely tokens of a row of logits, in place of the whole row, from an executor whose
 * logits are not in the host's memory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_CANDIDATES_H
#define QSF_ENGINE_CANDIDATES_H

#include "qsf.h"

enum { QSF_CANDIDATES_MOST = 128, QSF_CHOICES_MOST = 32, QSF_CHOICE_LAST = 128 };

/* The n largest logits of n_vocab, largest first, of equal ones the lower token; all of them are
 * finite.  log_sum: the natural logarithm of the sum of the exponentials of all logits. */
typedef struct qsf_candidates {
    uint32_t n, n_vocab;        /* n: at most QSF_CANDIDATES_MOST */
    float    log_sum;
    int32_t  token[QSF_CANDIDATES_MOST];
    float    logit[QSF_CANDIDATES_MOST];
} qsf_candidates;

/* How the token after a sequence's row will be chosen, and that another one follows it: what an
 * executor needs to compute the next batch before the caller has the token.  The caller chooses all
 * the same, and what was computed for another token is dropped. */
typedef struct qsf_choice {
    uint32_t seq;
    uint32_t top_k;             /* at most QSF_CANDIDATES_MOST */
    float    scale;             /* 1 / temperature; 0: the largest logit */
    float    top_p, min_p;
    float    draw[2];           /* random, in [0, 1): for this token, and for the next one */
    float    repeat, frequency, presence;       /* penalties of the last tokens; 1, 0, 0: none */
    uint32_t window, n_last;    /* how many of them count, at most, and are there */
    int32_t  last[QSF_CHOICE_LAST];             /* [n_last] */
} qsf_choice;

#endif
