/* A context's layers on a device.
 * SPDX-License-Identifier: MIT
 *
 * The CPU's executor embeds tokens, computes the layers before and after, and the head.  Rows cross
 * twice: before the first layer that is on the device, and after the last one. */
#include "device/device_candidates.h"
#include "device/device_head.h"
#include "engine/context.h"
#include "model/part.h"

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
    qsf_device_candidates candidates;   /* of its logits */
    qsf_device_buffers  b;
    qsf_device_dispatch *list;          /* [(layers + 1) * QSF_DEVICE_STEPS] of the batch, so far */
    size_t              n_list;
    float              *rows;           /* [rows][ld] on their way */
    uint32_t           *words;          /* [max of the tables] on their way */
    uint64_t            n_words;
    bool                here;           /* the batch's rows are on the device; */
    bool                logits;         /* its logits are; */
    bool                read;           /* they have come to the CPU; */
    bool                few;            /* candidates of them are there; */
    uint32_t            rows_read;      /* a bit for each row of logits that came alone */
    qsf_device_id       mapped;         /* the buffer for `words`, which the caller fills; 0: none */
    uint64_t            mapped_at;
    uint32_t            chunks;         /* of the batch */
} device_executor;

enum { WAIT_NS = 1000 * 1000 * 1000 };

static device_executor *on_device(qsf_executor *x) { return (device_executor *)(void *)x; }

/* ---- memory ---- */

static void device_plan(const qsf_source *s, const qsf_needs *n, const qsf_context_options *o,
                        qsf_executor_needs *out)
{
    qsf_cpu_executor_table.plan(s, n, o, out);
}

static uint64_t list_room(const device_executor *e)
{
    return (uint64_t)(e->end - e->first + 1) * QSF_DEVICE_STEPS + QSF_DEVICE_KEPT_STEPS;
}

/* All but the CPU's executor. */
static void device_free(device_executor *e)
{
    const qsf_platform *p = e->c->platform;
    qsf_device_head_done(&e->head, &e->b);
    qsf_device_candidates_done(&e->candidates, &e->b);
    for (uint32_t i = 0; e->layers && i < e->end - e->first; i++)
        if (e->layers[i].kv) qsf_device_layer_done(&e->b, &e->layers[i]);
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
    for (uint32_t i = e->first; i < e->end; i++)
        if (qsf_layers_kept(e->c->model->source, e->c->o.quality, i) == kv) return &e->layers[i - e->first];
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
        if (d->copy(d->user, spare, 0, e->layers[i].kv, from * n, n, &err)) return;
        if (d->copy(d->user, e->layers[i].kv, to * n, spare, 0, n, &err)) return;
    }
}

static void device_state_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    on_device(x)->cpu_does->state_copy(on_device(x)->cpu, to, from);
}

static qsf_status device_read(device_executor *e, qsf_device_id buffer, uint64_t at, void *dst, size_t len,
                              qsf_error *err)
{
    const qsf_device *d = e->d;
    qsf_device_id read;
    qsf_status st = d->read_start(d->user, buffer, at, dst, len, &read, err);
    while (!st && (st = d->wait(d->user, read, WAIT_NS, err)) == QSF_PENDING) st = QSF_OK;
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
    if (!write) return device_read(e, l->kv, block * n, e->words, n, err);
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
    on_device(x)->here = on_device(x)->logits = on_device(x)->read = on_device(x)->few = false;
    on_device(x)->rows_read = 0;
    on_device(x)->cpu_does->begin(on_device(x)->cpu, embed);
}

static void device_rows_in(qsf_executor *x, uint32_t r, const float *state, const float *streams)
{
    on_device(x)->cpu_does->rows_in(on_device(x)->cpu, r, state, streams);
}

static void device_rows_back(qsf_executor *x, uint32_t n)
{
    on_device(x)->cpu_does->rows_back(on_device(x)->cpu, n);
}

/* The rows' positions, and the entries of their sequences' blocks. */
static qsf_status upload_places(device_executor *e, qsf_error *err)
{
    const qsf_batch *batch = &e->c->batch;
    const qsf_kv_seq *seqs = e->c->tables.seqs;
    uint32_t *place = e->words, *entry = place + 4 * (size_t)e->b.rows, *first = entry + 2 * e->b.entries;
    uint32_t n = 0;
    e->chunks = 1;
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
            e->chunks = QSF_MAX(e->chunks, (q->n + e->b.chunk_blocks - 1) / e->b.chunk_blocks);
        }
        const uint32_t row[] = { pos, first[s], q->n, q->blocks[qsf_kv_entry(q, pos)] };
        memcpy(place + 4 * (size_t)r, row, sizeof row);
    }
    assert(n <= e->b.entries && e->chunks <= e->b.chunks);
    const qsf_device *d = e->d;
    const qsf_status st = d->write(d->user, e->b.of[QSF_DEVICE_PLACE], 0, place, 16 * (size_t)batch->n, err);
    return st ? st : d->write(d->user, e->b.of[QSF_DEVICE_TABLE], 0, entry, 8 * (size_t)n, err);
}

