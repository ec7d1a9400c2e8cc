/* State outside the KV cache: what layers keep of a sequence in a fixed number of bytes, such as
 * the sums of a recurrent mixer.
 * SPDX-License-Identifier: MIT
 *
 * Keys and values can be truncated to any length, state cannot.  So a sequence has a few slots,
 * each with the state after some position.  A batch reads the slot of the sequence's length and
 * writes another one: the state before the last batch is kept without a copy.  To go back is to
 * select an older slot.
 *
 * Position 0 needs no slot: its state is all zeros. */
#ifndef QSF_STATE_H
#define QSF_STATE_H

#include "base/host.h"
#include "model/source.h"

/* Of a sequence: the slots for its length, for the beginning of its last batch, and for two
 * checkpoints. */
enum { QSF_STATE_SLOTS = 4 };

typedef struct qsf_state_seq {
    uint32_t pos[QSF_STATE_SLOTS];      /* of the state in each slot, UINT32_MAX: none */
    bool     kept[QSF_STATE_SLOTS];     /* a checkpoint */
    uint32_t from, to;          /* slots that a batch reads and writes; equal if none is under way */
    uint32_t rows;              /* of the batch under way */
    uint32_t every;             /* positions from one checkpoint to the next, 0: none but those asked for */
} qsf_state_seq;

typedef struct qsf_state {
    const qsf_platform *platform;
    size_t   bytes;             /* of a slot; 0: no layer has state, and everything below does nothing */
    uint32_t n_seqs;
    qsf_state_seq *seqs;        /* [n_seqs] */
    uint8_t *data;              /* [n_seqs][QSF_STATE_SLOTS][bytes] */
} qsf_state;

/* The bytes of a slot that the first n layers take, of those that run: the place of
 * layer n's part. */
size_t     qsf_state_place(const qsf_source *s, float quality, uint32_t n);
/* The memory of a store with such slots. */
uint64_t   qsf_state_memory(size_t bytes, uint32_t n_seqs);
qsf_status qsf_state_init(qsf_state *st, const qsf_platform *p, size_t bytes, uint32_t n_seqs,
                          qsf_error *err);
void       qsf_state_done(qsf_state *st);

/* A batch gets n more rows of sequence s. */
void qsf_state_grow(qsf_state *st, uint32_t s, uint32_t n);
/* The batch is done: what its rows wrote becomes the sequence's state. */
void qsf_state_batch_done(qsf_state *st);

/* For mixers: the slot with the state before the row at position pos of sequence s, and the slot to
 * which it must write every byte of the layer's part of its own state.  If a batch has several rows
 * of s, the second and later ones read what the row before them wrote: both slots are the same. */
const uint8_t *qsf_state_before(const qsf_state *st, uint32_t s, uint32_t pos);
uint8_t       *qsf_state_after(const qsf_state *st, uint32_t s);

/* The nearest position at or before n, at most the sequence's length, that it can go back to. */
uint32_t qsf_state_nearest(const qsf_state *st, uint32_t s, uint32_t n);
/* Goes back to n, which is such a position; a batch under way is dropped. */
void     qsf_state_back(qsf_state *st, uint32_t s, uint32_t n);
/* dst becomes src at n, which is such a position of src.  Checkpoints are not copied. */
void     qsf_state_copy(qsf_state *st, uint32_t dst, uint32_t src, uint32_t n);
/* Makes the sequence's length, without a batch under way, a checkpoint. */
void     qsf_state_keep(qsf_state *st, uint32_t s);
/* From now on also sets a checkpoint if a batch begins `every` or more positions after the last
 * one. */
void     qsf_state_keep_every(qsf_state *st, uint32_t s, uint32_t every);

/* For sessions: the state at the sequence's length, without a batch under way; and the slot to fill
 * with the state at position n. */
const uint8_t *qsf_state_saved(const qsf_state *st, uint32_t s);
uint8_t       *qsf_state_load(qsf_state *st, uint32_t s, uint32_t n);

#endif
