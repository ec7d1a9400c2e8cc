/* Layers that pass through slots on a device.
 * SPDX-License-Identifier: MIT */
#include "device/device_stream.h"

#include "device/device_executor.h"
#include "weights/layers.h"

/* ---- life ---- */

uint32_t qsf_device_stream_asked(const qsf_context *c)
{
    return c->o.device_stream == QSF_STREAM_ALL ? 1
        : c->o.device_stream == QSF_STREAM_PROMPTS ? QSF_DEVICE_GROUP : UINT32_MAX;
}

void qsf_device_stream_say(char *out, size_t len, uint32_t first, uint32_t end, uint32_t least)
{
    char rows[40] = "";
    if (least > 1) qsf_format(rows, sizeof rows, " of %u tokens and more", (unsigned)least);
    out[0] = 0;
    if (first < end && least == UINT32_MAX)
        qsf_format(out, len, "layers %u to %u are faster on the CPU", (unsigned)first, (unsigned)end - 1);
    else if (first < end)
        qsf_format(out, len, "the weights of layers %u to %u pass through for %sbatches%s", (unsigned)first,
                   (unsigned)end - 1, least > 1 ? "" : "all ", rows);
}

qsf_status qsf_device_stream_init(device_executor *e, uint64_t bytes, qsf_error *err)
{
    const qsf_platform *p = e->c->platform;
    qsf_device_stream *x = &e->stream;
    const uint32_t n_layers = x->end - e->first;
    qsf_status st = QSF_OK;
    if (!n_layers) return QSF_OK;
    e->b.slot_bytes = bytes;
    if (!(x->side = qsf_alloc(p, e->b.n_blocks, "blocks", err))) return QSF_E_MEMORY;
    memset(x->side, QSF_SIDE_BOTH, e->b.n_blocks);
    x->n_blocks = e->b.n_blocks;
    if (!(x->reads = qsf_alloc_array(p, n_layers, sizeof *x->reads, "layers", err))) return QSF_E_MEMORY;
    memset(x->reads, 0, n_layers * sizeof *x->reads);
    x->n_layers = n_layers;
    for (uint32_t i = 0; i < QSF_DEVICE_LAYER_SLOTS && !st; i++) {
        x->slots[i].layer = UINT32_MAX;
        st = qsf_device_buffer_new(&e->b, bytes, &x->slots[i].buffer, err);
    }
    for (uint32_t i = 0; i < n_layers; i++)
        e->layers[i].slot = x->slots[(e->first + i) % QSF_DEVICE_LAYER_SLOTS].buffer;
    return st;
}

void qsf_device_stream_end(device_executor *e)
{
    qsf_device_stream *x = &e->stream;
    for (uint32_t i = 0; i < x->n_layers; i++) {
        if (e->d) e->d->release(e->d->user, x->reads[i]);
        x->reads[i] = 0;
    }
}

void qsf_device_stream_done(device_executor *e)
{
    const qsf_platform *p = e->c->platform;
    qsf_device_stream *x = &e->stream;
    qsf_device_stream_end(e);
    for (uint32_t i = 0; e->d && i < QSF_DEVICE_LAYER_SLOTS; i++) {
        e->d->release(e->d->user, x->slots[i].fence);
        e->d->release(e->d->user, x->slots[i].buffer);
    }
    if (x->side) qsf_dealloc(p, x->side, x->n_blocks);
    if (x->reads) qsf_dealloc(p, x->reads, x->n_layers * sizeof *x->reads);
    *x = (qsf_device_stream){ 0 };
}

qsf_status qsf_device_stream_there(const device_executor *e, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < QSF_DEVICE_LAYER_SLOTS && !st; i++)
        st = qsf_device_buffer_there(&e->b, e->stream.slots[i].buffer, err);
    return st;
}

void qsf_device_stream_begin(device_executor *e)
{
    qsf_device_stream *x = &e->stream;
    x->synced = x->end == e->first;
    x->runs = !x->synced && e->c->batch.n >= x->least;
}

/* Waits for a read, on hosts that may.  It is gone after anything but QSF_PENDING. */
static qsf_status stream_wait(const device_executor *e, qsf_device_id *read, qsf_error *err)
{
    if (!*read) return QSF_OK;
    const qsf_status st = qsf_device_result(e->d, *read, err);
    if (st != QSF_PENDING) *read = 0;
    return st;
}

