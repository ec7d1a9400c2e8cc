/* Sequences of a context: what their functions check.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SEQUENCE_H
#define QSF_SEQUENCE_H

#include "engine/context.h"

/* QSF_E_ARGUMENT, with a message in c->error: the sequence does not exist. */
qsf_status qsf_seq_check(qsf_context *c, qsf_seq s);
/* The two operations of a sequence, for all that it has: keys and values, state, rows that early
 * exit left.  n must be a position that qsf_state_nearest gives and qsf_kv_can_cut allows; 0 is
 * always one.
 *
 * Goes back to n positions; a batch under way is the caller's. */
void       qsf_seq_back(qsf_context *c, uint32_t s, uint32_t n);
/* dst becomes the first n positions of src. */
void       qsf_seq_copy(qsf_context *c, uint32_t dst, uint32_t src, uint32_t n);
/* Drops the batch under way: its positions are taken back. */
void       qsf_batch_drop(qsf_context *c);
/* Positions that a sequence can have. */
uint32_t   qsf_seq_end(const qsf_context *c);

#endif
