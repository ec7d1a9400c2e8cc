/* Biases of keys, which are far larger than what tokens add to them in some models.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KEY_BIAS_H
#define QSF_KEY_BIAS_H

#include "kernels.h"
#include "layers/rope.h"

/* A context's tables for keys that are stored without their bias. */
typedef struct qsf_key_bias {
    const qsf_rope    *rope;
    const qsf_kernels *k;
    uint32_t  n_places;
    float    *back;           /* [n_places][2][half] angles by which a block is rotated back */
    uint16_t *steps;          /* [QSF_KV_BLOCK][2][half] halves: those in it; NULL: keys keep their bias */
} qsf_key_bias;

/* Whether keys of this type are stored without the bias that they may have. */
bool qsf_bias_apart(const qsf_source *s, qsf_kv_type type);
/* Fills back and steps, whose memory the caller has set;
 * rope is the model's only one if steps is set. */
void qsf_bias_init(qsf_key_bias *t, const qsf_rope *rope, const qsf_kernels *k, uint32_t n_ctx);

/* If keys keep their bias: subtracts the part that the rotation leaves in place from x[n], a key
 * that r has rotated; r NULL: not rotated. */
void qsf_bias_still(float *x, const float *bias, size_t n, const qsf_rope *r);

/* factors[vectors][head_dim] of what the bias adds to the scores of q[vectors][head_dim], which
 * lose their mixture here. */
void qsf_bias_factors(const qsf_key_bias *t, float *factors, float *q, size_t vectors, size_t head_dim,
                      const float *bias, float scale);
/* Adds it to s[vectors][QSF_KV_BLOCK], scores of n positions of the block at place.  turned:
 * [vectors][head_dim]; work: [vectors][QSF_KV_BLOCK], [head_dim]. */
void qsf_bias_scores(const qsf_key_bias *t, float *s, const float *factors, float *turned, float *work,
                     size_t vectors, uint32_t place, size_t n);

#endif
