/* Picks from the most likely tokens in place of all logits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAMPLER_CANDIDATES_H
#define QSF_SAMPLER_CANDIDATES_H

#include "engine/candidates.h"
#include "turn/sampler.h"

/* Whether candidates are likely to be enough for this sampler. */
bool     qsf_sampler_takes_candidates(const qsf_sampler *s);
/* How it will choose the next tokens, if the largest logits alone decide; false: more does. */
bool     qsf_sampler_choice(const qsf_sampler *s, qsf_choice *out);
/* Writes the token that qsf_sampler_pick_within would pick from all logits, and takes the same
 * random numbers.  false: that may depend on other tokens; then nothing has changed. */
bool     qsf_sampler_pick_of(qsf_sampler *s, const qsf_candidates *c, const qsf_sampler_limits *limits,
                             int32_t *id);
/* qsf_logprobs for a token that is among the candidates, or -1, and n of them at most.  0: it is
 * not, or n are too many. */
uint32_t qsf_candidates_logprobs(const qsf_candidates *c, int32_t chosen, qsf_logprob *out, uint32_t n);

#endif
