/* A context's layers on a device.
 * SPDX-License-Identifier: MIT
 *
 * The CPU's executor embeds tokens, computes the layers before and after, and the head.  Rows cross
 * twice: before the first layer that is on the device, and after the last one.  On a host that must
 * not block, a stage is QSF_PENDING until its pipelines are compiled and, if it ends the device's
 * work, until its rows have come. */
#include "device/device_adapt.h"
#include "device/device_batch.h"
#include "device/device_few.h"
#include "device/device_life.h"
#include "model/part.h"

#include "wgsl/prompt_wgsl.h"

enum {
    ATTENTION_CHUNKS = 32,      /* of a row, at most; joining them takes time for each */
    ATTENTION_GROUPS = 256,     /* groups of rows times heads, from which on they occupy a fast GPU */
    EARLY = 40,                 /* dispatches with which a GPU begins, while others are listed, */
    EARLY_ROWS = 16             /* for batches whose listing takes about as long */
};

static device_executor *on_device(qsf_executor *x) { return (device_executor *)(void *)x; }

/* ---- memory ---- */

static void device_plan(const qsf_source *s, const qsf_needs *n, const qsf_context_options *o,
                        qsf_executor_needs *out)
{
    qsf_cpu_executor_table.plan(s, n, o, out);
}

static void device_done(qsf_executor *x)
{
    device_executor *e = on_device(x);
    qsf_executor *cpu = e->cpu;
    qsf_device_executor_free(e);
    cpu->does->done(cpu);
}

/* ---- keys and values ---- */

/* The device's layer that has this layer of the cache; NULL: it is the CPU's. */
static qsf_device_layer *layer_of_kv(device_executor *e, uint32_t kv)
{
    for (uint32_t i = e->first; i < e->end; i++) {
        qsf_device_layer *l = &e->layers[i - e->first];
        if (l->kv && qsf_layers_kept(e->c->model->source, e->c->o.quality, i) == kv) return l;
    }
    return NULL;
}

static void device_kv_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    device_executor *e = on_device(x);
    const qsf_device *d = e->d;
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    const qsf_device_id spare = e->b.of[QSF_DEVICE_SPARE];
    qsf_error err;
    /* An error is the device's loss, which the next batch reports. */
    qsf_status st = qsf_device_flush(e, &err);
    qsf_device_ahead_drop(e);
    uint8_t *sides = e->stream.side;
    if (sides) sides[to] = sides[from];
    e->cpu_does->kv_copy(e->cpu, to, from);
    qsf_replay_copy(&e->replay, to, from);
    for (uint32_t i = 0; i < e->end - e->first && !st; i++) {
        if (!e->layers[i].kv) continue;
        st = d->copy(d->user, spare, 0, e->layers[i].kv, from * n, n, &err);
        if (!st) st = d->copy(d->user, e->layers[i].kv, to * n, spare, 0, n, &err);
    }
}

static void device_state_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    on_device(x)->cpu_does->state_copy(on_device(x)->cpu, to, from);
}

/* Whether the CPU has newer keys and values of a block than the layer that passes through. */
static bool kv_is_older(const device_executor *e, const qsf_device_layer *l, uint32_t block)
{
    return l && qsf_device_layer_passes(l) && e->stream.side[block] == QSF_SIDE_CPU;
}

/* QSF_PENDING, on a host that must not block: call again with the same arguments. */
static qsf_status device_read(device_executor *e, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                              qsf_error *err)
{
    const qsf_device *d = e->d;
    qsf_status st = e->read ? QSF_OK : d->read_start(d->user, buffer, at, dst, len, &e->read, err);
    if (st) return st;
    st = qsf_device_result(d, e->read, err);
    if (st != QSF_PENDING) e->read = 0;
    return st;
}