/* ---- weights ---- */

qsf_status qsf_device_stream_bring(device_executor *e, uint32_t number, const qsf_weights *w, qsf_error *err)
{
    qsf_device_slot *slot = &e->stream.slots[number % QSF_DEVICE_LAYER_SLOTS];
    qsf_device_layer *l = &e->layers[number - e->first];
    if (slot->layer == number) return QSF_OK;
    qsf_status st = stream_wait(e, &slot->fence, err);
    if (st) return st;
    slot->layer = UINT32_MAX;
    if (l->ready) st = qsf_device_layer_again(&e->b, l, w, err);
    else st = qsf_device_layer_make(&e->b, l, number, w, err);
    if (!st) slot->layer = number;
    return st;
}

qsf_status qsf_device_stream_free(device_executor *e, uint32_t number, qsf_error *err)
{
    return stream_wait(e, &e->stream.slots[number % QSF_DEVICE_LAYER_SLOTS].fence, err);
}

qsf_status qsf_device_stream_used(device_executor *e, uint32_t number, qsf_error *err)
{
    qsf_device_slot *slot = &e->stream.slots[number % QSF_DEVICE_LAYER_SLOTS];
    const qsf_device *d = e->d;
    d->release(d->user, slot->fence);
    slot->fence = 0;
    return d->read_start(d->user, e->b.of[QSF_DEVICE_FLAGS], 0, &slot->word, sizeof slot->word, &slot->fence,
                         err);
}

/* ---- keys and values ---- */

/* One layer's part of a block.  A read to the CPU only begins. */
static qsf_status sync_layer(device_executor *e, uint32_t i, uint32_t block, qsf_error *err)
{
    const qsf_device *d = e->d;
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE], at = block * n;
    const uint32_t kept = qsf_layers_kept(e->c->model->source, e->c->o.quality, e->first + i);
    uint8_t *own;
    const qsf_status st = e->cpu_does->kv_map(e->cpu, kept, block, !e->stream.runs, &own, err);
    if (st) return st;
    if (e->stream.runs) return d->write(d->user, e->layers[i].kv, at, own, n, err);
    return d->read_start(d->user, e->layers[i].kv, at, own, n, &e->stream.reads[i], err);
}

static qsf_status sync_block(device_executor *e, uint32_t block, qsf_error *err)
{
    qsf_device_stream *x = &e->stream;
    bool begun = false;
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < x->n_layers; i++) begun |= x->reads[i] != 0;
    for (uint32_t i = 0; i < x->n_layers && !st && !begun; i++)
        if (e->layers[i].kv) st = sync_layer(e, i, block, err);
    for (uint32_t i = 0; i < x->n_layers && !st; i++) st = stream_wait(e, &x->reads[i], err);
    if (!st) x->side[block] = QSF_SIDE_BOTH;
    return st;
}

qsf_status qsf_device_stream_sync(device_executor *e, qsf_error *err)
{
    qsf_device_stream *x = &e->stream;
    const qsf_batch *batch = &e->c->batch;
    const qsf_kv_seq *seqs = e->c->tables.seqs;
    const uint8_t mine = x->runs ? QSF_SIDE_DEVICE : QSF_SIDE_CPU;
    qsf_status st;
    if (x->synced) return QSF_OK;
    for (uint32_t r = 0; r < batch->n; r++) {
        const qsf_kv_seq *q = &seqs[batch->rows[r].seq];
        if (r && batch->rows[r].seq == batch->rows[r - 1].seq) continue;
        for (uint32_t k = 0; k < q->n; k++) {
            const uint32_t block = q->blocks[k];
            if (x->side[block] == QSF_SIDE_BOTH || x->side[block] == mine) continue;
            if ((st = sync_block(e, block, err))) return st;
        }
    }
    for (uint32_t r = 0; r < batch->n; r++) {
        const qsf_kv_seq *q = &seqs[batch->rows[r].seq];
        x->side[q->blocks[qsf_kv_entry(q, batch->rows[r].pos)]] = mine;
    }
    x->synced = true;
    return QSF_OK;
}
