/* Commands that are encoded before their batch begins.
 * SPDX-License-Identifier: MIT */
#include "device/device_ready.h"

#include "device/device_adapt.h"
#include "device/device_batch.h"
#include "device/device_life.h"

enum { READY_ROWS = 16 };       /* the GPU's time of larger batches hides that of listing */

/* Whether the rows' next positions are in the same blocks: chunks of attention depend on them. */
static bool ready_blocks(const device_executor *e)
{
    const qsf_batch *batch = &e->c->batch;
    for (uint32_t r = 0; r < batch->n; r++)
        if ((batch->rows[r].pos + 1) % QSF_KV_BLOCK == 0) return false;
    return true;
}

qsf_status qsf_device_ready_make(device_executor *e, qsf_error *err)
{
    qsf_device_ready *x = &e->ready;
    const qsf_device *d = e->d;
    if (d->size < sizeof *d || !d->encode || x->off) return QSF_OK;
    if (x->commands || !x->whole || !e->all_ready) return QSF_OK;
    if (e->ahead.flies || e->batch.loras || e->batch.n > READY_ROWS || !ready_blocks(e)) return QSF_OK;
    x->batch = e->batch;
    x->n_list = e->n_list;
    x->n_head = e->head.n;
    x->embeds = e->embeds;
    const qsf_status st = d->encode(d->user, e->list, e->n_list, &x->commands, err);
    x->n_made += !st;
    return st;
}

static bool ready_fits(const device_executor *e, bool hidden, bool few)
{
    const qsf_device_ready *x = &e->ready;
    const qsf_batch *batch = &e->c->batch;
    if (!x->commands || hidden || e->embeds != x->embeds || few != x->few) return false;
    if (batch->n != x->batch.n || batch->n_asked != batch->n || x->n_head != batch->n) return false;
    if (e->head.first || e->head.n != batch->n || e->batch.loras || qsf_device_adapters_head(e)) return false;
    return e->batch.chunks == x->batch.chunks && e->batch.blocks == x->batch.blocks
        && e->batch.groups == x->batch.groups;
}

qsf_status qsf_device_ready_take(device_executor *e, bool hidden, bool few, qsf_error *err)
{
    qsf_device_ready *x = &e->ready;
    bool choose = false;
    if (!x->commands) return QSF_OK;
    bool fits = ready_fits(e, hidden, few);
    const bool chooses = few || QSF_WGSL_BARE(e->candidates.bare);
    qsf_status st = fits && chooses ? qsf_device_ahead_choose(e, &choose, err) : QSF_OK;
    if (st) return st;
    fits = fits && (x->chooses || !choose);
    if (!fits) {
        qsf_device_ready_drop(e);
        return QSF_OK;
    }
    st = qsf_device_batch_numbers(e, err);
    if (!st) st = e->d->submit_encoded(e->d->user, x->commands, err);
    if (st) return st;
    x->commands = 0;
    e->n_list = e->n_sent = x->n_list;
    e->first_asked = 0;
    x->ran = x->whole = true;
    x->n_taken++;
    return QSF_OK;
}