static qsf_status device_kv_map(qsf_executor *x, uint32_t layer, uint32_t block, bool write, uint8_t **bytes,
                                qsf_error *err)
{
    device_executor *e = on_device(x);
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    qsf_error own = { 0 };
    if (!err) err = &own;
    qsf_status st = qsf_device_flush(e, err);
    const qsf_device_layer *l = layer_of_kv(e, layer);
    if (!write && kv_is_older(e, l, block)) l = NULL;
    if (write && e->stream.side) e->stream.side[block] = QSF_SIDE_BOTH;
    if (write) qsf_replay_kept(&e->replay, block);
    if (write) qsf_device_ahead_drop(e);
    if (!st && l && !write) st = device_read(e, l->kv, block * n, e->words, n, err);
    if (st == QSF_PENDING) {
        qsf_device_forget(e);           /* the caller begins anew */
        return st;
    }
    if (st && (!e->d || (st = qsf_device_fall(e, err)))) return st;
    if (!write && !e->d && e->replay.lost[block])
        return qsf_fail(err, QSF_E_IO, "the sequence's keys and values were on a GPU that failed");
    if (!l || !e->d) return e->cpu_does->kv_map(e->cpu, layer, block, write, bytes, err);
    *bytes = (uint8_t *)e->words;
    if (!write) return QSF_OK;
    e->mapped = l->kv;
    e->mapped_at = block * n;
    e->mapped_layer = layer;
    e->mapped_block = block;
    return QSF_OK;
}

static qsf_status device_state_map(qsf_executor *x, uint32_t slot, bool write, uint8_t **bytes,
                                   qsf_error *err)
{
    return on_device(x)->cpu_does->state_map(on_device(x)->cpu, slot, write, bytes, err);
}

/* ---- a batch ---- */

/* What the device has, or is given in this batch, of matrices that are read in parts: the CPU does
 * not read them. */
static void device_ends(device_executor *e, bool embed)
{
    qsf_context *c = e->c;
    const bool embeds = embed && e->embedding.here && !c->lora.n_used;
    const bool head = e->head.here && !c->now.hidden && !qsf_device_adapters_head(e);
    c->embedding.end = 0;
    if (embeds) qsf_device_embedding_want(&e->embedding, &e->head, &c->embedding);
    c->head_stream.elsewhere = head && (e->head.steps.ready || (c->hp->tied && embeds));
}

static void device_begin_batch(qsf_executor *x, bool embed)
{
    device_executor *e = on_device(x);
    e->here = e->together = e->logits = e->came = e->few = e->embeds = false;
    e->rows_read = 0;
    e->ready.whole = e->ready.ran = false;
    qsf_device_stream_begin(e);
    e->here = qsf_device_ahead_begin(e, embed);
    qsf_replay_begin(&e->replay, embed);
    e->cpu_does->begin(e->cpu, embed);
    device_ends(e, embed);
}

static void device_rows_in(qsf_executor *x, uint32_t r, const float *state, const float *streams)
{
    on_device(x)->cpu_does->rows_in(on_device(x)->cpu, r, state, streams);
}

static void device_rows_back(qsf_executor *x, uint32_t n)
{
    on_device(x)->cpu_does->rows_back(on_device(x)->cpu, n);
}

/* Rows that follow each other in a sequence, in groups: [n] the first, and how many. */
static uint32_t row_groups(const qsf_batch *batch, uint32_t *groups)
{
    uint32_t n = 0;
    for (uint32_t r = 0, begin = 0; r < batch->n; r++) {
        const qsf_batch_row *row = &batch->rows[r];
        const bool more = r + 1 < batch->n && r + 1 - begin < QSF_WGSL_PROMPT_ROWS
            && row[1].seq == row->seq && row[1].pos == row->pos + 1;
        if (more) continue;
        groups[2 * n] = begin;
        groups[2 * n++ + 1] = r + 1 - begin;
        begin = r + 1;
    }
    return n;
}

/* How the batch attends to at most `blocks` blocks a row: groups of rows share what they read if
 * there are several in a group; chunks occupy a GPU with few rows. */
static void batch_attention(device_executor *e, uint32_t *groups, uint32_t blocks)
{
    const uint32_t n = e->c->batch.n, most = QSF_MAX(QSF_MIN(e->b.sums / n, ATTENTION_CHUNKS), 1);
    const uint32_t each = (blocks + most - 1) / most;
    e->batch = (qsf_device_batch){ .n = n, .blocks = each, .chunks = (blocks + each - 1) / each };
    if (!e->b.prompts) return;
    const uint32_t n_groups = row_groups(&e->c->batch, groups);
    const bool several = QSF_DEVICE_GROUP * n_groups <= n,
        many = n_groups * e->c->model->source->most.n_heads >= ATTENTION_GROUPS;
    if (n > e->b.sums || (several && many)) e->batch.groups = n_groups;
}

