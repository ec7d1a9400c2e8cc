/* How many draft tokens pay.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DRAFT_GAIN_H
#define QSF_DRAFT_GAIN_H

#include "base/base.h"

typedef struct qsf_draft_gain {
    double   pass[QSF_DRAFT_MOST + 2];  /* ns of a pass with this many rows; 0: unknown */
    double   guess;                     /* ns of one draft token */
    double   right[QSF_DRAFT_MOST];     /* how often draft token i is right if those before it are */
    uint32_t n_without;                 /* passes without drafts since the last one with some */
} qsf_draft_gain;

void   qsf_draft_gain_begin(qsf_draft_gain *g);
/* A pass over this many rows, all with logits, has taken ns. */
void   qsf_draft_gain_pass(qsf_draft_gain *g, size_t rows, uint64_t ns);
/* n draft tokens have taken ns. */
void   qsf_draft_gain_made(qsf_draft_gain *g, size_t n, uint64_t ns);
/* Of n draft tokens the first `right` were right. */
void   qsf_draft_gain_judge(qsf_draft_gain *g, size_t n, size_t right);
/* How many draft tokens, at most cap, give the most tokens in the time; 0: drafts cost more than
 * they give. */
size_t qsf_draft_gain_choose(qsf_draft_gain *g, size_t cap);

#endif
