/* What was made on a device: whether it is there, and its end.
 * SPDX-License-Identifier: MIT */
#include "device/device_life.h"

void qsf_device_forget(device_executor *e)
{
    if (e->d) e->d->release(e->d->user, e->read);
    if (e->d) e->d->release(e->d->user, e->ahead.read);
    e->read = e->ahead.read = 0;
}

void qsf_device_ready_drop(device_executor *e)
{
    if (e->d) e->d->release(e->d->user, e->ready.commands);
    e->ready.commands = 0;
}

/* All that is on the device, and the device. */
static void device_release(device_executor *e)
{
    const qsf_platform *p = e->c->platform;
    const uint64_t n = e->end - e->first;
    qsf_device_forget(e);
    qsf_device_stream_done(e);
    qsf_device_ready_drop(e);
    qsf_device_head_done(&e->head, &e->b);
    qsf_device_embedding_done(&e->embedding, &e->b);
    if (e->candidates.rows) qsf_device_candidates_done(&e->candidates, &e->b);
    if (e->d) e->d->release(e->d->user, e->ahead.logits);
    if (e->b.d) qsf_device_loras_done(&e->b, &e->loras);
    for (uint32_t i = 0; e->layers && e->b.d && i < n; i++) qsf_device_layer_done(&e->b, &e->layers[i]);
    if (e->layers) qsf_dealloc(p, e->layers, n * sizeof *e->layers);
    if (e->there) qsf_dealloc(p, e->there, e->c->hp->n_layers);
    e->c->choices = NULL;
    e->c->now.n_choices = 0;
    e->c->fetch.elsewhere = NULL;
    e->c->head_stream.elsewhere = false;
    e->c->embedding.end = 0;
    if (e->list) qsf_dealloc(p, e->list, e->n_room * sizeof *e->list);
    if (e->rows) qsf_dealloc(p, e->rows, (uint64_t)e->b.rows * e->b.ld * sizeof *e->rows);
    if (e->words) qsf_dealloc(p, e->words, e->n_words * sizeof *e->words);
    qsf_self_test_free(e->b.test);
    qsf_device_buffers_done(&e->b);
    if (e->d) e->d->close(e->d->user);
    *e = (device_executor){ .base = e->base, .cpu = e->cpu, .cpu_does = e->cpu_does, .c = e->c,
                            .choice = e->choice, .replay = e->replay };
}

void qsf_device_executor_free(device_executor *e)
{
    const qsf_platform *p = e->c->platform;
    device_release(e);
    qsf_replay_done(&e->replay);
    qsf_dealloc(p, e, sizeof *e);
}

qsf_status qsf_device_flush(device_executor *e, qsf_error *err)
{
    const qsf_device_id to = e->mapped;
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    uint8_t *own;
    if (!to) return QSF_OK;
    e->mapped = 0;
    const qsf_status st = e->cpu_does->kv_map(e->cpu, e->mapped_layer, e->mapped_block, true, &own, err);
    if (st) return st;
    memcpy(own, e->words, n);
    return e->d->write(e->d->user, to, e->mapped_at, e->words, n, err);
}

qsf_status qsf_device_verdict(device_executor *e, qsf_error *err)
{
    qsf_status st = e->unchecked ? qsf_device_buffers_there(&e->b, err) : QSF_OK;
    for (uint32_t i = 0; e->unchecked && i < e->end - e->first && !st; i++)
        st = qsf_device_layer_there(&e->b, &e->layers[i], err);
    if (e->unchecked && !st) st = qsf_device_stream_there(e, err);
    if (e->unchecked && !st) st = qsf_device_layer_there(&e->b, &e->head.steps, err);
    if (e->unchecked && !st) st = qsf_device_layer_there(&e->b, &e->embedding.steps, err);
    for (uint32_t i = 0; e->unchecked && i < e->loras.n && !st; i++)
        st = qsf_device_lora_there(&e->b, e->loras.list[i], err);
    if (e->unchecked && !st) st = qsf_device_candidates_there(&e->candidates, &e->b, err);
    if (e->unchecked && !st) st = qsf_device_buffer_there(&e->b, e->ahead.logits, err);
    if (st == QSF_PENDING) return QSF_OK;               /* a host that must not block: the next time */
    if (!st) st = e->d->state(e->d->user, err);
    e->unchecked = st != QSF_OK;
    return st;
}

qsf_status qsf_device_fall(device_executor *e, qsf_error *err)
{
    qsf_error why = *err, ignored;
    (void)qsf_device_flush(e, &ignored);
    qsf_log(e->c->model, QSF_LOG_WARN, "%s: %.300s; layers %u to %u continue on the CPU", e->d->info->name,
            why.text, (unsigned)e->first, (unsigned)e->end - 1);
    qsf_format(e->choice.left, sizeof e->choice.left, "the GPU failed: %.120s", why.text);
    device_release(e);
    *err = (qsf_error){ 0 };
    return qsf_replay_run(&e->replay, err);
}

qsf_status qsf_device_tested(device_executor *e, qsf_error *err)
{
    if (!e->b.test) return QSF_OK;
    const qsf_status st = qsf_self_test_run(e->b.test, qsf_device_waits(e->d), err);
    if (st) return st;
    qsf_self_test_free(e->b.test);
    e->b.test = NULL;
    return QSF_OK;
}
