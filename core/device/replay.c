/* Positions of sequences are computed again.
 * SPDX-License-Identifier: MIT */
#include "device/replay.h"

#include "base/pieces.h"
#include "engine/sequence.h"
#include "engine/state_tables.h"
#include "model/part.h"

enum { REPLAY_PIECES = 6 };

static void replay_pieces(qsf_replay *r, qsf_piece list[REPLAY_PIECES])
{
    const uint64_t n = r->n_blocks;
    list[0] = QSF_PIECE(r->tokens, n * QSF_KV_BLOCK, "tokens");
    list[1] = QSF_PIECE(r->known, n, "tokens");
    list[2] = QSF_PIECE(r->kept, n, "tokens");
    list[3] = QSF_PIECE(r->lost, n, "tokens");
    list[4] = QSF_PIECE(r->lengths, r->c->o.n_seqs, "sequences");
    list[5] = QSF_PIECE(r->rows, qsf_rows_most(&r->c->o), "batch");
}

qsf_status qsf_replay_init(qsf_replay *r, qsf_context *c, qsf_error *err)
{
    qsf_piece list[REPLAY_PIECES];
    *r = (qsf_replay){ .c = c, .n_blocks = c->tables.n_blocks };
    replay_pieces(r, list);
    return qsf_pieces_alloc(c->platform, list, REPLAY_PIECES, err);
}

void qsf_replay_done(qsf_replay *r)
{
    qsf_piece list[REPLAY_PIECES];
    if (!r->c) return;
    replay_pieces(r, list);
    qsf_pieces_free(r->c->platform, list, REPLAY_PIECES);
    *r = (qsf_replay){ .c = NULL };
}

/* ---- what is noted ---- */

/* The block and the bit of a position. */
static uint32_t replay_place(const qsf_kv_seq *q, uint32_t pos, uint32_t *block)
{
    *block = q->blocks[qsf_kv_entry(q, pos)];
    return 1u << pos % QSF_KV_BLOCK;
}

void qsf_replay_begin(qsf_replay *r, bool embed)
{
    const qsf_batch *batch = &r->c->batch;
    r->embeds = embed;
    r->checked = r->runs;
    for (uint32_t i = 0; i < batch->n; i++) {
        const qsf_batch_row *row = &batch->rows[i];
        uint32_t block;
        const uint32_t bit = replay_place(&r->c->tables.seqs[row->seq], row->pos, &block);
        r->tokens[(size_t)block * QSF_KV_BLOCK + row->pos % QSF_KV_BLOCK] = row->token;
        r->known[block] = embed ? r->known[block] | bit : r->known[block] & ~bit;
        r->kept[block] &= ~bit;
        r->lost[block] &= ~bit;
    }
}

void qsf_replay_copy(qsf_replay *r, uint32_t to, uint32_t from)
{
    memcpy(r->tokens + (size_t)to * QSF_KV_BLOCK, r->tokens + (size_t)from * QSF_KV_BLOCK,
           QSF_KV_BLOCK * sizeof *r->tokens);
    r->known[to] = r->known[from];
    r->kept[to] = r->kept[from];
    r->lost[to] = r->lost[from];
}

void qsf_replay_kept(qsf_replay *r, uint32_t block)
{
    r->kept[block] = UINT32_MAX;
    r->lost[block] = 0;
}

/* ---- again ---- */

/* Whether positions of sequence s can be computed again: all of its predecessors are needed. */
static bool replay_possible(const qsf_replay *r, uint32_t s, uint32_t length)
{
    const qsf_context *c = r->c;
    const qsf_kv_seq *q = &c->tables.seqs[s];
    if (!qsf_kv_whole(q) || c->behind.rows || !qsf_part_begins(c->model->source)) return false;
    if (!qsf_part_ends(c->model->source) || c->executor->state_bytes) return false;
    for (uint32_t pos = 0; pos < length; pos++) {
        uint32_t block;
        const uint32_t bit = replay_place(q, pos, &block);
        if (r->lost[block] & bit & ~r->known[block]) return false;
    }
    return true;
}

