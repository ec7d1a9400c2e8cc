/* Batches that are submitted before the host has their tokens.
 * SPDX-License-Identifier: MIT */
#include "device/device_ahead.h"

#include "device/device_batch.h"
#include "device/device_life.h"

void qsf_device_ahead_drop(device_executor *e) { e->ahead.flies = false; }

/* ---- what is in flight ---- */

/* Whether nothing else changes what a list computes. */
static bool context_is_plain(const qsf_context *c)
{
    return !c->o.kv_window && !c->lora.n_used && !c->now.hidden && !c->behind.rows;
}

static bool batch_is_next(const device_executor *e)
{
    const qsf_device_ahead *a = &e->ahead;
    const qsf_batch *batch = &e->c->batch;
    if (batch->n != a->n || batch->n_asked != a->n || !context_is_plain(e->c)) return false;
    for (uint32_t r = 0; r < a->n; r++) {
        const qsf_batch_row *row = &batch->rows[r];
        const qsf_kv_seq *q = &e->c->tables.seqs[row->seq];
        const uint32_t *place = a->place[r];
        if (row->seq != a->seq[r] || row->token != a->token[r] || row->logits != (int32_t)r) return false;
        if (row->pos != place[0] || q->n != place[2] || q->blocks[qsf_kv_entry(q, row->pos)] != place[3])
            return false;
    }
    return true;
}

bool qsf_device_ahead_begin(device_executor *e, bool embed)
{
    qsf_device_ahead *a = &e->ahead;
    a->ran = a->flies && embed && batch_is_next(e);
    a->again = a->again && a->ran;
    a->flies = a->kept = a->wary = false;
    a->n_taken += a->ran;
    return a->ran;
}

void qsf_device_ahead_note(device_executor *e, const uint32_t *place)
{
    qsf_device_ahead *a = &e->ahead;
    const qsf_batch *batch = &e->c->batch;
    a->n = batch->n <= QSF_DEVICE_KEPT_ROWS ? batch->n : 0;
    memcpy(a->place, place, a->n * sizeof *a->place);
    for (uint32_t r = 0; r < a->n; r++) a->seq[r] = batch->rows[r].seq;
}

/* ---- the choice ---- */

static const qsf_choice *choice_of(const qsf_context *c, uint32_t seq)
{
    for (uint32_t i = 0; i < c->now.n_choices; i++)
        if (c->choices[i].seq == seq) return &c->choices[i];
    return NULL;
}

/* The rules of all rows, for the batch under way or for the next one.  That has one more of the
 * last tokens, which only the device knows: the row's own. */
static qsf_status write_rules(device_executor *e, bool next, qsf_error *err)
{
    qsf_wgsl_rule rules[QSF_DEVICE_KEPT_ROWS];
    const qsf_batch *batch = &e->c->batch;
    qsf_status st = QSF_OK;
    for (uint32_t r = 0; r < batch->n && !st; r++) {
        const qsf_choice *x = choice_of(e->c, batch->rows[r].seq);
        const bool newest = next && x->window;
        rules[r] = (qsf_wgsl_rule){ .last_at = r * QSF_CHOICE_LAST, .newest = newest,
                                    .n_last = QSF_MIN(x->n_last, x->window - newest), .repeat = x->repeat,
                                    .frequency = x->frequency, .presence = x->presence, .top_k = x->top_k,
                                    .scale = x->scale, .top_p = x->top_p, .min_p = x->min_p,
                                    .draw = x->draw[next] };
        st = qsf_device_candidates_last(&e->candidates, &e->b, r, x->last, rules[r].n_last, err);
    }
    return st ? st : qsf_device_candidates_rules(&e->candidates, &e->b, rules, batch->n, err);
}

/* Whether each row is the last one of a sequence of its own, whose next token will be chosen by
 * rules, and all of the model is on the device. */
