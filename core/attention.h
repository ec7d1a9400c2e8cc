/* Attention of a batch's rows in one layer; c->w has its weights, c->b.q, k and v what they are
 * projected to.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ATTENTION_H
#define QSF_ATTENTION_H

#include "context.h"

/* Norm, rotation and storing of one head of one row.  Heads 0 .. n_heads-1 are queries, then come
 * the key-value heads. */
void qsf_attention_place(const qsf_context *c, uint32_t layer, uint32_t row, uint32_t head);
/* Attention of a group of rows in one key-value head,
 * whose queries and keys have been placed: to c->b.att. */
void qsf_attention_group(const qsf_context *c, uint32_t layer, qsf_row_group g, uint32_t kv, uint32_t thread);
/* Floats of scratch that a thread needs. */
size_t qsf_attention_scratch(const qsf_hparams *hp, qsf_kv_type type);

#endif
