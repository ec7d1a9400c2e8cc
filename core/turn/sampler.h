/* The sampler, as the core itself makes, plans and limits one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAMPLER_H
#define QSF_SAMPLER_H

#include "kernels.h"
#include "model/model.h"

/* Memory of a sampler with the default options. */
uint64_t   qsf_sampler_bytes(uint32_t n_vocab);
/* qsf_sampler_new without a model (t may be NULL: then texts cannot be banned). */
qsf_status qsf_sampler_for(const qsf_platform *p, const qsf_tokenizer *t, uint32_t n_vocab,
                           const qsf_sampler_options *opts, qsf_sampler **out, qsf_error *err);

/* What one pick may take. */
typedef struct qsf_sampler_limits {
    const uint32_t *mask;        /* a bit for each token that may come; NULL: all */
    const int32_t  *never;       /* tokens that may not come */
    size_t          n_never;
} qsf_sampler_limits;
/* -1: nothing within the limits has a logit above -INFINITY. */
int32_t    qsf_sampler_pick_within(qsf_sampler *s, const float *logits, const qsf_sampler_limits *limits);
/* Whether only the token with the largest logit is ever picked. */
bool       qsf_sampler_greedy(const qsf_sampler *s);

/* The first of equals; NaN never wins. */
uint32_t   qsf_sampler_argmax(const float *x, uint32_t n);
/* Writes natural log probabilities: to out[0] that of the token `chosen` (-1: none, -INFINITY),
 * then those of the n most probable tokens.  Returns the number of entries, less than 1 + n if
 * fewer logits are above -INFINITY. */
uint32_t   qsf_logprobs(const qsf_kernels *k, const float *logits, uint32_t n_vocab, int32_t chosen,
                        qsf_logprob *out, uint32_t n);

#endif
