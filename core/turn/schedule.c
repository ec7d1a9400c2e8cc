/* Schedules: the sequences of a context, which of them is in use, and which one goes when another
 * needs its blocks.
 * SPDX-License-Identifier: MIT */
#include "base/host.h"
#include "base/sized.h"
#include "engine/context.h"
#include "engine/sequence.h"
#include "model/model.h"
#include "turn/schedule_own.h"

qsf_status qsf_schedule_new(qsf_context *c, const qsf_schedule_options *o, qsf_schedule **out, qsf_error *err)
{
    qsf_schedule_options own = { .size = sizeof own };
    *out = NULL;
    const qsf_status st = QSF_TAKE(&own, o, qsf_schedule_options, err);
    if (st) return st;
    const qsf_platform *p = c->model->platform;
    qsf_schedule *s = qsf_alloc(p, sizeof *s, "schedule", err);
    if (!s) return QSF_E_MEMORY;
    *s = (qsf_schedule){ .platform = p, .context = c, .n_seqs = own.n_seqs, .window = c->o.kv_window,
                         .n_batch = c->o.n_batch, .n_logits = own.n_logits, .step_rows = own.step_rows,
                         .most_draft = own.draft };
    if (!(s->seqs = qsf_alloc_array(p, own.n_seqs, sizeof *s->seqs, "schedule", err))) {
        qsf_schedule_free(s);
        return QSF_E_MEMORY;
    }
    (void)qsf_schedule_count(s);
    *out = s;
    return QSF_OK;
}

void qsf_schedule_free(qsf_schedule *s)
{
    if (!s) return;
    qsf_dealloc(s->platform, s->seqs, s->n_seqs * sizeof *s->seqs);
    qsf_dealloc(s->platform, s, sizeof *s);
}

/* ---- blocks ---- */

uint32_t qsf_schedule_count(qsf_schedule *s)
{
    qsf_kv_usage u = { .size = sizeof u };
    (void)qsf_context_get_kv_usage(s->context, &u);
    s->block = u.block;
    return s->n_free = u.n_free;
}

/* Rows that the last block of a sequence still takes; below 0: it is shared, and copied first. */
static int64_t seq_slack(const qsf_schedule *s, qsf_seq q)
{
    const uint32_t used = qsf_seq_length(s->context, q) % s->block;
    const int64_t room = qsf_seq_room(s->context, q), all = (int64_t)s->n_free * s->block;
    if (!used) return 0;
    return room > all ? (int64_t)(s->block - used) : -(int64_t)used;
}

uint32_t qsf_schedule_blocks(const qsf_schedule *s, qsf_seq q, uint32_t rows)
{
    const int64_t more = (int64_t)rows - seq_slack(s, q);
    if (s->window || !rows || more <= 0) return 0;
    return (uint32_t)((more + s->block - 1) / s->block);
}

uint32_t qsf_schedule_fit(const qsf_schedule *s, qsf_seq q, uint32_t blocks)
{
    const uint32_t length = qsf_seq_length(s->context, q), end = qsf_seq_end(s->context);
    const int64_t rows = seq_slack(s, q) + (int64_t)blocks * s->block, left = (int64_t)end - length;
    if (s->window) return UINT32_MAX;
    return rows > 0 && left > 0 ? (uint32_t)QSF_MIN(rows, left) : 0;
}

/* ---- sequences ---- */

const qsf_seq_state *qsf_schedule_seq(const qsf_schedule *s, qsf_seq q) { return &s->seqs[q]; }

void qsf_schedule_use(qsf_schedule *s, qsf_seq q, qsf_seq_use use, uint64_t held_ns)
{
    s->seqs[q] = (qsf_seq_state){ .use = use, .used = use ? ++s->uses : 0, .held_ns = held_ns };
}

void qsf_schedule_hold(qsf_schedule *s, qsf_seq q, uint64_t held_ns) { s->seqs[q].held_ns = held_ns; }

qsf_seq qsf_schedule_oldest(const qsf_schedule *s, qsf_seq but, uint64_t now_ns)
{
    qsf_seq best = -1;
    bool best_held = true;
    for (uint32_t i = 0; i < s->n_seqs; i++) {
        const qsf_seq_state *q = &s->seqs[i];
        const bool held = q->held_ns > now_ns;
        if (q->use != QSF_SEQ_KEPT || (qsf_seq)i == but) continue;
        if (best >= 0 && (held != best_held ? held : q->used >= s->seqs[best].used)) continue;
        best = (qsf_seq)i;
        best_held = held;
    }
    return best;
}

qsf_seq qsf_schedule_unused(const qsf_schedule *s)
{
    for (uint32_t i = 0; i < s->n_seqs; i++) if (s->seqs[i].use == QSF_SEQ_FREE) return (qsf_seq)i;
    return -1;
}

uint64_t qsf_choice_seed(uint64_t seed, uint64_t choice)
{
    const uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15u + choice;
    return mixed ? mixed : 1;           /* 0 would be a new one each time */
}
