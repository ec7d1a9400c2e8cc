/* A context's layers on a device.
 * SPDX-License-Identifier: MIT
 *
 * The CPU's executor embeds tokens, computes the layers before and after, and the head.  Rows cross
 * twice: before the first layer that is on the device, and after the last one.  On a host that must
 * not block, a stage is QSF_PENDING until its pipelines are compiled and, if it ends the device's
 * work, until its rows have come. */
#include "device/device_head.h"
#include "device/device_logits.h"
#include "engine/context.h"
#include "model/part.h"

#include "wgsl/prompt_wgsl.h"

typedef struct device_executor {
    qsf_executor        base;
    qsf_executor       *cpu;
    const qsf_executor_table *cpu_does;
    qsf_context        *c;
    qsf_device         *d;
    uint32_t            first, end;     /* the device's layers */
    char                left[160];      /* why others are not */
    qsf_device_layer   *layers;         /* [end - first] */
    uint8_t            *there;          /* [n_layers] whose weights are on the device (qsf_fetch) */
    qsf_device_head     head;
    qsf_device_logits   logits;         /* of the head */
    qsf_device_buffers  b;
    qsf_device_dispatch *list;          /* [(layers + 1) * QSF_DEVICE_STEPS] of the batch, so far */
    size_t              n_list;
    float              *rows;           /* [rows][ld] on their way */
    uint32_t           *words;          /* [max of the tables] on their way */
    uint64_t            n_words;
    bool                here;           /* the batch's rows are on the device; */
    bool                together;       /* those that asked stand together, from first_asked on; */
    bool                headed;         /* its logits are */
    uint32_t            first_asked;
    qsf_device_id       read;           /* under way on a host that must not block; 0: none */
    qsf_device_id       mapped;         /* the buffer for `words`, which the caller fills; 0: none */
    uint64_t            mapped_at;
    qsf_device_batch    batch;
} device_executor;

enum {
    WAIT_NS = 1000 * 1000 * 1000,
    ATTENTION_CHUNKS = 32       /* of a row, at most; each costs time where they are joined */
};

static device_executor *on_device(qsf_executor *x) { return (device_executor *)(void *)x; }

/* ---- memory ---- */

static void device_plan(const qsf_source *s, const qsf_needs *n, const qsf_context_options *o,
                        qsf_executor_needs *out)
{
    qsf_cpu_executor_table.plan(s, n, o, out);
}

/* No caller waits for the read any more. */
static void device_forget(device_executor *e)
{
    e->d->release(e->d->user, e->read);
    e->read = 0;
}

static uint64_t list_room(const device_executor *e)
{
    return (uint64_t)(e->end - e->first + 1) * QSF_DEVICE_STEPS + QSF_DEVICE_KEPT_STEPS;
}

/* All but the CPU's executor. */
static void device_free(device_executor *e)
{
    const qsf_platform *p = e->c->platform;
    device_forget(e);
    qsf_device_head_done(&e->head, &e->b);
    qsf_device_logits_done(&e->logits);
    for (uint32_t i = 0; e->layers && i < e->end - e->first; i++) qsf_device_layer_done(&e->b, &e->layers[i]);
    if (e->layers) qsf_dealloc(p, e->layers, (uint64_t)(e->end - e->first) * sizeof *e->layers);
    if (e->there) qsf_dealloc(p, e->there, e->c->hp->n_layers);
    if (e->list) qsf_dealloc(p, e->list, list_room(e) * sizeof *e->list);
    if (e->rows) qsf_dealloc(p, e->rows, (uint64_t)e->b.rows * e->b.ld * sizeof *e->rows);
    if (e->words) qsf_dealloc(p, e->words, e->n_words * sizeof *e->words);
    qsf_device_buffers_done(&e->b);
    e->d->close(e->d->user);
    qsf_dealloc(p, e, sizeof *e);
}

static void device_done(qsf_executor *x)
{
    device_executor *e = on_device(x);
    qsf_executor *cpu = e->cpu;
    device_free(e);
    cpu->does->done(cpu);
}

