/* Slots of state: which one a batch reads and writes, and which one is evicted.
 * SPDX-License-Identifier: MIT */
#include "layers/state.h"
#include "weights/layers.h"

enum { STATE_ALIGN = 64 };      /* of a layer's part */
#define STATE_NONE UINT32_MAX

size_t qsf_state_place(const qsf_source *s, float quality, uint32_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bytes = s->layers[i].state_bytes;
        if (bytes && qsf_layer_runs(s, quality, i)) at += (size_t)qsf_round_up(bytes, STATE_ALIGN);
    }
    return at;
}

static uint8_t *state_slot(const qsf_state *st, uint32_t s, uint32_t slot)
{
    return st->data + ((size_t)s * QSF_STATE_SLOTS + slot) * st->bytes;
}

static uint64_t state_data_bytes(size_t bytes, uint32_t n_seqs)
{
    return (uint64_t)n_seqs * QSF_STATE_SLOTS * bytes;
}

uint64_t qsf_state_memory(size_t bytes, uint32_t n_seqs)
{
    return bytes ? state_data_bytes(bytes, n_seqs) + n_seqs * sizeof(qsf_state_seq) : 0;
}

/* Nothing but position n, in slot 0. */
static void state_only(qsf_state_seq *q, uint32_t n)
{
    *q = (qsf_state_seq){ .every = q->every };
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) q->pos[i] = STATE_NONE;
    q->pos[0] = n;
}

qsf_status qsf_state_init(qsf_state *st, const qsf_platform *p, size_t bytes, uint32_t n_seqs, qsf_error *err)
{
    *st = (qsf_state){ .platform = p, .bytes = bytes, .n_seqs = n_seqs };
    if (!bytes) return QSF_OK;
    if (!(st->seqs = qsf_alloc_array(p, n_seqs, sizeof *st->seqs, "sequences", err))) return QSF_E_MEMORY;
    if (!(st->data = qsf_alloc(p, state_data_bytes(bytes, n_seqs), "state", err))) return QSF_E_MEMORY;
    for (uint32_t s = 0; s < n_seqs; s++) state_only(&st->seqs[s], 0);
    return QSF_OK;
}

void qsf_state_done(qsf_state *st)
{
    if (!st->bytes) return;
    qsf_dealloc(st->platform, st->data, state_data_bytes(st->bytes, st->n_seqs));
    qsf_dealloc(st->platform, st->seqs, st->n_seqs * sizeof *st->seqs);
    *st = (qsf_state){ 0 };
}

/* ---- batches ---- */

/* The position of the last checkpoint; 0, which serves as one, if none was set. */
static uint32_t state_last_kept(const qsf_state_seq *q)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++)
        if (q->kept[i]) last = QSF_MAX(last, q->pos[i]);
    return last;
}

/* The slot to write: an empty one, else where an earlier batch began, else the first checkpoint. */
static uint32_t state_victim(const qsf_state_seq *q)
{
    uint32_t best = STATE_NONE;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) {
        const uint64_t worth = q->pos[i] == STATE_NONE ? 0 : q->pos[i] + ((uint64_t)q->kept[i] << 32);
        if (i == q->from || worth >= least) continue;
        best = i;
        least = worth;
    }
    return best;
}

void qsf_state_grow(qsf_state *st, uint32_t s, uint32_t n)
{
    if (!st->bytes || !n) return;
    qsf_state_seq *q = &st->seqs[s];
    if (!q->rows) {
        const uint32_t length = q->pos[q->from];
        if (q->every && length - state_last_kept(q) >= q->every) q->kept[q->from] = true;
        q->to = state_victim(q);
        q->pos[q->to] = STATE_NONE;
        q->kept[q->to] = false;
    }
    q->rows += n;
}

void qsf_state_batch_done(qsf_state *st)
{
    if (!st->bytes) return;
    for (uint32_t s = 0; s < st->n_seqs; s++) {
        qsf_state_seq *q = &st->seqs[s];
        if (!q->rows) continue;
        q->pos[q->to] = q->pos[q->from] + q->rows;
        q->from = q->to;
        q->rows = 0;
    }
}

/* ---- going back and copying ---- */

/* The slot with the state at a position; STATE_NONE: not found. */
static uint32_t state_find(const qsf_state_seq *q, uint32_t n)
{
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++)
        if (q->pos[i] == n) return i;
    return STATE_NONE;
}

uint32_t qsf_state_nearest(const qsf_state *st, uint32_t s, uint32_t n)
{
    uint32_t best = 0;
    if (!st->bytes) return n;
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) {
        const uint32_t pos = st->seqs[s].pos[i];
        if (pos <= n && pos != STATE_NONE) best = QSF_MAX(best, pos);
    }
    return best;
}

void qsf_state_back(qsf_state *st, uint32_t s, uint32_t n)
{
    if (!st->bytes) return;
    qsf_state_seq *q = &st->seqs[s];
    const uint32_t slot = state_find(q, n);
    if (slot == STATE_NONE) {
        assert(n == 0);
        state_only(q, 0);
        memset(state_slot(st, s, q->from), 0, st->bytes);
        return;
    }
    q->from = q->to = slot;
    q->rows = 0;
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) {
        if (q->pos[i] <= n) continue;
        q->pos[i] = STATE_NONE;
        q->kept[i] = false;
    }
}

void qsf_state_copy(qsf_state *st, uint32_t dst, uint32_t src, uint32_t n)
{
    if (!st->bytes) return;
    if (dst == src) {
        qsf_state_back(st, dst, n);
        return;
    }
    const uint32_t slot = state_find(&st->seqs[src], n);
    uint8_t *to = qsf_state_load(st, dst, n);
    assert(slot != STATE_NONE || n == 0);
    if (slot == STATE_NONE) memset(to, 0, st->bytes);
    else memcpy(to, state_slot(st, src, slot), st->bytes);
}

void qsf_state_keep(qsf_state *st, uint32_t s)
{
    if (!st->bytes) return;
    qsf_state_seq *q = &st->seqs[s];
    q->kept[q->from] = q->pos[q->from] > 0;
}

void qsf_state_keep_every(qsf_state *st, uint32_t s, uint32_t every)
{
    if (st->bytes) st->seqs[s].every = every;
}

/* ---- for mixers ---- */

const uint8_t *qsf_state_before(const qsf_state *st, uint32_t s, uint32_t pos)
{
    const qsf_state_seq *q = &st->seqs[s];
    return state_slot(st, s, q->pos[q->from] == pos ? q->from : q->to);
}

uint8_t *qsf_state_after(const qsf_state *st, uint32_t s) { return state_slot(st, s, st->seqs[s].to); }

/* ---- sessions ---- */

const uint8_t *qsf_state_saved(const qsf_state *st, uint32_t s)
{
    return state_slot(st, s, st->seqs[s].from);
}

uint8_t *qsf_state_load(qsf_state *st, uint32_t s, uint32_t n)
{
    state_only(&st->seqs[s], n);
    return state_slot(st, s, st->seqs[s].from);
}

#undef STATE_NONE