/* The next positions before `length` that are lost become the batch; returns how many. */
static uint32_t replay_rows(qsf_replay *r, uint32_t s, uint32_t length, uint32_t *pos)
{
    qsf_batch *batch = &r->c->batch;
    const qsf_kv_seq *q = &r->c->tables.seqs[s];
    batch->n = batch->n_asked = 0;
    for (; *pos < length && batch->n < r->c->o.n_batch; ++*pos) {
        uint32_t block;
        const uint32_t bit = replay_place(q, *pos, &block);
        const int32_t token = r->tokens[(size_t)block * QSF_KV_BLOCK + *pos % QSF_KV_BLOCK];
        if (r->lost[block] & bit) batch->rows[batch->n++] = (qsf_batch_row){ s, *pos, token, -1 };
    }
    qsf_batch_group(batch);
    return batch->n;
}

/* The batch of those rows, whose positions exist, begins. */
static void replay_start(qsf_replay *r, uint32_t *lengths)
{
    qsf_context *c = r->c;
    c->now = (qsf_batch_state){ .active = true, .n_new = c->batch.n, .old_length = lengths,
                                .stage = { QSF_STAGE_EMBEDDING, 0 }, .begun_ns = r->begun_ns };
    c->fetch.batch++;
    c->executor->does->begin(c->executor, true);
}

/* Computes it. */
static qsf_status replay_batch(qsf_replay *r)
{
    qsf_context *c = r->c;
    bool waiting;
    qsf_status st;
    replay_start(r, r->lengths);
    do {
        st = qsf_step(c, &waiting);
        if (st == QSF_PENDING && waiting && (st = qsf_wait(c)) == QSF_OK) st = QSF_PENDING;
    } while (st == QSF_PENDING);
    return st;
}

/* A batch took its rows for computed; if it failed, they are lost again. */
static void replay_failed(qsf_replay *r, uint32_t s)
{
    for (uint32_t i = 0; i < r->c->batch.n; i++) {
        uint32_t block;
        const uint32_t bit = replay_place(&r->c->tables.seqs[s], r->c->batch.rows[i].pos, &block);
        r->lost[block] |= bit;
    }
}

static qsf_status replay_seq(qsf_replay *r, uint32_t s, uint32_t length)
{
    if (!replay_possible(r, s, length)) return QSF_OK;
    for (uint32_t pos = 0; replay_rows(r, s, length, &pos);) {
        const qsf_status st = replay_batch(r);
        if (!st) continue;
        replay_failed(r, s);
        return st;
    }
    return QSF_OK;
}

/* The batch that was under way, from its first stage on. */
static void replay_resume(qsf_replay *r, const qsf_batch_state *was, uint32_t n, uint32_t n_asked)
{
    qsf_context *c = r->c;
    c->now = *was;
    c->now.walk.n = 0;
    memcpy(c->batch.rows, r->rows, n * sizeof *r->rows);
    c->batch.n = n;
    c->batch.n_asked = n_asked;
    qsf_batch_group(&c->batch);
    if (!was->active) {         /* logits that came stay; candidates and hidden states are gone */
        c->now.n_hidden = 0;
#if !defined(QSF_NO_CANDIDATES)
        if (c->now.candidates) c->batch.n_asked = 0;
        c->now.candidates = NULL;
#endif
        return;
    }
    c->now.stage = (qsf_stage){ QSF_STAGE_EMBEDDING, 0 };
    c->fetch.batch++;
    c->executor->does->begin(c->executor, true);
}

/* The places of a block of sequence s that have positions. */
static uint32_t replay_seen(const qsf_kv_seq *q, uint32_t entry)
{
    const uint32_t left = q->length - q->places[entry] * QSF_KV_BLOCK;
    return left < QSF_KV_BLOCK ? (1u << left) - 1 : UINT32_MAX;
}

