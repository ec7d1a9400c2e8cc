/* A context's sequences: their lengths, going back and sharing.
 * SPDX-License-Identifier: MIT */
#include "engine/sequence.h"
#include "base/sized.h"

qsf_status qsf_seq_check(qsf_context *c, qsf_seq s)
{
    if (s >= 0 && (uint32_t)s < c->o.n_seqs) return QSF_OK;
    return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequence %d; the context has %u", (int)s,
                    (unsigned)c->o.n_seqs);
}

/* Changes n to the nearest position at or before it that sequence s can go back to. */
static qsf_status seq_reach(qsf_context *c, qsf_seq s, uint32_t *nearest)
{
    const qsf_kv_seq *q = &c->tables.seqs[s];
    if (*nearest <= q->length) *nearest = qsf_state_nearest(&c->state, (uint32_t)s, *nearest);
    const uint32_t n = *nearest;
    if (qsf_kv_can_cut(&c->tables, (uint32_t)s, n)) return QSF_OK;
    if (n > q->length)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequence %d has %u positions, not %u", (int)s,
                        (unsigned)q->length, (unsigned)n);
    return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequence %d of %u positions cannot be truncated to %u: the "
                    "window has dropped positions that are needed there (%u is possible, or 0)",
                    (int)s, (unsigned)q->length,
                    (unsigned)n, (unsigned)q->safe);
}

void qsf_seq_back(qsf_context *c, uint32_t s, uint32_t n)
{
    const bool shorter = n < c->tables.seqs[s].length;
    if (c->behind.rows && shorter) c->behind.use.back(c->behind.use.user, (qsf_seq)s, n);
    qsf_kv_truncate(&c->tables, s, n);
    qsf_state_back(&c->state, s, n);
    qsf_exit_truncate(&c->early_exit, s, n);
    if (shorter && c->follower.seen) c->follower.back(c->follower.user, s, n);
}

void qsf_seq_copy(qsf_context *c, uint32_t dst, uint32_t src, uint32_t n)
{
    if (c->behind.rows) c->behind.use.share(c->behind.use.user, (qsf_seq)dst, (qsf_seq)src, n);
    qsf_kv_share(&c->tables, dst, src, n);
    qsf_state_share(&c->state, dst, src, n);
    qsf_exit_truncate(&c->early_exit, dst, dst == src ? n : 0);
    if (c->follower.seen) c->follower.copy(c->follower.user, dst, src, n);
}

void qsf_batch_drop(qsf_context *c)
{
    qsf_batch_state *b = &c->now;
    if (!b->active) return;
    for (uint32_t s = 0; s < c->o.n_seqs; s++) qsf_seq_back(c, s, b->old_length[s]);
    b->active = false;
    b->n_hidden = b->n_states = 0;
    b->walk.n = 0;
    c->batch.n_asked = 0;
    qsf_exit_drop(&c->early_exit);
    c->executor->does->end(c->executor, c->tables.seqs, false);
}

uint32_t qsf_seq_length(const qsf_context *c, qsf_seq s)
{
    return s >= 0 && (uint32_t)s < c->o.n_seqs
        ? (c->now.active ? c->now.old_length[s] : c->tables.seqs[s].length) : 0;
}

/* With a window no token has to be the last, but a position must stay a number that rotation can
 * tell from its neighbours. */
uint32_t qsf_seq_end(const qsf_context *c)
{
    return c->o.kv_window && !c->hp->learned_pos ? 1u << 24 : c->o.n_ctx;
}

uint32_t qsf_seq_room(const qsf_context *c, qsf_seq s)
{
    if (s < 0 || (uint32_t)s >= c->o.n_seqs) return 0;
    const uint32_t length = c->tables.seqs[s].length, end = qsf_seq_end(c),
        room = length < end ? end - length : 0;
    /* A window makes its own room. */
    return c->o.kv_window ? room : QSF_MIN(room, qsf_kv_room(&c->tables, (uint32_t)s));
}

qsf_status qsf_context_get_kv_usage(const qsf_context *c, qsf_kv_usage *out)
{
    const qsf_kv_tables *kv = &c->tables;
    qsf_kv_usage u = { .block = QSF_KV_BLOCK, .n_blocks = kv->n_blocks, .n_free = kv->n_free };
    for (uint32_t s = 0; s < kv->n_seqs; s++) {
        u.n_listed += kv->seqs[s].n;
        u.positions += kv->seqs[s].length;
    }
    return QSF_GIVE(out, &u, NULL);
}

qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n)
{
    qsf_status st = qsf_seq_check(c, s);
    if (st) return st;
    qsf_batch_drop(c);
    if ((st = seq_reach(c, s, &n))) return st;
    qsf_seq_back(c, (uint32_t)s, n);
    return QSF_OK;
}

qsf_status qsf_seq_share(qsf_context *c, qsf_seq dst, qsf_seq src, uint32_t n)
{
    qsf_status st;
    if ((st = qsf_seq_check(c, dst)) || (st = qsf_seq_check(c, src))) return st;
    qsf_batch_drop(c);
    if (n && !qsf_lora_same(&c->lora, (uint32_t)dst, (uint32_t)src))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequences %d and %d have different adapters", (int)dst,
                        (int)src);
    if ((st = seq_reach(c, src, &n))) return st;
    if ((st = qsf_exit_check(&c->early_exit, (uint32_t)src, n, &c->error))) return st;
    qsf_seq_copy(c, (uint32_t)dst, (uint32_t)src, n);
    return QSF_OK;
}

qsf_status qsf_seq_checkpoint(qsf_context *c, qsf_seq s)
{
    const qsf_status st = qsf_seq_check(c, s);
    if (!st) qsf_state_keep(&c->state, (uint32_t)s);
    return st;
}

qsf_status qsf_seq_checkpoint_every(qsf_context *c, qsf_seq s, uint32_t n)
{
    const qsf_status st = qsf_seq_check(c, s);
    if (!st) qsf_state_keep_every(&c->state, (uint32_t)s, n);
    return st;
}