/* The context is the CPU's alone again. */
static void device_undo(device_executor *e)
{
    qsf_context *c = e->c;
    c->executor = e->cpu;
    c->fetch.elsewhere = NULL;
    c->tables.user = c->state.user = c->executor;
    device_free(e);
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

/* Bytes that a caller has filled go where they belong. */
static qsf_status device_flush(device_executor *e, qsf_error *err)
{
    const qsf_device_id to = e->mapped;
    e->mapped = 0;
    return to ? e->d->write(e->d->user, to, e->mapped_at, e->words, e->b.bytes[QSF_DEVICE_SPARE], err)
        : QSF_OK;
}

static void device_kv_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    device_executor *e = on_device(x);
    const qsf_device *d = e->d;
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    const qsf_device_id spare = e->b.of[QSF_DEVICE_SPARE];
    qsf_error err;
    if (device_flush(e, &err)) return;
    e->cpu_does->kv_copy(e->cpu, to, from);
    /* An error is the device's loss, which the next batch reports. */
    for (uint32_t i = 0; i < e->end - e->first; i++) {
        if (!e->layers[i].kv) continue;
        if (d->copy(d->user, spare, 0, e->layers[i].kv, from * n, n, &err)) return;
        if (d->copy(d->user, e->layers[i].kv, to * n, spare, 0, n, &err)) return;
    }
}

static void device_state_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    on_device(x)->cpu_does->state_copy(on_device(x)->cpu, to, from);
}

/* QSF_PENDING, on a host that must not block: call again with the same arguments. */
static qsf_status device_read(device_executor *e, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                              qsf_error *err)
{
    const qsf_device *d = e->d;
    qsf_status st = e->read ? QSF_OK : d->read_start(d->user, buffer, at, dst, len, &e->read, err);
    if (st) return st;
    if (!d->wait) st = d->poll(d->user, e->read, err);
    else while ((st = d->wait(d->user, e->read, WAIT_NS, err)) == QSF_PENDING) { }
    if (st != QSF_PENDING) e->read = 0;
    return st;
}

static qsf_status device_kv_map(qsf_executor *x, uint32_t layer, uint32_t block, bool write, uint8_t **bytes,
                                qsf_error *err)
{
    device_executor *e = on_device(x);
    const qsf_device_layer *l = layer_of_kv(e, layer);
    const uint64_t n = e->b.bytes[QSF_DEVICE_SPARE];
    const qsf_status st = device_flush(e, err);
    if (st || !l) return st ? st : e->cpu_does->kv_map(e->cpu, layer, block, write, bytes, err);
    *bytes = (uint8_t *)e->words;
    if (!write) {
        const qsf_status read = device_read(e, l->kv, block * n, e->words, n, err);
        if (read == QSF_PENDING) device_forget(e);      /* the caller begins anew */
        return read;
    }
    e->mapped = l->kv;
    e->mapped_at = block * n;
    return QSF_OK;
}

static qsf_status device_state_map(qsf_executor *x, uint32_t slot, bool write, uint8_t **bytes,
                                   qsf_error *err)
{
    return on_device(x)->cpu_does->state_map(on_device(x)->cpu, slot, write, bytes, err);
}

static qsf_status device_adapters_put(qsf_executor *x, const qsf_lora_set *set, qsf_error *err)
{
    const device_executor *e = on_device(x);
    if (!set->n) return e->cpu_does->adapters_put(e->cpu, set, err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "adapters need all layers on the CPU; layers %u to %u are on %s",
                    (unsigned)e->first, (unsigned)e->end - 1, e->d->info->name);
}

/* ---- a batch ---- */

static void device_begin(qsf_executor *x, bool embed)
{
    device_executor *e = on_device(x);
    e->here = e->together = e->headed = false;
    qsf_device_logits_drop(&e->logits);
    e->cpu_does->begin(e->cpu, embed);
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
    if (n > e->b.sums || 8 * n_groups <= n) e->batch.groups = n_groups;
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
    const qsf_device *d = e->d;
    qsf_status st = d->write(d->user, e->b.of[QSF_DEVICE_PLACE], 0, place, 16 * (size_t)batch->n, err);
    if (!st) st = d->write(d->user, e->b.of[QSF_DEVICE_TABLE], 0, entry, 8 * (size_t)n, err);
    return st || !e->batch.groups ? st
        : d->write(d->user, e->b.of[QSF_DEVICE_GROUPS], 0, groups, 8 * (size_t)e->batch.groups, err);
}

