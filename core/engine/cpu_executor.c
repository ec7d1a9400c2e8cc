/* The executor of the CPU: rows, keys and values, state and logits in the host's memory.
 * SPDX-License-Identifier: MIT */
#include "engine/cpu_executor.h"
#include "layers/layer.h"

static qsf_cpu_executor *on_cpu(qsf_executor *x) { return (qsf_cpu_executor *)(void *)x; }

/* What arithmetic gets; weights and layer are still to be set. */
static qsf_pass cpu_pass(qsf_cpu_executor *e)
{
    const qsf_executor_host *h = &e->host;
    e->cpu = (qsf_cpu){ .platform = h->platform, .pool = h->pool, .ropes = h->ropes,
                        .n_ropes = h->source->n_ropes, .kv = &e->kv, .seqs = h->seqs,
                        .state = e->state.bytes ? &e->state : NULL, .key_bias = &e->key_bias,
                        .kv_attention = &e->kv_attention,
                        .experts = h->experts->fetch ? h->experts : NULL, .account = h->account,
                        .recorder = h->recorder->fn ? h->recorder : NULL, .not_finite = &e->not_finite,
                        .lora = h->lora->n_used ? h->lora : NULL, .lora_room = &e->lora_room,
                        .watch = h->watch->fn ? h->watch : NULL, .reducer = h->reducer };
    return (qsf_pass){ .hp = &h->source->hp, .o = h->o, .k = h->k, .batch = h->batch, .b = &e->b,
                       .cpu = &e->cpu, .number = -1 };
}

/* ---- memory ---- */

static void cpu_kv_layout(const qsf_source *s, const qsf_context_options *o, qsf_kv_layout *l)
{
    qsf_kv_layout_init(l, o->kv_type, qsf_layers_kept(s, o->quality, s->hp.n_layers), s->most.n_kv_heads,
                       s->most.head_dim);
}

/* Layers of the cache that have room at once: those that stay, and the first that moves to a
 * device, for its trial. */
static uint32_t cpu_kv_layers(const qsf_source *s, const qsf_context_options *o, const qsf_kv_layout *l)
{
    if (!o->device_layers) return l->n_layers;
    return QSF_MIN(qsf_layers_kept(s, o->quality, s->hp.n_layers - o->device_layers) + 1, l->n_layers);
}

static void cpu_plan(const qsf_source *s, const qsf_needs *n, const qsf_context_options *o,
                     qsf_executor_needs *out)
{
    qsf_kv_layout l;
    qsf_buffers b;
    cpu_kv_layout(s, o, &l);
    out->kv = qsf_kv_bytes(&l, cpu_kv_layers(s, o, &l), qsf_kv_blocks_of(o));
    out->state = qsf_state_memory(qsf_state_place(s, o->quality, s->hp.n_layers), o->n_seqs);
    out->activations = qsf_buffers_layout(&b, NULL, s, n, o);
}

/* The angles of the batch's rows lie in the buffers. */
static void cpu_ropes(qsf_cpu_executor *e)
{
    const size_t rows = qsf_rows_most(e->host.o);
    float *angles = e->b.angles;
    for (uint32_t i = 0; i < e->host.source->n_ropes; i++) {
        qsf_rope *r = &e->host.ropes[i];
        r->cos = angles;
        r->sin = r->cos + rows * r->half;
        angles = r->sin + rows * r->half;
    }
}

static qsf_status cpu_init(qsf_executor *x, const qsf_executor_host *host, qsf_error *err)
{
    qsf_cpu_executor *e = on_cpu(x);
    qsf_needs needs;
    qsf_status st;
    e->host = *host;
    const qsf_source *s = host->source;
    const qsf_context_options *o = host->o;
    cpu_kv_layout(s, o, &x->kv);
    x->state_bytes = qsf_state_place(s, o->quality, s->hp.n_layers);
    if ((st = qsf_head_init(&e->head, s, host->memory, o, err))) return st;
    qsf_needs_of(s, &needs);
    e->memory_bytes = qsf_buffers_layout(&e->b, NULL, s, &needs, o);
    if (!(e->memory = qsf_alloc(host->memory, e->memory_bytes, "activations", err))) return QSF_E_MEMORY;
    qsf_buffers_layout(&e->b, e->memory, s, &needs, o);
    cpu_ropes(e);
    e->key_bias.back = e->b.bias_back;
    e->key_bias.steps = e->b.bias_steps;
    qsf_bias_init(&e->key_bias, host->ropes, host->k, o->n_ctx);
    qsf_kv_attention_init(&e->kv_attention, e->b.kv_attention, s, o);
    qsf_lora_room_init(&e->lora_room, host->platform, qsf_rows_most(o), e->b.n_slots);
    const uint32_t n_kv = cpu_kv_layers(s, o, &x->kv);
    if ((st = qsf_kv_init(&e->kv, host->memory, &x->kv, n_kv, qsf_kv_blocks_of(o), err))) return st;
    return qsf_state_init(&e->state, host->memory, x->state_bytes, host->state_seqs, o->n_seqs, err);
}

