/* Which slot of state has which position of which sequence.  The bytes are the executor's
 * (layers/state.h).
 * SPDX-License-Identifier: MIT
 *
 * Keys and values can be truncated to any length, state cannot.  So a sequence has a few slots,
 * each with the state after some position.  A batch reads the slot of the sequence's length and
 * writes another one: the state before the last batch is kept without a copy.  To go back is to
 * select an older slot.
 *
 * Position 0 needs no slot: its state is all zeros. */
#ifndef QSF_STATE_TABLES_H
#define QSF_STATE_TABLES_H

#include "layers/state.h"

typedef struct qsf_state_tables {
    const qsf_platform *platform;
    uint32_t       n_seqs;      /* 0: no layer has state, and everything below does nothing */
    qsf_state_seq *seqs;        /* [n_seqs] */
    /* Copies a slot's bytes; from QSF_STATE_ZERO: sets them to zero. */
    void         (*copy)(void *user, uint32_t to, uint32_t from);
    void          *user;
} qsf_state_tables;

uint64_t   qsf_state_tables_bytes(uint32_t n_seqs);
/* The caller sets copy and user then. */
qsf_status qsf_state_tables_init(qsf_state_tables *t, const qsf_platform *p, uint32_t n_seqs, qsf_error *err);
void       qsf_state_tables_done(qsf_state_tables *t);

/* A batch gets n more rows of sequence s. */
void qsf_state_grow(qsf_state_tables *t, uint32_t s, uint32_t n);
/* The batch is done: what its rows wrote becomes the sequence's state. */
void qsf_state_batch_done(qsf_state_tables *t);

/* The nearest position at or before n, at most the sequence's length, that it can go back to. */
uint32_t qsf_state_nearest(const qsf_state_tables *t, uint32_t s, uint32_t n);
/* Goes back to n, which is such a position; a batch under way is dropped. */
void     qsf_state_back(qsf_state_tables *t, uint32_t s, uint32_t n);
/* dst becomes src at n, which is such a position of src.  Checkpoints are not copied. */
void     qsf_state_share(qsf_state_tables *t, uint32_t dst, uint32_t src, uint32_t n);
/* Makes the sequence's length, without a batch under way, a checkpoint. */
void     qsf_state_keep(qsf_state_tables *t, uint32_t s);
/* From now on also sets a checkpoint if a batch begins `every` or more positions after the last
 * one. */
void     qsf_state_keep_every(qsf_state_tables *t, uint32_t s, uint32_t every);

/* For sessions: the number of the slot with the state at the sequence's length, without a batch
 * under way; and of the slot to fill with the state at position n. */
uint32_t qsf_state_saved(const qsf_state_tables *t, uint32_t s);
uint32_t qsf_state_load(qsf_state_tables *t, uint32_t s, uint32_t n);

#endif