static qsf_status upload_angles(device_executor *e, qsf_error *err)
{
    const uint32_t rows = e->c->batch.n;
    for (uint32_t i = 0; i < e->c->model->source->n_ropes; i++) {
        const qsf_rope *t = &e->c->ropes[i];
        float *to = (float *)(void *)e->words;
        const size_t n = (size_t)rows * t->half;
        for (size_t k = 0; k < n; k++) {
            to[2 * k] = t->cos[k];
            to[2 * k + 1] = t->sin[k];
        }
        const qsf_device_range at = qsf_device_angles(&e->b, i);
        const qsf_status st = n ? e->d->write(e->d->user, at.buffer, at.at, to, 8 * n, err) : QSF_OK;
        if (st) return st;
    }
    return QSF_OK;
}

static void copy_rows(const device_executor *e, const float *x, size_t ld, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        memcpy(e->rows + (size_t)r * e->b.ld, x + r * ld, e->c->hp->n_embd * sizeof *x);
}

/* What layers read besides the stream, if tokens have embeddings for them. */
static qsf_status upload_tokens(device_executor *e, qsf_error *err)
{
    const qsf_buffers *b = &e->c->on_cpu.b;
    const qsf_device *d = e->d;
    const uint32_t n = e->c->batch.n;
    if (!e->b.tokens_ld) return QSF_OK;
    assert(b->ld_table == e->b.tokens_ld);
    const qsf_status st = d->write(d->user, e->b.of[QSF_DEVICE_TOKENS], 0, b->table,
                                   (size_t)n * b->ld_table * sizeof *b->table, err);
    copy_rows(e, b->x0, b->ld_embd, n);
    return st ? st : d->write(d->user, e->b.of[QSF_DEVICE_X0], 0, e->rows, (size_t)n * e->b.ld * 4, err);
}

/* Rows of the CPU go to the device, or back. */
static qsf_status rows_there(device_executor *e, qsf_error *err)
{
    qsf_rows at;
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_STATES, &at, err);
    if (st || (st = upload_tokens(e, err))) return st;
    copy_rows(e, at.x, at.ld, at.n);
    st = e->d->write(e->d->user, e->b.of[QSF_DEVICE_X], 0, e->rows, (size_t)at.n * e->b.ld * 4, err);
    if (st || (st = upload_places(e, err)) || (st = upload_angles(e, err))) return st;
    e->here = true;
    e->n_list = 0;
    return QSF_OK;
}

static qsf_status rows_back(device_executor *e, uint32_t layer, qsf_error *err)
{
    const uint32_t n = e->c->batch.n, cols = e->c->hp->n_embd;
    const qsf_status st = device_read(e, e->b.of[QSF_DEVICE_X], 0, e->rows, (size_t)n * e->b.ld * 4, err);
    if (st) return st;
    for (uint32_t r = 0; r < n; r++) {
        const float *x = e->rows + (size_t)r * e->b.ld;
        if (!qsf_all_finite(x, cols))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: layers %u to %u, on %s, compute values that are not "
                            "finite: the weights are damaged, or the GPU computes them wrong: try without it",
                            e->c->model->source->path, (unsigned)e->first, (unsigned)layer, e->d->info->name);
        e->cpu_does->rows_in(e->cpu, r, x, NULL);
    }
    e->here = false;
    return QSF_OK;
}

/* The numbers of all layers that are there, for this batch. */
static qsf_status batch_numbers(device_executor *e, qsf_error *err)
{
    qsf_device_buffers *b = &e->b;
    const qsf_device_batch *is = &b->set, *new = &e->batch;
    if (is->n == new->n && is->chunks == new->chunks && is->blocks == new->blocks) return QSF_OK;
    for (uint32_t i = 0; i < e->end - e->first; i++)
        if (e->layers[i].ready) qsf_device_layer_batch(b, &e->layers[i], new);
    b->set = *new;
    return b->n_numbers ? b->d->write(b->d->user, b->numbers, 0, b->host_numbers,
                                      (size_t)b->n_numbers * QSF_DEVICE_NUMBERS, err) : QSF_OK;
}

