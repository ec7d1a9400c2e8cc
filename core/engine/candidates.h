/* The most likely tokens of a row of logits, in place of the whole row, from an executor whose
 * logits are not in the host's memory.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_CANDIDATES_H
#define QSF_ENGINE_CANDIDATES_H

#include "qsf.h"

enum { QSF_CANDIDATES_MOST = 128 };

/* The n largest logits of n_vocab, largest first, of equal ones the lower token; all of them are
 * finite.  log_sum: the natural logarithm of the sum of the exponentials of all logits. */
typedef struct qsf_candidates {
    uint32_t n, n_vocab;        /* n: at most QSF_CANDIDATES_MOST */
    float    log_sum;
    int32_t  token[QSF_CANDIDATES_MOST];
    float    logit[QSF_CANDIDATES_MOST];
} qsf_candidates;

#endif