/* The rows' positions, and the entries of their sequences' blocks. */
static qsf_status upload_places(device_executor *e, qsf_error *err)
{
    const qsf_batch *batch = &e->c->batch;
    const qsf_kv_seq *seqs = e->c->tables.seqs;
    uint32_t *place = e->words, *entry = place + 4 * (size_t)e->b.rows, *first = entry + 2 * e->b.entries,
        *groups = first + e->c->o.n_seqs, n = 0, blocks = 1;
    for (uint32_t s = 0; s < e->c->o.n_seqs; s++) first[s] = UINT32_MAX;
    for (uint32_t r = 0; r < batch->n; r++) {
        const uint32_t s = batch->rows[r].seq, pos = batch->rows[r].pos;
        const qsf_kv_seq *q = &seqs[s];
        if (first[s] == UINT32_MAX) {
            first[s] = n;
            for (uint32_t i = 0; i < q->n; i++, n++) {
                entry[2 * n] = q->blocks[i];
                entry[2 * n + 1] = q->places[i];
            }
            entry[2 * n] = q->length;
            entry[2 * n++ + 1] = 0;
            blocks = QSF_MAX(blocks, q->n);
        }
        const uint32_t row[] = { pos, first[s], q->n, q->blocks[qsf_kv_entry(q, pos)] };
        memcpy(place + 4 * (size_t)r, row, sizeof row);
    }
    assert(n <= e->b.entries);
    batch_attention(e, groups, blocks);
    qsf_device_ahead_note(e, place);
    const qsf_device *d = e->d;
    qsf_status st = d->write(d->user, e->b.of[QSF_DEVICE_PLACE], 0, place, 16 * (size_t)batch->n, err);
    if (!st) st = d->write(d->user, e->b.of[QSF_DEVICE_TABLE], 0, entry, 8 * (size_t)n, err);
    return st || !e->batch.groups ? st
        : d->write(d->user, e->b.of[QSF_DEVICE_GROUPS], 0, groups, 8 * (size_t)e->batch.groups, err);
}

static void copy_rows(const device_executor *e, const float *x, size_t ld, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        memcpy(e->rows + (size_t)r * e->b.ld, x + r * ld, e->c->hp->n_embd * sizeof *x);
}

/* What layers read besides the stream, if tokens have embeddings for them. */
static qsf_status upload_tokens(device_executor *e, qsf_error *err)
{
    const qsf_buffers *b = qsf_cpu_embedded(e->cpu);
    const qsf_device *d = e->d;
    const uint32_t n = e->c->batch.n;
    if (!e->b.tokens_ld) return QSF_OK;
    assert(b->ld_table == e->b.tokens_ld);
    const qsf_status st = d->write(d->user, e->b.of[QSF_DEVICE_TOKENS], 0, b->table,
                                   (size_t)n * b->ld_table * sizeof *b->table, err);
    copy_rows(e, b->x0, b->ld_embd, n);
    return st ? st : d->write(d->user, e->b.of[QSF_DEVICE_X0], 0, e->rows, (size_t)n * e->b.ld * 4, err);
}

/* Tokens go to the device, and the first dispatches make rows of them. */
static qsf_status tokens_there(device_executor *e, qsf_error *err)
{
    const qsf_batch *batch = &e->c->batch;
    uint32_t *ids = e->words;
    qsf_status st = upload_places(e, err);
    if (!st) st = qsf_device_angles_write(e, batch->n, err);
    if (!st) st = qsf_device_adapters_batch(e, err);
    for (uint32_t r = 0; r < batch->n; r++) ids[r] = (uint32_t)batch->rows[r].token;
    if (!st) st = e->d->write(e->d->user, e->b.of[QSF_DEVICE_IDS], 0, ids, 4 * (size_t)batch->n, err);
    e->n_list = e->n_sent = 0;
    if (!st) st = qsf_device_layer_list(&e->b, &e->embedding.steps, &e->batch, e->list, &e->n_list, err);
    e->here = !st;
    return st;
}

/* Rows of the CPU go to the device, or back. */
static qsf_status rows_there(device_executor *e, qsf_error *err)
{
    qsf_rows at;
    if (e->embeds) return tokens_there(e, err);
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_STATES, &at, err);
    if (st || (st = upload_tokens(e, err))) return st;
    copy_rows(e, at.x, at.ld, at.n);
    st = e->d->write(e->d->user, e->b.of[QSF_DEVICE_X], 0, e->rows, (size_t)at.n * e->b.ld * 4, err);
    if (st || (st = upload_places(e, err))) return st;
    if ((st = qsf_device_angles_write(e, at.n, err)) || (st = qsf_device_adapters_batch(e, err))) return st;
    e->here = true;
    e->n_list = e->n_sent = 0;
    return QSF_OK;
}