/* All of the layer's dispatches, or none. */
static qsf_status layer_list(device_executor *e, qsf_device_layer *l, qsf_error *err)
{
    const size_t before = e->n_list;
    const qsf_status st = qsf_device_layer_list(&e->b, l, &e->batch, e->list, &e->n_list, err);
    if (st) e->n_list = before;
    return st;
}

static qsf_status device_layer(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const uint32_t number = work->stage.number;
    qsf_device_layer *l = &e->layers[number - e->first];
    if (e->read) return rows_back(e, number, err);
    qsf_status st = device_flush(e, err);
    if (st || (!e->here && (st = rows_there(e, err)))) return st;
    if (!l->ready && (st = qsf_device_layer_make(&e->b, l, number, work->w, err))) return st;
    e->there[number] = 1;
    if ((st = layer_list(e, l, err))) return st;
    if (number + 1 < e->end) return QSF_OK;
    if ((st = batch_numbers(e, err))) return st;
    const bool ends = e->end == e->c->hp->n_layers && qsf_part_ends(e->c->model->source) && !work->hidden;
    if (ends && e->head.here && e->c->batch.n_asked) return QSF_OK;         /* the head comes with them */
    if ((st = e->d->submit(e->d->user, e->list, e->n_list, err))) return st;
    if (ends && !e->c->batch.n_asked) return QSF_OK;                        /* no caller needs the rows */
    return rows_back(e, number, err);
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
    if ((st = d->submit(d->user, e->list, e->n_list, err))) return st;
    e->n_list = 0;
    for (uint32_t r = *first, j = 0; r <= last && !st; r++)
        if (batch->rows[r].logits >= 0) st = d->copy(d->user, tmp, j++ * row, x, r * row, row, err);
    *first = 0;
    return st ? st : d->copy(d->user, x, 0, tmp, 0, batch->n_asked * row, err);
}

static qsf_status device_head(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const qsf_context *c = e->c;
    qsf_status st = asked_rows(e, &e->first_asked, err);
    const size_t before = e->n_list;
    if (!st)
        st = qsf_device_head_list(&e->head, &e->b, &c->head_stream, &work->head, e->first_asked,
                                  c->batch.n_asked, e->list, &e->n_list, err);
    if (st == QSF_PENDING) e->n_list = before;
    if (st == QSF_PENDING) return st;
    if (!st) st = qsf_device_logits_list(&e->logits, e->list, &e->n_list, err);
    if (!st) st = e->d->submit(e->d->user, e->list, e->n_list, err);
    e->here = false;
    e->headed = !st;
    return st;
}

static qsf_status device_stage(qsf_executor *x, const qsf_stage_work *work, qsf_error *err)
{
    device_executor *e = on_device(x);
    const uint32_t number = work->stage.number;
    const bool there = work->stage.kind == QSF_STAGE_LAYER && number >= e->first && number < e->end;
    if (there) return device_layer(e, work, err);
    if (work->stage.kind == QSF_STAGE_HEAD && e->here) return device_head(e, work, err);
    return e->cpu_does->stage(e->cpu, work, err);
}

static qsf_status device_rows_out(qsf_executor *x, qsf_rows_kind kind, qsf_rows *out, qsf_error *err)
{
    device_executor *e = on_device(x);
    if (kind == QSF_ROWS_LOGITS && e->headed) return qsf_device_logits_out(&e->logits, out, err);
    return e->cpu_does->rows_out(e->cpu, kind, out, err);
}

static qsf_status device_logits_more(qsf_executor *x, uint32_t i, const uint32_t *mask, qsf_error *err)
{
    return on_device(x)->cpu_does->logits_more(on_device(x)->cpu, i, mask, err);
}