static qsf_status upload_angles(device_executor *e, qsf_error *err)
{
    const uint32_t rows = e->c->batch.n;
    for (uint32_t i = 0; i < e->c->model->source->n_ropes && i < 2; i++) {
        const qsf_rope *t = &e->c->ropes[i];
        float *to = (float *)(void *)e->words;
        const size_t n = (size_t)rows * t->half;
        for (size_t k = 0; k < n; k++) {
            to[2 * k] = t->cos[k];
            to[2 * k + 1] = t->sin[k];
        }
        const qsf_status st = n ? e->d->write(e->d->user, e->b.of[QSF_DEVICE_ANGLES + i], 0, to, 8 * n, err)
            : QSF_OK;
        if (st) return st;
    }
    return QSF_OK;
}

/* Rows of the CPU go to the device, or back. */
static qsf_status rows_there(device_executor *e, qsf_error *err)
{
    qsf_rows at;
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_STATES, &at, err);
    if (st) return st;
    for (uint32_t r = 0; r < at.n; r++)
        memcpy(e->rows + (size_t)r * e->b.ld, at.x + r * at.ld, e->c->hp->n_embd * sizeof *at.x);
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
    const uint32_t n = e->c->batch.n;
    if (b->n == n && b->n_chunks == e->chunks) return QSF_OK;
    for (uint32_t i = 0; i < e->end - e->first; i++)
        if (e->layers[i].ready) qsf_device_layer_batch(b, &e->layers[i], n, e->chunks);
    b->n = n;
    b->n_chunks = e->chunks;
    return b->n_numbers ? b->d->write(b->d->user, b->numbers, 0, b->host_numbers,
                                      (size_t)b->n_numbers * QSF_DEVICE_NUMBERS, err) : QSF_OK;
}

static qsf_status device_layer(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const uint32_t number = work->stage.number;
    qsf_device_layer *l = &e->layers[number - e->first];
    qsf_status st = device_flush(e, err);
    if (st || (!e->here && (st = rows_there(e, err)))) return st;
    if (!l->ready && (st = qsf_device_layer_make(&e->b, l, number, work->w, err))) return st;
    e->there[number] = 1;
    if ((st = qsf_device_layer_list(&e->b, l, e->c->batch.n, e->chunks, e->list, &e->n_list, err))) return st;
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

/* Whether the batch's rows may do with candidates. */
static bool wants_candidates(const device_executor *e)
{
#if defined(QSF_NO_CANDIDATES)
    (void)e;
    return false;
#else
    return e->c->now.few && e->c->batch.n_asked <= e->candidates.rows;
#endif
}

static qsf_status device_head(device_executor *e, const qsf_stage_work *work, qsf_error *err)
{
    const qsf_context *c = e->c;
    uint32_t first;
    qsf_status st = asked_rows(e, &first, err);
    if (!st)
        st = qsf_device_head_list(&e->head, &e->b, &c->head_stream, &work->head, first, c->batch.n_asked,
                                  e->list, &e->n_list, err);
    const bool few = wants_candidates(e);
    if (!st && few)
        st = qsf_device_candidates_list(&e->candidates, &e->b, c->batch.n_asked, e->list, &e->n_list, err);
    if (!st) st = e->d->submit(e->d->user, e->list, e->n_list, err);
    e->here = false;
    e->logits = !st;
    e->few = few && !st;
    return st;
}

/* Rows [first, first + n) of the logits come to where the CPU has them. */
static qsf_status read_logits(device_executor *e, const qsf_rows *to, uint32_t first, uint32_t n,
                              qsf_error *err)
{
    const qsf_hparams *hp = e->c->hp;
    const float scale = hp->logit_scale, cap = hp->final_softcap;
    const size_t row = to->ld * sizeof *to->x;
    const qsf_status st = device_read(e, e->b.of[QSF_DEVICE_LOGITS], first * row, to->x + first * to->ld,
                                      n * row, err);
    for (uint32_t i = first; i < first + n && !st; i++) {
        if (scale != 0 && scale != 1) e->c->k.vec_scale(to->x + i * to->ld, scale, hp->n_vocab);
        if (cap > 0) e->c->k.softcap_inplace(to->x + i * to->ld, cap, hp->n_vocab);
    }
    return st;
}

static qsf_status device_logits(device_executor *e, qsf_rows *out, qsf_error *err)
{
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, out, err);
    if (st || e->read) return st;
    st = read_logits(e, out, 0, out->n, err);
    e->read = !st;
    return st;
}