/* Values are not finite: the first flag says in which layer.  The CPU computes them, too, and so
 * finds out whether weights are damaged. */
static qsf_status not_finite(device_executor *e, qsf_error *err)
{
    const uint32_t n = 2 * (e->c->hp->n_layers + 1);
    uint32_t i = 0;
    e->odd = true;
    const qsf_status st = device_read(e, e->b.of[QSF_DEVICE_FLAGS], 0, e->words, n * sizeof *e->words, err);
    if (st) return st;
    while (i < n && !e->words[i]) i++;
    if (i == n || i / 2 + (i & 1) > e->c->hp->n_layers)
        return qsf_fail(err, QSF_E_CORRUPT, "its logits are not finite");
    return qsf_fail(err, QSF_E_CORRUPT, "its values of layer %u are not finite",
                    (unsigned)(i & 1 || !i ? i / 2 : i / 2 - 1));
}

static qsf_status rows_back(device_executor *e, qsf_error *err)
{
    const uint32_t n = e->c->batch.n, cols = e->c->hp->n_embd;
    qsf_status st = device_read(e, e->b.of[QSF_DEVICE_X], 0, e->rows, (size_t)n * e->b.ld * 4, err);
    if (st || (st = qsf_device_verdict(e, err))) return st;
    for (uint32_t r = 0; r < n; r++) {
        const float *x = e->rows + (size_t)r * e->b.ld;
        if (!e->trial_times && !qsf_all_finite(x, cols)) return not_finite(e, err);
        e->cpu_does->rows_in(e->cpu, r, x, NULL);
    }
    e->here = false;
    return QSF_OK;
}

static bool layers_ready(const device_executor *e)
{
    for (uint32_t i = e->stream.end; i < e->end; i++)
        if (!e->layers[i - e->first].ready) return false;
    return true;
}

/* All of the layer's dispatches, or none. */
static qsf_status append_layer(device_executor *e, qsf_device_layer *l, qsf_error *err)
{
    const size_t before = e->n_list;
    const qsf_status st = qsf_device_layer_list(&e->b, l, &e->batch, e->list, &e->n_list, err);
    if (st) e->n_list = before;
    return st;
}

/* What is listed and not submitted yet.  The list stays. */
static qsf_status submit_listed(device_executor *e, qsf_error *err)
{
    const size_t from = e->n_sent;
    e->n_sent = e->n_list;
    return e->d->submit(e->d->user, e->list + from, e->n_list - from, err);
}

/* What is listed so far is submitted, if it is enough and no layer is still to be made. */
static qsf_status begin_early(device_executor *e, qsf_error *err)
{
    if (e->n_list - e->n_sent < EARLY || e->batch.n > EARLY_ROWS || !e->all_ready) return QSF_OK;
    const qsf_status st = qsf_device_batch_numbers(e, err);
    return st ? st : submit_listed(e, err);
}

/* The device embeds tokens if it has the matrix, and no adapter changes their rows; the CPU has
 * their angles. */
static qsf_status device_embed(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    qsf_rows at;
    qsf_status st = QSF_OK;
    if (!e->embedding.here || e->c->lora.n_used) return e->cpu_does->stage(e->cpu, work, err);
    if (!e->embedding.steps.ready) {
        e->unchecked = true;
        st = qsf_device_embedding_bring(&e->embedding, &e->b, &e->head, &e->c->embedding, work->w, err);
    }
    if (!st) st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_STATES, &at, err);
    for (uint32_t r = 0; r < e->c->batch.n && !st; r++)
        e->cpu_does->rows_in(e->cpu, r, at.x + r * at.ld, NULL);        /* in place: its angles */
    e->embeds = !st;
    return st;
}

static qsf_status layer_weights_there(device_executor *e, qsf_device_layer *l, const qsf_stage_work *work,
                                      qsf_error *err)
{
    const uint32_t number = work->stage.number;
    if (qsf_device_layer_passes(l)) return qsf_device_stream_bring(e, number, work->w, err);
    const qsf_status st = l->ready ? QSF_OK : qsf_device_layer_make(&e->b, l, number, work->w, err);
    if (!st) e->there[number] = 1;
    return st;
}

/* The layer begins, so that its slot will be free. */
static qsf_status submit_slot(device_executor *e, uint32_t number, qsf_error *err)
{
    qsf_status st = qsf_device_batch_numbers(e, err);
    if (!st) st = submit_listed(e, err);
    return st ? st : qsf_device_stream_used(e, number, err);
}