#if !defined(QSF_NO_CANDIDATES)
static qsf_status device_few(qsf_executor *x, const qsf_candidates **out, qsf_error *err)
{
    device_executor *e = on_device(x);
    return e->headed ? qsf_device_logits_few(&e->logits, out, err) : QSF_OK;
}

static qsf_status device_logits_row(qsf_executor *x, uint32_t i, const float **out, qsf_error *err)
{
    return qsf_device_logits_row(&on_device(x)->logits, i, out, err);
}
#endif

static void device_end(qsf_executor *x, qsf_kv_seq *seqs, bool done)
{
    device_forget(on_device(x));
    on_device(x)->here = false;
    on_device(x)->cpu_does->end(on_device(x)->cpu, seqs, done);
}

static const qsf_executor_table device_table = {
    device_plan, NULL, device_done,
    device_kv_copy, device_state_copy, device_kv_map, device_state_map,
    device_adapters_put,
    device_begin, device_rows_in, device_rows_back, device_stage, device_rows_out, device_logits_more,
    device_end,
#if !defined(QSF_NO_CANDIDATES)
    device_few, device_logits_row,
#endif
};

/* ---- from outside ---- */

static qsf_status device_make(device_executor *e, qsf_error *err)
{
    const qsf_platform *p = e->c->platform;
    const qsf_source *s = e->c->model->source;
    const uint32_t n = e->end - e->first;
    uint64_t half = 0;
    qsf_status st;
    if (!(e->layers = qsf_alloc_array(p, n, sizeof *e->layers, "layers", err))) return QSF_E_MEMORY;
    if (!(e->there = qsf_alloc(p, s->hp.n_layers, "layers", err))) return QSF_E_MEMORY;
    memset(e->there, 0, s->hp.n_layers);
    e->c->fetch.elsewhere = e->there;
    e->list = qsf_alloc_array(p, list_room(e), sizeof *e->list, "dispatches", err);
    if (!e->list) return QSF_E_MEMORY;
    if ((st = qsf_device_buffers_init(&e->b, p, e->d, s, &e->c->o, &e->cpu->kv, err))) return st;
    if (!(e->rows = qsf_alloc_array(p, (uint64_t)e->b.rows * e->b.ld, sizeof *e->rows, "rows", err)))
        return QSF_E_MEMORY;
    for (uint32_t i = 0; i < s->n_ropes; i++) half = QSF_MAX(half, qsf_rope_half(&s->ropes[i]));
    e->n_words = QSF_MAX(6 * (uint64_t)e->b.rows + 2 * e->b.entries + e->c->o.n_seqs,
                         QSF_MAX(2 * half * e->b.rows, e->b.bytes[QSF_DEVICE_SPARE] / 4));
    if (!(e->words = qsf_alloc_array(p, e->n_words, sizeof *e->words, "rows", err))) return QSF_E_MEMORY;
    e->b.ropes = e->c->ropes;
    if ((st = qsf_device_layers_begin(&e->b, e->layers, e->first, e->end, err))) return st;
    for (uint32_t i = 0; i < n; i++)
        if ((st = qsf_device_layer_compile(&e->b, &e->layers[i], e->first + i, err))) return st;
    qsf_rows logits;
    if (e->end < s->hp.n_layers || !qsf_part_ends(s)) return QSF_OK;
    if ((st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, &logits, err))) return st;
    st = qsf_device_head_begin(&e->head, &e->b, &e->c->head_stream, (uint32_t)logits.ld, err);
    if (st || !e->head.here) return st;
    return qsf_device_logits_begin(&e->logits, e->c, e->cpu, &e->b, (uint32_t)logits.ld, err);
}

static const char *context_refused(const qsf_context *c)
{
    const qsf_context_options *o = &c->o;
    if (qsf_part_shared(c->model->source)) return "shares of layers";
    if (o->f32) return "f32";
    if (o->act_quant != QSF_ACT_BLOCK) return "act-quant row";
    if (o->early_exit > 0) return "early-exit";
    if (o->quality < 1) return "quality below 1";
    if (o->kv_heavy) return "kv-heavy";
    if (o->first_stage) return "the first stage of a progressive file";
    return c->lora.n_used ? "adapters" : NULL;
}

