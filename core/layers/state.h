/* State outside the KV cache: what layers keep of a sequence in a fixed number of bytes, such as
 * the sums of a recurrent mixer.  The bytes of all slots; which slot is which is the engine's
 * (engine/state_tables.h).
 * SPDX-License-Identifier: MIT */
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
    size_t   bytes;             /* of a slot; 0: no layer has state */
    uint32_t n_seqs;
    const qsf_state_seq *seqs;  /* [n_seqs] */
    uint8_t *data;              /* [n_seqs][QSF_STATE_SLOTS][bytes] */
} qsf_state;

/* The bytes of a slot that the first n layers take, of those that run: the place of
 * layer n's part. */
size_t     qsf_state_place(const qsf_source *s, float quality, uint32_t n);
/* The memory of a store with such slots. */
uint64_t   qsf_state_memory(size_t bytes, uint32_t n_seqs);
/* Slots of zeros.  seqs: the engine's; NULL if bytes is 0. */
qsf_status qsf_state_init(qsf_state *st, const qsf_platform *p, size_t bytes, const qsf_state_seq *seqs,
                          uint32_t n_seqs, qsf_error *err);
void       qsf_state_done(qsf_state *st);

/* Slots of all sequences have one numbering. */
static inline uint32_t qsf_state_number(uint32_t s, uint32_t slot) { return s * QSF_STATE_SLOTS + slot; }
static inline uint8_t *qsf_state_slot(const qsf_state *st, uint32_t number)
{
    return st->data + (size_t)number * st->bytes;
}
/* Slot `to` becomes a copy of slot `from`; QSF_STATE_ZERO: of the state at position 0. */
#define QSF_STATE_ZERO UINT32_MAX
void       qsf_state_copy(const qsf_state *st, uint32_t to, uint32_t from);

/* For mixers: the slot with the state before the row at position pos of sequence s, and the slot to
 * which it must write every byte of the layer's part of its own state.  If a batch has several rows
 * of s, the second and later ones read what the row before them wrote: both slots are the same. */
const uint8_t *qsf_state_before(const qsf_state *st, uint32_t s, uint32_t pos);
uint8_t       *qsf_state_after(const qsf_state *st, uint32_t s);

#endif