static qsf_status device_layer(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const uint32_t number = work->stage.number;
    qsf_device_layer *l = &e->layers[number - e->first];
    if (e->odd) return not_finite(e, err);
    if (e->read) return rows_back(e, err);
    qsf_status st = qsf_device_flush(e, err);
    if (!st && !e->here && !(st = rows_there(e, err)) && !e->stream.runs)
        st = qsf_device_ready_take(e, work->hidden, qsf_device_few_wanted(e), err);
    if (st || e->ready.ran) return st;
    e->unchecked |= !l->ready;
    if ((st = layer_weights_there(e, l, work, err))) return st;
    if (!e->all_ready) e->all_ready = layers_ready(e);
    if (e->batch.loras && (st = qsf_device_adapters_layer(e, l, err))) return st;
    if ((st = append_layer(e, l, err))) return st;
    for (uint32_t i = 1; i < e->trial_times && !st; i++) st = append_layer(e, l, err);
    if (st) return st;
    if (!e->trial_times && qsf_device_layer_passes(l)) return submit_slot(e, number, err);
    if (!e->trial_times && number + 1 < e->end) return begin_early(e, err);
    if ((st = qsf_device_batch_numbers(e, err))) return st;
    const bool ends = e->end == e->c->hp->n_layers && qsf_part_ends(e->c->model->source) && !work->hidden;
    if (ends && e->head.here && e->c->batch.n_asked && !qsf_device_adapters_head(e))
        return QSF_OK;                                                      /* the head comes with them */
    if ((st = submit_listed(e, err))) return st;
    if (ends && !e->c->batch.n_asked) return QSF_OK;                        /* no caller needs the rows */
    return rows_back(e, err);
}

/* The rows that asked stand together in X, if there are others between them after a copy. */
static qsf_status asked_rows(device_executor *e, uint32_t *first, qsf_error *err)
{
    if (e->together) return QSF_OK;
    e->together = true;
    const qsf_batch *batch = &e->c->batch;
    const qsf_device *d = e->d;
    const qsf_device_id x = e->b.of[QSF_DEVICE_X], tmp = e->b.of[QSF_DEVICE_TMP];
    const uint64_t row = (uint64_t)e->b.ld * sizeof(float);
    uint32_t last = 0;
    qsf_status st = QSF_OK;
    *first = UINT32_MAX;
    for (uint32_t r = 0; r < batch->n; r++) {
        if (batch->rows[r].logits < 0) continue;
        if (*first == UINT32_MAX) *first = r;
        last = r;
    }
    if (last - *first + 1 == batch->n_asked) return QSF_OK;
    if ((st = submit_listed(e, err))) return st;
    for (uint32_t r = *first, j = 0; r <= last && !st; r++)
        if (batch->rows[r].logits >= 0) st = d->copy(d->user, tmp, j++ * row, x, r * row, row, err);
    *first = 0;
    return st ? st : d->copy(d->user, x, 0, tmp, 0, batch->n_asked * row, err);
}

static qsf_status device_head(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const qsf_context *c = e->c;
    const qsf_device_id *tied = qsf_device_embedding_tied(&e->embedding, c->model->source);
    qsf_status st = QSF_OK;
    if (!e->head.steps.ready) {
        e->unchecked = true;
        st = qsf_device_head_bring(&e->head, &e->b, &c->head_stream, &work->head, work->stage.number, tied,
                                   err);
        if (st || !e->head.steps.ready) return st;
    }
    st = asked_rows(e, &e->first_asked, err);
    const size_t before = e->n_list;
    if (!st)
        st = qsf_device_head_list(&e->head, &e->b, e->first_asked, c->batch.n_asked, e->list, &e->n_list,
                                  err);
    if (!st) st = qsf_device_few_list(e, err);
    if (st == QSF_PENDING) e->n_list = before;
    if (st == QSF_PENDING) return st;
    if (!st) st = submit_listed(e, err);
    e->ready.whole = !st && c->batch.n == c->batch.n_asked;
    e->here = false;
    e->logits = !st;
    return st;
}