/* Layers that read keys of an earlier one, and that one, are on the same side. */
static void keep_together(const qsf_source *s, uint32_t *first, uint32_t *end)
{
    uint32_t read = 0;
    while (read < s->hp.n_layers && !s->layers[read].kv_read) read++;
    if (read == s->hp.n_layers || (*first <= read && *end == s->hp.n_layers)) return;
    *end = QSF_MAX(*first, QSF_MIN(*end, read));
}

/* The longest run of layers that a device can compute, of these the last `most`.  left: the first
 * of the others. */
static void find_layers(const qsf_context *c, uint32_t most, uint32_t *first, uint32_t *end, char *left,
                        size_t len)
{
    const qsf_source *s = c->model->source;
    uint32_t begin = 0;
    *first = *end = 0;
    left[0] = '\0';
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const char *why = qsf_device_layer_refused(s, i, &c->o);
        if (why && !left[0]) qsf_format(left, len, "layer %u: %s", (unsigned)i, why);
        if (why) begin = i + 1;
        else if (i + 1 - begin > *end - *first) *first = begin, *end = i + 1;
    }
    if (*end - *first > most) {
        *first = *end - most;
        if (!left[0]) qsf_format(left, len, "at most %u on the GPU", (unsigned)most);
    }
    keep_together(s, first, end);
    if (*first == *end && !left[0]) qsf_format(left, len, "layers that read other layers' keys");
}

/* The context's layers [first, end) are the device's, which belongs to the context also after an
 * error. */
static qsf_status move_layers(qsf_context *c, qsf_device *d, uint32_t first, uint32_t end, const char *left)
{
    device_executor *e = qsf_alloc(c->platform, sizeof *e, "layers on a GPU", &c->error);
    if (!e) {
        d->close(d->user);
        return QSF_E_MEMORY;
    }
    *e = (device_executor){ .base = *c->executor, .cpu = c->executor, .cpu_does = c->executor->does, .c = c,
                            .d = d, .first = first, .end = end };
    memcpy(e->left, left, sizeof e->left);
    e->base.does = &device_table;
    c->executor = &e->base;
    c->tables.user = c->state.user = c->executor;
    const qsf_status st = device_make(e, &c->error);
    if (st) device_undo(e);
    return st;
}

static bool context_is_new(const qsf_context *c)
{
    for (uint32_t i = 0; i < c->o.n_seqs; i++)
        if (c->tables.seqs[i].n) return false;
    return c->executor->does != &device_table;
}

qsf_status qsf_context_use_device(qsf_context *c, qsf_devices *devices, uint32_t i, uint32_t n_layers)
{
    qsf_device_use use = { 0 };
    qsf_device *d;
    uint32_t first, end;
    const char *why = context_refused(c);
    if (!n_layers) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no layers are asked for");
    if (!context_is_new(c))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "layers move to a GPU before the first token");
    if (i >= devices->n)
        return qsf_fail(&c->error, QSF_E_NOT_FOUND, "no GPU %u: there are %u", (unsigned)i,
                        (unsigned)devices->n);
    if (why) return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s cannot be combined with layers on a GPU", why);
    find_layers(c, n_layers, &first, &end, use.left, sizeof use.left);
    if (first == end)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s: a GPU cannot compute any of its layers (%s)",
                        c->model->source->path, use.left);
    const qsf_status st = devices->open(devices, i, &d, &c->error);
    return st ? st : move_layers(c, d, first, end, use.left);
}

qsf_status qsf_context_device(const qsf_context *c, qsf_device_use *out)
{
    const device_executor *e = (const device_executor *)(const void *)c->executor;
    if (out->size != sizeof *out) return QSF_E_ARGUMENT;
    *out = (qsf_device_use){ .size = sizeof *out };
    if (c->executor->does != &device_table) return QSF_OK;
    out->first = e->first;
    out->n_layers = e->end - e->first;
    out->head = e->head.here;
    out->bytes = e->b.total;
    memcpy(out->name, e->d->info->name, sizeof out->name);
    memcpy(out->left, e->left, sizeof out->left);
    return QSF_OK;
}