static bool batch_goes_on(const device_executor *e)
{
    const qsf_context *c = e->c;
    const qsf_batch *batch = &c->batch;
    if (e->ahead.off || e->ahead.wary || !e->candidates.chooses || !(e->embeds || e->ahead.ran)) return false;
    if (batch->n != batch->n_asked || batch->n > e->candidates.rows || !context_is_plain(c)) return false;
    for (uint32_t r = 0; r < batch->n; r++) {
        const qsf_batch_row *row = &batch->rows[r];
        if (row->pos + 1 != c->tables.seqs[row->seq].length || !choice_of(c, row->seq)) return false;
    }
    return true;
}

qsf_status qsf_device_ahead_choose(device_executor *e, bool *choose, qsf_error *err)
{
    *choose = batch_goes_on(e);
    e->ahead.again = *choose;
    return *choose ? write_rules(e, false, err) : QSF_OK;
}

/* ---- the next batch ---- */

/* Whether the rows' next positions are in the same blocks. */
static bool blocks_go_on(const device_executor *e)
{
    const qsf_context *c = e->c;
    for (uint32_t r = 0; r < c->batch.n; r++) {
        const uint32_t pos = c->batch.rows[r].pos + 1;
        if (pos % QSF_KV_BLOCK == 0 || pos >= c->o.n_ctx) return false;
    }
    return true;
}

/* Positions and angles that are one further. */
static qsf_status next_places(device_executor *e, qsf_error *err)
{
    qsf_device_ahead *a = &e->ahead;
    const qsf_context *c = e->c;
    for (uint32_t r = 0; r < a->n; r++) {
        a->place[r][0]++;
        for (uint32_t i = 0; i < c->model->source->n_ropes; i++) {
            const qsf_rope *t = &c->ropes[i];
            const size_t at = (size_t)r * t->half;
            qsf_rope_angles(t, a->place[r][0], t->cos + at, t->sin + at);
        }
    }
    const qsf_status st = qsf_device_angles_write(e, a->n, err);
    return st ? st : e->d->write(e->d->user, e->b.of[QSF_DEVICE_PLACE], 0, a->place, a->n * sizeof *a->place,
                                 err);
}

/* What the next batch overwrites: all logits, if the host has not begun to read them; else the
 * chosen tokens. */
static qsf_status keep_results(device_executor *e, qsf_error *err)
{
    qsf_device_ahead *a = &e->ahead;
    const qsf_device *d = e->d;
    if (QSF_WGSL_BARE(e->candidates.bare))
        return d->read_start(d->user, e->b.of[QSF_DEVICE_IDS], 0, a->token, a->n * sizeof *a->token, &a->read,
                             err);
    const uint64_t bytes = (uint64_t)a->n * e->b.head_ld * sizeof(float);
    a->kept = true;
    return d->copy(d->user, a->logits, 0, e->b.of[QSF_DEVICE_LOGITS], 0, bytes, err);
}

qsf_status qsf_device_ahead_submit(device_executor *e, qsf_error *err)
{
    enum { FIRST = 40 };                /* dispatches with which the device begins, as in a batch */
    qsf_device_ahead *a = &e->ahead;
    const qsf_device *d = e->d;
    if (!a->again || !batch_goes_on(e) || !blocks_go_on(e)) return QSF_OK;
    const size_t first = QSF_MIN(e->n_list, FIRST);
    qsf_status st = keep_results(e, err);
    if (!st) st = next_places(e, err);
    if (!st) st = write_rules(e, true, err);
    if (!st) st = d->submit(d->user, e->list, first, err);
    if (!st) st = d->submit(d->user, e->list + first, e->n_list - first, err);
    a->flies = !st;
    a->kept &= !st;
    a->n_flown += !st;
    return st;
}

qsf_status qsf_device_ahead_tokens(device_executor *e, qsf_error *err)
{
    if (!e->ahead.read) return QSF_OK;
    const qsf_status st = e->d->poll(e->d->user, e->ahead.read, err);
    if (st != QSF_PENDING) e->ahead.read = 0;
    return st;
}

qsf_status qsf_device_ahead_repeat(device_executor *e)
{
    e->c->now.stage = (qsf_stage){ QSF_STAGE_EMBEDDING, 0 };
    e->c->fetch.batch++;
    qsf_device_ahead_drop(e);
    e->base.does->begin(&e->base, true);
    e->ahead.wary = true;
    return QSF_PENDING;
}