/* What the device had, and no cache has now: of blocks in use, for others begin anew. */
static void replay_lost(qsf_replay *r)
{
    memset(r->lost, 0, r->n_blocks * sizeof *r->lost);
    for (uint32_t s = 0; s < r->c->o.n_seqs; s++) {
        const qsf_kv_seq *q = &r->c->tables.seqs[s];
        for (uint32_t k = 0; k < q->n; k++)
            r->lost[q->blocks[k]] |= replay_seen(q, k) & ~r->kept[q->blocks[k]];
    }
}

qsf_status qsf_replay_run(qsf_replay *r, qsf_error *err)
{
    qsf_context *c = r->c;
    const qsf_batch_state was = c->now;
    const uint32_t n = c->batch.n, n_asked = c->batch.n_asked;
    qsf_status st = QSF_OK;
    r->fallen = true;
    r->begun_ns = was.begun_ns;
    replay_lost(r);
    if (was.active && !r->embeds)
        return qsf_fail(err, QSF_E_IO, "the GPU had the rows of this batch: compute them again");
    memcpy(r->rows, c->batch.rows, n * sizeof *r->rows);
    for (uint32_t s = 0; s < c->o.n_seqs; s++) r->lengths[s] = c->tables.seqs[s].length;
    r->runs = true;
    for (uint32_t s = 0; s < c->o.n_seqs && !st; s++)
        st = replay_seq(r, s, was.active ? was.old_length[s] : r->lengths[s]);
    r->runs = false;
    if (st == QSF_E_CANCELLED || st == QSF_E_UNSUPPORTED) {
        /* a host whose reads come between steps, which qsf_replay_check leaves it to */
        c->error = (qsf_error){ 0 };
        st = QSF_OK;
    }
    if (st && err != &c->error) *err = c->error;
    r->checked = false;
    replay_resume(r, &was, n, n_asked);
    return st;
}

/* ---- again, by steps ---- */

/* The next lost positions become the batch under way; false: none is left. */
static bool replay_next(qsf_replay *r)
{
    if (!replay_rows(r, r->seq, r->was.old_length[r->seq], &r->pos)) return false;
    replay_start(r, r->was.old_length);
    return true;
}

/* Those of sequence s come before the batch; QSF_E_IO: they cannot be computed again. */
static qsf_status replay_before(qsf_replay *r, uint32_t s)
{
    qsf_context *c = r->c;
    if (!c->now.active || !r->embeds || !replay_possible(r, s, c->now.old_length[s])) return QSF_E_IO;
    r->was = c->now;
    r->n = c->batch.n;
    r->n_asked = c->batch.n_asked;
    memcpy(r->rows, c->batch.rows, r->n * sizeof *r->rows);
    r->seq = s;
    r->pos = 0;
    r->runs = r->steps = true;
    if (replay_next(r)) return QSF_PENDING;
    qsf_replay_end(r, true);
    return QSF_E_IO;
}

void qsf_replay_end(qsf_replay *r, bool done)
{
    if (!r->steps || (done && replay_next(r))) return;
    r->runs = r->steps = false;
    if (!done) replay_failed(r, r->seq);
    if (!done) r->was.active = false, r->n_asked = 0;
    replay_resume(r, &r->was, r->n, r->n_asked);
}

qsf_status qsf_replay_check(qsf_replay *r, qsf_error *err)
{
    qsf_context *c = r->c;
    qsf_status st = QSF_OK;
    if (!r->fallen || r->checked) return QSF_OK;
    r->checked = true;
    for (uint32_t i = 0; i < c->batch.n; i++) {
        const uint32_t s = c->batch.rows[i].seq;
        const qsf_kv_seq *q = &c->tables.seqs[s];
        for (uint32_t k = 0; k < q->n; k++) {
            if (!(r->lost[q->blocks[k]] & replay_seen(q, k))) continue;
            if ((st = replay_before(r, s)) == QSF_PENDING) return st;
            c->now.old_length[s] = 0;
            st = qsf_fail(err, QSF_E_IO, "sequence %u is empty now: its keys and values were on a GPU that "
                          "failed, and cannot be computed again; feed its tokens from the first on",
                          (unsigned)s);
            break;
        }
    }
    return st;
}