static void cpu_done(qsf_executor *x)
{
    qsf_cpu_executor *e = on_cpu(x);
    qsf_lora_room_done(&e->lora_room);
    qsf_head_done(&e->head);
    qsf_state_done(&e->state);
    qsf_kv_done(&e->kv);
    if (e->memory) qsf_dealloc(e->host.memory, e->memory, e->memory_bytes);
    e->memory = NULL;
}

/* ---- keys and values, state, adapters ---- */

static void cpu_kv_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    qsf_kv_copy(&on_cpu(x)->kv, to, from);
}

static void cpu_state_copy(qsf_executor *x, uint32_t to, uint32_t from)
{
    qsf_state_copy(&on_cpu(x)->state, to, from);
}

static qsf_status cpu_kv_map(qsf_executor *x, uint32_t layer, uint32_t block, bool write, uint8_t **bytes,
                             qsf_error *err)
{
    qsf_cpu_executor *e = on_cpu(x);
    const qsf_status st = qsf_kv_need(&e->kv, e->host.platform, layer, err);
    (void)write;
    if (!st) *bytes = qsf_kv_record(&e->kv, layer, block, 0);
    return st;
}

static qsf_status cpu_state_map(qsf_executor *x, uint32_t slot, bool write, uint8_t **bytes, qsf_error *err)
{
    (void)write, (void)err;
    *bytes = qsf_state_slot(&on_cpu(x)->state, slot);
    return QSF_OK;
}

static qsf_status cpu_adapters_put(qsf_executor *x, const qsf_lora_set *set, qsf_error *err)
{
    return qsf_lora_room_grow(&on_cpu(x)->lora_room, on_cpu(x)->host.lora, set, err);
}

/* ---- a batch ---- */

static void cpu_begin(qsf_executor *x, bool embed)
{
    qsf_cpu_executor *e = on_cpu(x);
    const qsf_pass p = cpu_pass(e);
    atomic_store_explicit(&e->not_finite, false, memory_order_relaxed);
    if (embed) qsf_embedding_begin(e->host.embedding, &p);
}

static void cpu_rows_in(qsf_executor *x, uint32_t r, const float *state, const float *streams)
{
    qsf_cpu_executor *e = on_cpu(x);
    const qsf_pass p = cpu_pass(e);
    const size_t bytes = p.hp->n_embd * sizeof *state;
    float *to = e->b.x + r * e->b.ld_embd;
    if (p.hp->mtp) to = e->b.joined + r * e->b.ld_joined + p.hp->n_embd;
    if (to != state) memcpy(to, state, bytes);
    if (p.hp->eagle && p.batch->own_states)
        memcpy(e->b.joined + r * e->b.ld_joined + p.hp->n_embd, streams, bytes);
    else if (p.hp->eagle)
        memcpy(e->b.features + r * e->b.ld_features, streams, p.hp->n_features * sizeof *streams);
    else if (streams) memcpy(e->b.alt + r * e->b.ld_alt, streams, (QSF_ALTUP - 1) * bytes);
    qsf_pass_angles(&p, r);
}

static void cpu_rows_back(qsf_executor *x, uint32_t n)
{
    const qsf_cpu_executor *e = on_cpu(x);
    const qsf_buffers *b = &e->b;
    const uint32_t rows = e->host.batch->n;
    memmove(b->x + n * b->ld_embd, b->x, rows * b->ld_embd * sizeof *b->x);
    for (uint32_t i = 0; i < e->host.source->n_ropes; i++) {
        const qsf_rope *t = &e->host.ropes[i];
        memmove(t->cos + (size_t)n * t->half, t->cos, (size_t)rows * t->half * sizeof *t->cos);
        memmove(t->sin + (size_t)n * t->half, t->sin, (size_t)rows * t->half * sizeof *t->sin);
    }
}

/* Weights that are damaged, or of another type than the file declares, produce NaN, which would
 * only spread. */
static qsf_status cpu_finite(const qsf_cpu_executor *e, qsf_stage stage, qsf_error *err)
{
    const qsf_source *s = e->host.source;
    const qsf_reducer *reducer = e->host.reducer;
    if (reducer->st)
        return qsf_fail(err, reducer->st, "%s: layer %u: the results of its shares could not be added up",
                        s->path, (unsigned)stage.number);
    if (!atomic_load_explicit(&e->not_finite, memory_order_relaxed)) return QSF_OK;
    if (stage.kind == QSF_STAGE_HEAD) return qsf_head_not_finite(s, err);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u of 0 to %u computes values that are not finite: its "
                    "weights, or those before it, are damaged or of another type than the file says: get or "
                    "convert the file again; or a loaded session is damaged", s->path,
                    (unsigned)stage.number, (unsigned)s->hp.n_layers - 1);
}

