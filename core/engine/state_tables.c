/* Slots of state: which one a batch reads and writes, and which one is evicted.
 * SPDX-License-Identifier: MIT */
#include "engine/state_tables.h"

#define STATE_NONE UINT32_MAX

/* Nothing but position n, in slot 0. */
static void state_only(qsf_state_seq *q, uint32_t n)
{
    *q = (qsf_state_seq){ .every = q->every };
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) q->pos[i] = STATE_NONE;
    q->pos[0] = n;
}

uint64_t qsf_state_tables_bytes(uint32_t n_seqs) { return n_seqs * sizeof(qsf_state_seq); }

qsf_status qsf_state_tables_init(qsf_state_tables *t, const qsf_platform *p, uint32_t n_seqs, qsf_error *err)
{
    *t = (qsf_state_tables){ .platform = p, .n_seqs = n_seqs };
    if (!n_seqs) return QSF_OK;
    if (!(t->seqs = qsf_alloc_array(p, n_seqs, sizeof *t->seqs, "sequences", err))) return QSF_E_MEMORY;
    for (uint32_t s = 0; s < n_seqs; s++) state_only(&t->seqs[s], 0);
    return QSF_OK;
}

void qsf_state_tables_done(qsf_state_tables *t)
{
    if (t->seqs) qsf_dealloc(t->platform, t->seqs, qsf_state_tables_bytes(t->n_seqs));
    *t = (qsf_state_tables){ 0 };
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

void qsf_state_grow(qsf_state_tables *t, uint32_t s, uint32_t n)
{
    if (!t->n_seqs || !n) return;
    qsf_state_seq *q = &t->seqs[s];
    if (!q->rows) {
        const uint32_t length = q->pos[q->from];
        if (q->every && length - state_last_kept(q) >= q->every) q->kept[q->from] = true;
        q->to = state_victim(q);
        q->pos[q->to] = STATE_NONE;
        q->kept[q->to] = false;
    }
    q->rows += n;
}

void qsf_state_batch_done(qsf_state_tables *t)
{
    if (!t->n_seqs) return;
    for (uint32_t s = 0; s < t->n_seqs; s++) {
        qsf_state_seq *q = &t->seqs[s];
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

uint32_t qsf_state_nearest(const qsf_state_tables *t, uint32_t s, uint32_t n)
{
    uint32_t best = 0;
    if (!t->n_seqs) return n;
    for (uint32_t i = 0; i < QSF_STATE_SLOTS; i++) {
        const uint32_t pos = t->seqs[s].pos[i];
        if (pos <= n && pos != STATE_NONE) best = QSF_MAX(best, pos);
    }
    return best;
}

void qsf_state_back(qsf_state_tables *t, uint32_t s, uint32_t n)
{
    if (!t->n_seqs) return;
    qsf_state_seq *q = &t->seqs[s];
    const uint32_t slot = state_find(q, n);
    if (slot == STATE_NONE) {
        assert(n == 0);
        state_only(q, 0);
        t->copy(t->user, qsf_state_number(s, q->from), QSF_STATE_ZERO);
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

void qsf_state_share(qsf_state_tables *t, uint32_t dst, uint32_t src, uint32_t n)
{
    if (!t->n_seqs) return;
    if (dst == src) {
        qsf_state_back(t, dst, n);
        return;
    }
    const uint32_t slot = state_find(&t->seqs[src], n), to = qsf_state_load(t, dst, n);
    assert(slot != STATE_NONE || n == 0);
    t->copy(t->user, to, slot == STATE_NONE ? QSF_STATE_ZERO : qsf_state_number(src, slot));
}

void qsf_state_keep(qsf_state_tables *t, uint32_t s)
{
    if (!t->n_seqs) return;
    qsf_state_seq *q = &t->seqs[s];
    q->kept[q->from] = q->pos[q->from] > 0;
}

void qsf_state_keep_every(qsf_state_tables *t, uint32_t s, uint32_t every)
{
    if (t->n_seqs) t->seqs[s].every = every;
}

/* ---- sessions ---- */

uint32_t qsf_state_saved(const qsf_state_tables *t, uint32_t s)
{
    return qsf_state_number(s, t->seqs[s].from);
}

uint32_t qsf_state_load(qsf_state_tables *t, uint32_t s, uint32_t n)
{
    state_only(&t->seqs[s], n);
    return qsf_state_number(s, t->seqs[s].from);
}

#undef STATE_NONE