/* Reads the logits into the CPU's buffer. */
static qsf_status device_logits(device_executor *e, qsf_rows *out, qsf_error *err)
{
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, out, err);
    if (st || e->came) return st;
    if (e->odd) return not_finite(e, err);
    const size_t bytes = out->n * out->ld * sizeof *out->x;
    const qsf_device_id from = qsf_device_logits_of(e);
    if (!e->read) {
        st = e->d->read_start(e->d->user, from, 0, out->x, bytes, &e->read, err);
        if (!st && QSF_WGSL_BARE(e->candidates.bare)) st = qsf_device_ahead_submit(e, err);
        if (!st) st = qsf_device_ready_make(e, err);
    }
    if (!st) st = qsf_device_ahead_tokens(e, err);
    if (!st) st = device_read(e, from, 0, out->x, bytes, err);
    if (!st) st = qsf_device_verdict(e, err);
    const bool odd = !st && !qsf_all_finite(out->x, out->n * out->ld);
    if (odd && e->ahead.flies) return qsf_device_ahead_repeat(e);
    if (odd) st = not_finite(e, err);
    for (uint32_t i = 0; i < out->n && !st; i++)
        qsf_device_head_finish(&e->c->k, e->c->hp, out->x + i * out->ld);
    e->came = !st;
    return st;
}

/* Whether the batch is submitted already, with all of its stages. */
static bool stage_ran(device_executor *e, const qsf_stage_work *work)
{
    if (!e->here || !(e->ahead.ran || e->ready.ran)) return false;
    if (work->stage.kind == QSF_STAGE_HEAD) {
        e->here = false;
        e->logits = true;
        e->few = (e->ahead.ran && !QSF_WGSL_BARE(e->candidates.bare)) || e->ready.few;
    }
    return true;
}

/* Keys and values of layers that pass through. */
static qsf_status device_sync(device_executor *e, qsf_error *err)
{
    const qsf_status st = qsf_device_flush(e, err);
    return st ? st : qsf_device_stream_sync(e, err);
}

static qsf_status device_stage(qsf_executor *x, const qsf_stage_work *work, qsf_error *err)
{
    device_executor *e = on_device(x);
    const uint32_t number = work->stage.number;
    const bool there = work->stage.kind == QSF_STAGE_LAYER && number >= e->first && number < e->end;
    qsf_status st = qsf_replay_check(&e->replay, err);
    if (st || stage_ran(e, work)) return st;
    if (there && !e->stream.synced) st = device_sync(e, err);
    if (there && !st && number < e->stream.end && !e->stream.runs)
        return e->cpu_does->stage(e->cpu, work, err);
    if (there) st = st || (st = qsf_device_tested(e, err)) ? st : device_layer(e, work, err);
    else if (work->stage.kind == QSF_STAGE_EMBEDDING && e->d) st = device_embed(e, work, err);
    else if (work->stage.kind == QSF_STAGE_HEAD && e->here) st = device_head(e, work, err);
    else return e->cpu_does->stage(e->cpu, work, err);
    if (!st || st == QSF_PENDING) return st;
    return (st = qsf_device_fall(e, err)) ? st : QSF_PENDING;       /* the batch begins again */
}

static qsf_status device_rows_out(qsf_executor *x, qsf_rows_kind kind, qsf_rows *out, qsf_error *err)
{
    device_executor *e = on_device(x);
    if (kind != QSF_ROWS_LOGITS || !e->logits) return e->cpu_does->rows_out(e->cpu, kind, out, err);
    qsf_status st = device_logits(e, out, err);
    if (!st || st == QSF_PENDING) return st;
    return (st = qsf_device_fall(e, err)) ? st : QSF_PENDING;       /* the batch begins again */
}

static qsf_status device_logits_more(qsf_executor *x, uint32_t i, const uint32_t *mask, qsf_error *err)
{
    return on_device(x)->cpu_does->logits_more(on_device(x)->cpu, i, mask, err);
}

static void device_end(qsf_executor *x, qsf_kv_seq *seqs, bool done)
{
    if (!done) qsf_device_ahead_drop(on_device(x));
    qsf_device_forget(on_device(x));
    qsf_device_stream_end(on_device(x));
    on_device(x)->here = false;
    on_device(x)->cpu_does->end(on_device(x)->cpu, seqs, done);
    qsf_replay_end(&on_device(x)->replay, done);
}

const qsf_executor_table qsf_device_executor_table = {
    device_plan, NULL, device_done,
    device_kv_copy, device_state_copy, device_kv_map, device_state_map,
    qsf_device_adapters_put,
    device_begin_batch, device_rows_in, device_rows_back, device_stage, device_rows_out, device_logits_more,
    device_end,
#if !defined(QSF_NO_CANDIDATES)
    qsf_device_few_out, qsf_device_few_row,
#endif
};