#if !defined(QSF_NO_CANDIDATES)
static qsf_status device_candidates(qsf_executor *x, const qsf_candidates **out, qsf_error *err)
{
    device_executor *e = on_device(x);
    bool finite;
    if (!e->few) return QSF_OK;
    const uint32_t n = e->c->batch.n_asked;
    const qsf_status st = qsf_device_candidates_read(&e->candidates, &e->b, n, &finite, err);
    if (st) return st;
    if (!finite) return qsf_head_not_finite(e->c->model->source, err);
    *out = e->candidates.found;
    return QSF_OK;
}

static qsf_status device_logits_row(qsf_executor *x, uint32_t i, const float **out, qsf_error *err)
{
    device_executor *e = on_device(x);
    qsf_rows rows;
    qsf_status st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, &rows, err);
    if (!st && !e->read && !(e->rows_read >> i & 1)) {
        if ((st = read_logits(e, &rows, i, 1, err))) return st;
        e->rows_read |= 1u << i;
    }
    *out = st ? NULL : rows.x + i * rows.ld;
    return st;
}
#endif

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
    if (kind == QSF_ROWS_LOGITS && e->logits) return device_logits(e, out, err);
    return e->cpu_does->rows_out(e->cpu, kind, out, err);
}

static qsf_status device_logits_more(qsf_executor *x, uint32_t i, const uint32_t *mask, qsf_error *err)
{
    return on_device(x)->cpu_does->logits_more(on_device(x)->cpu, i, mask, err);
}

static void device_end(qsf_executor *x, qsf_kv_seq *seqs, bool done)
{
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
    device_candidates, device_logits_row,
#endif
};

/* ---- from outside ---- */

static qsf_status candidates_begin(device_executor *e, uint32_t ld, qsf_error *err)
{
    const qsf_hparams *hp = e->c->hp;
    const qsf_device_logits l = {
        .range = { e->b.of[QSF_DEVICE_LOGITS], 0, e->b.bytes[QSF_DEVICE_LOGITS] },
        .rows = QSF_MIN(e->c->o.n_logits, QSF_DEVICE_KEPT_ROWS), .n_vocab = hp->n_vocab, .ld = ld,
        .scale = hp->logit_scale != 0 ? hp->logit_scale : 1, .cap = hp->final_softcap,
    };
#if defined(QSF_NO_CANDIDATES)
    (void)l, (void)err;
    return QSF_OK;
#else
    return qsf_device_candidates_begin(&e->candidates, &e->b, &l, err);
#endif
}

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
    e->n_words = QSF_MAX(4 * (uint64_t)e->b.rows + 2 * e->b.entries + e->c->o.n_seqs,
                         QSF_MAX(2 * half * e->b.rows, e->b.bytes[QSF_DEVICE_SPARE] / 4));
    if (!(e->words = qsf_alloc_array(p, e->n_words, sizeof *e->words, "rows", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if ((st = qsf_device_layer_begin(&e->b, &e->layers[i], err)) ||
            (st = qsf_device_layer_compile(&e->b, e->first + i, err))) return st;
    qsf_rows logits;
    if (e->end < s->hp.n_layers || !qsf_part_ends(s)) return QSF_OK;
    if ((st = e->cpu_does->rows_out(e->cpu, QSF_ROWS_LOGITS, &logits, err))) return st;
    st = qsf_device_head_begin(&e->head, &e->b, &e->c->head_stream, (uint32_t)logits.ld, err);
    return st || !e->head.here ? st : candidates_begin(e, (uint32_t)logits.ld, err);
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

/* The longest run of layers that a device can compute.  left: the first of the others. */
static void find_layers(const qsf_context *c, uint32_t *first, uint32_t *end, char *left, size_t len)
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
    find_layers(c, &first, &end, use.left, sizeof use.left);
    if (first == end)
        return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s: a GPU cannot compute any of its layers (%s)",
                        c->model->source->path, use.left);
    if (end - first > n_layers) {
        first = end - n_layers;
        if (!use.left[0]) qsf_format(use.left, sizeof use.left, "at most %u on the GPU", (unsigned)n_layers);
    }
    const qsf_status st = devices->open(devices, i, &d, &c->error);
    if (st) return st;
    if (d->wait) return move_layers(c, d, first, end, use.left);
    d->close(d->user);
    return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "a host that must not wait has no layers on a GPU yet");
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