static qsf_status cpu_embed(qsf_cpu_executor *e, const qsf_pass *p)
{
    const uint32_t *places = p->hp->tied ? qsf_head_places(&e->head) : NULL;
    const uint64_t begin = qsf_now(p->cpu->platform);
    const bool all = qsf_embedding_compute(e->host.embedding, p, places);
    (void)qsf_pass_alone(p, QSF_OP_EMBEDDING, begin);
    return all ? QSF_OK : QSF_PENDING;
}

static qsf_status cpu_layer(qsf_cpu_executor *e, qsf_pass *p, const qsf_stage_work *work, qsf_error *err)
{
    const qsf_source *s = e->host.source;
    const uint32_t layer = work->stage.number;
    p->layer = &s->layers[layer];
    p->number = (int32_t)layer;
    p->place.kv = qsf_layers_kept(s, p->o->quality, p->layer->kv_from ? p->layer->kv_from - 1 : layer);
    if (p->cpu->state) p->place.state = qsf_state_place(s, p->o->quality, layer);
    qsf_status st = QSF_OK;
    if (qsf_layer_attends(p->layer)) st = qsf_kv_need(&e->kv, e->host.platform, p->place.kv, err);
    if (st) return st;
    qsf_layer_compute(p);
    st = cpu_finite(e, work->stage, err);
    return st ? st : work->walk->n ? QSF_PENDING : QSF_OK;
}

static qsf_status cpu_head(qsf_cpu_executor *e, qsf_pass *p, const qsf_stage_work *work, qsf_error *err)
{
    const uint32_t part = work->stage.number;
    const qsf_batch *batch = p->batch;
    p->w = work->head.final;
    if (part == 0 && work->hidden && !p->hp->eagle) qsf_head_hidden(p, batch->n - work->n_new, work->n_new);
    if (batch->n_asked) {
        const qsf_head_part head = qsf_head_stream_part(e->host.head_stream, part, &work->head);
        qsf_head_compute(&e->head, p, &head, part == 0);
    }
    return cpu_finite(e, work->stage, err);
}

static qsf_status cpu_stage(qsf_executor *x, const qsf_stage_work *work, qsf_error *err)
{
    qsf_cpu_executor *e = on_cpu(x);
    qsf_pass p = cpu_pass(e);
    p.w = work->w;
    e->cpu.walk = work->walk;
    switch (work->stage.kind) {
    case QSF_STAGE_EMBEDDING: return cpu_embed(e, &p);
    case QSF_STAGE_LAYER: return cpu_layer(e, &p, work, err);
    case QSF_STAGE_HEAD: break;
    }
    return cpu_head(e, &p, work, err);
}

static qsf_status cpu_rows_out(qsf_executor *x, qsf_rows_kind kind, qsf_rows *out, qsf_error *err)
{
    const qsf_cpu_executor *e = on_cpu(x);
    const qsf_buffers *b = &e->b;
    const qsf_batch *batch = e->host.batch;
    (void)err;
    switch (kind) {
    case QSF_ROWS_STATES:  *out = (qsf_rows){ b->x, b->ld_embd, batch->n }; break;
    case QSF_ROWS_STREAMS: *out = (qsf_rows){ b->alt, b->ld_alt, b->alt ? batch->n : 0 }; break;
    case QSF_ROWS_HIDDEN:  *out = (qsf_rows){ b->tmp, b->ld_embd, batch->n }; break;
    case QSF_ROWS_LOGITS:  *out = (qsf_rows){ b->logits, b->ld_vocab, batch->n_asked }; break;
    case QSF_ROWS_SPARE:   *out = (qsf_rows){ b->xn, b->ld_embd, e->host.o->n_batch }; break;
    case QSF_N_ROWS_KINDS: break;
    }
    return QSF_OK;
}

static qsf_status cpu_logits_more(qsf_executor *x, uint32_t i, const uint32_t *mask, qsf_error *err)
{
    qsf_cpu_executor *e = on_cpu(x);
    qsf_head_units units;
    if (!qsf_head_leaves_out(&e->head, e->host.batch->n_asked)) return QSF_OK;
    const qsf_status st = qsf_head_stream_fetch(e->host.head_stream, 0, true, &units, err);
    if (st) return st;
    const qsf_head_part head = qsf_head_stream_part(e->host.head_stream, 0, &units);
    qsf_pass p = cpu_pass(e);
    p.w = units.final;
    qsf_head_rows(&e->head, &p, &head, i, mask);
    return QSF_OK;
}

static void cpu_end(qsf_executor *x, qsf_kv_seq *seqs, bool done)
{
    qsf_kv_attention_collect(&on_cpu(x)->kv_attention, seqs, done);
}

const qsf_executor_table qsf_cpu_executor_table = {
    cpu_plan, cpu_init, cpu_done,
    cpu_kv_copy, cpu_state_copy, cpu_kv_map, cpu_state_map,
    cpu_adapters_put,
    cpu_begin, cpu_rows_in, cpu_rows_back, cpu_stage, cpu_rows_out, cpu_logits_more, cpu_end,
#if !defined(QSF_NO_CANDIDATES)
    NULL, NULL,
#endif
};
