/* The step: moves a batch on by one layer.
 * SPDX-License-Identifier: MIT */
#include "engine/step.h"
#include "engine/sequence.h"
#include "layers/layer.h"
#include "weights/refine.h"

/* What arithmetic gets of the context; weights and layer are still to be set. */
static qsf_pass step_pass(qsf_context *c)
{
    c->cpu = (qsf_cpu){ .platform = c->platform, .pool = c->pool, .ropes = c->ropes,
                        .n_ropes = c->model->source->n_ropes, .kv = &c->kv, .seqs = c->tables.seqs,
                        .state = c->state.bytes ? &c->state : NULL, .key_bias = &c->key_bias,
                        .kv_attention = &c->kv_attention,
                        .experts = c->experts.fetch ? &c->experts : NULL, .walk = &c->now.walk,
                        .account = &c->account, .recorder = c->recorder.fn ? &c->recorder : NULL,
                        .not_finite = &c->now.not_finite, .lora = c->lora.n_used ? &c->lora : NULL,
                        .watch = c->watch.fn ? &c->watch : NULL, .reducer = &c->reducer };
    return (qsf_pass){ .hp = c->hp, .o = &c->o, .k = &c->k, .batch = &c->batch, .b = &c->b, .cpu = &c->cpu,
                       .number = -1 };
}

bool qsf_stage_after(qsf_stage s, uint32_t layer)
{
    return s.kind == QSF_STAGE_HEAD || (s.kind == QSF_STAGE_LAYER && s.number > layer);
}

static qsf_status batch_rows(qsf_context *c, const qsf_row *rows, size_t n)
{
    if (n == 0 || n > c->o.n_batch)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "a batch of %llu rows; the range is 1 to %u",
                        (unsigned long long)n, (unsigned)c->o.n_batch);
    uint32_t asked = 0;
    for (size_t i = 0; i < n; i++) {
        const qsf_status st = qsf_seq_check(c, rows[i].seq);
        if (st) return st;
        if (c->hp->both_ways && rows[i].logits)
            return qsf_fail(&c->error, QSF_E_UNSUPPORTED, "%s is an encoder: it embeds texts (qsf_embed, "
                            "--embedding) and cannot generate", c->model->source->path);
        const bool known = rows[i].token >= 0 && (uint32_t)rows[i].token < c->hp->n_vocab;
        if (!known && qsf_part_begins(c->model->source))
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "token %d; the vocabulary has %u", (int)rows[i].token,
                            (unsigned)c->hp->n_vocab);
        if (rows[i].logits && asked++ == c->o.n_logits)
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "more than %u rows ask for logits; see n_logits",
                            (unsigned)c->o.n_logits);
    }
    return QSF_OK;
}

enum { FEW_ROWS = QSF_DRAFT_MOST + 1 };

/* The count of threads that suits this batch; NULL: all. */
static qsf_thread_count *batch_threads(qsf_context *c)
{
    return c->plan.n_slots && c->now.n_new <= FEW_ROWS ? &c->threads[c->now.n_new > 1] : NULL;
}

static uint32_t next_layer(const qsf_context *c, uint32_t layer)
{
    while (layer < c->hp->n_layers && qsf_layer_skipped(&c->fetch, layer)) layer++;
    return layer;
}

/* The parts of the head that the batch needs. */
static uint32_t parts_needed(const qsf_context *c)
{
    if (c->behind.rows) return 0;
    return c->batch.n_asked ? c->head_stream.n_parts : c->now.hidden;
}

/* Rows are embedded or, if x is not NULL, are the output of the layer before the first one here. */
static void batch_input(qsf_context *c, const float *x)
{
    const qsf_pass p = step_pass(c);
    c->now.stage = x ? qsf_stage_of(c->hp, next_layer(c, 0)) : (qsf_stage){ QSF_STAGE_EMBEDDING, 0 };
    if (!x) {
        qsf_embedding_begin(&c->embedding, &p);
        return;
    }
    for (uint32_t r = 0; r < c->batch.n; r++) {
        memcpy(c->b.x + r * c->b.ld_embd, x + (size_t)r * c->hp->n_embd, c->hp->n_embd * sizeof *x);
        qsf_pass_angles(&p, r);
    }
}

qsf_status qsf_context_set_reduce(qsf_context *c, qsf_reduce_fn fn, void *user)
{
    if (!qsf_part_shared(c->model->source))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open with whole layers: there is nothing to add to "
                        "them (n_shares of qsf_model_options)", c->model->source->path);
    c->reducer = (qsf_reducer){ fn, user, QSF_OK };
    return QSF_OK;
}

/* If layers run as shares, there must be a callback that adds up the shares' results. */
static qsf_status step_shares(qsf_context *c)
{
    c->reducer.st = QSF_OK;
    if (c->reducer.fn || !qsf_part_shared(c->model->source)) return QSF_OK;
    return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open with shares of its layers: the results of the "
                    "others are missing (qsf_context_set_reduce)", c->model->source->path);
}

static qsf_status batch_begin(qsf_context *c, const qsf_row *rows, size_t n, const float *x)
{
    qsf_status st;
    c->error = (qsf_error){ 0 };
    qsf_batch_drop(c);
    if ((st = step_shares(c))) return st;
    if ((st = batch_rows(c, rows, n))) return st;
    const bool ends = qsf_part_ends(c->model->source), asks = ends || c->behind.rows;
    const uint32_t end = qsf_seq_end(c);
    for (uint32_t s = 0; s < c->o.n_seqs; s++) {
        if (c->o.kv_window) qsf_kv_slide(&c->tables, s, c->o.kv_window, c->o.kv_sinks, c->o.kv_heavy);
        c->now.old_length[s] = c->tables.seqs[s].length;
    }
    c->now.active = true;
    c->now.hidden = c->hidden && ends;
    c->now.n_hidden = c->now.n_states = 0;
    c->fetch.batch++;
    c->batch.n = c->now.n_new = (uint32_t)n;
    c->batch.n_asked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = (uint32_t)rows[i].seq, pos = c->tables.seqs[s].length;
        c->batch.rows[i] = (qsf_batch_row){ s, pos, rows[i].token,
                                            rows[i].logits && asks ? (int32_t)c->batch.n_asked++ : -1 };
        if (pos >= end || qsf_kv_grow(&c->tables, s, 1)) {
            qsf_batch_drop(c);
            return qsf_fail(&c->error, QSF_E_FULL, "the context of %u positions is full", (unsigned)end);
        }
        qsf_state_grow(&c->state, s, 1);
    }
    atomic_store_explicit(&c->now.not_finite, false, memory_order_relaxed);
    qsf_batch_group(&c->batch);
    qsf_exit_begin(&c->early_exit);
    batch_input(c, x);
    c->now.begun_ns = qsf_now(c->platform);
    c->now.waiting_ns = 0;
    const qsf_thread_count *threads = batch_threads(c);
    qsf_pool_use(c->pool, threads ? qsf_thread_count_next(threads) : c->o.n_threads);
    return QSF_OK;
}

qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n)
{
    const qsf_source *s = c->model->source;
    if (!qsf_part_begins(s))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open from layer %u on: its batches begin with "
                        "hidden states (qsf_batch_begin_from)", s->path, (unsigned)s->n_before);
    return batch_begin(c, rows, n, NULL);
}

qsf_status qsf_batch_begin_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states)
{
    const qsf_source *s = c->model->source;
    if (qsf_part_begins(s))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open from its first layer on: its batches begin "
                        "with tokens (qsf_batch_begin)", s->path);
    return batch_begin(c, rows, n, states);
}

/* The weights that the step's stage needs. */
typedef struct step_weights {
    const qsf_weights *w;            /* of the embedding's unit or of the layer */
    qsf_head_units     head;
} step_weights;

/* Brings them; wait: does not return QSF_PENDING. */
static qsf_status step_fetch(qsf_context *c, bool wait, step_weights *need)
{
    const qsf_stage stage = c->now.stage;
    if (stage.kind == QSF_STAGE_EMBEDDING)
        return qsf_embedding_fetch(&c->embedding, &c->batch, wait, &need->w, &c->error);
    if (stage.kind == QSF_STAGE_HEAD && !c->batch.n_asked)
        return qsf_head_stream_norm(&c->head_stream, wait, &need->head.final, &c->error);
    if (stage.kind == QSF_STAGE_HEAD)
        return qsf_head_stream_fetch(&c->head_stream, stage.number, wait, &need->head, &c->error);
    const qsf_unit_id layer = qsf_id_layer(stage.number);
    const qsf_status st = qsf_fetch_unit(&c->fetch, layer, false, &need->w, &c->error);
    if (!st && c->now.walk.n)
        return qsf_experts_get(&c->experts, layer.number, &c->now.walk, wait, &c->error);
    if (st != QSF_PENDING) return st;
    /* The buffer of the last layer is free: the one after this begins to travel. */
    qsf_layers_ahead(&c->fetch, stage.number);
    return wait ? qsf_fetch_unit(&c->fetch, layer, true, &need->w, &c->error) : st;
}

static void batch_done(qsf_context *c)
{
    const uint64_t ns = qsf_now(c->platform) - c->now.begun_ns;
    c->now.active = false;
    if (c->hp->both_ways)       /* the next batch has other texts */
        for (uint32_t s = 0; s < c->o.n_seqs; s++) qsf_seq_back(c, s, 0);
    qsf_state_batch_done(&c->state);
    qsf_kv_attention_collect(&c->kv_attention, c->tables.seqs, true);
    qsf_exit_end(&c->early_exit);
    if (batch_threads(c)) qsf_thread_count_took(batch_threads(c), ns);
    if (c->now.n_new == c->batch.n_asked) {
        c->stats.tokens_generated += c->now.n_new;
        c->stats.ns_generated += ns;
    } else {
        c->stats.tokens_prompt += c->now.n_new;
        c->stats.ns_prompt += ns;
    }
}

/* Weights that are damaged, or of another type than the file declares, produce NaN, which would
 * only spread.  where: a layer, from 0; n_layers: the head. */
static qsf_status step_finite(qsf_context *c, uint32_t where)
{
    const char *path = c->model->source->path;
    if (c->reducer.st)
        return qsf_fail(&c->error, c->reducer.st, "%s: layer %u: the results of its shares could not be "
                                                  "added up",
                        path, (unsigned)where);
    if (!atomic_load_explicit(&c->now.not_finite, memory_order_relaxed)) return QSF_OK;
    if (where == c->hp->n_layers)
        return qsf_fail(&c->error, QSF_E_CORRUPT, "%s: the output head computes logits that are not "
                        "finite: its weights are damaged; get or convert the file again", path);
    return qsf_fail(&c->error, QSF_E_CORRUPT, "%s: layer %u of 0 to %u computes values that are not "
                    "finite: its weights, or those before it, are damaged or of another type than the file "
                    "says: get or convert the file again; or a loaded session is damaged", path,
                    (unsigned)where, (unsigned)c->hp->n_layers - 1);
}

/* Logits of an approximate head are -infinity if they were not computed. */
static void check_logits(qsf_context *c)
{
    const float least = c->o.head == QSF_HEAD_EXACT ? -FLT_MAX : -INFINITY;
    for (uint32_t i = 0; i < c->batch.n_asked; i++) {
        const float *logits = c->b.logits + i * c->b.ld_vocab;
        uint32_t bad = 0;
        for (uint32_t t = 0; t < c->hp->n_vocab; t++) bad |= !(logits[t] < INFINITY) | (logits[t] < least);
        if (bad) atomic_store_explicit(&c->now.not_finite, true, memory_order_relaxed);
    }
}

static qsf_status compute_layer(qsf_context *c, qsf_pass *p, uint32_t layer)
{
    const uint32_t next = next_layer(c, layer + 1);
    const bool chooses = p->cpu->experts && c->model->source->layers[layer].n_experts && !c->now.walk.n;
    if (!c->now.walk.n) qsf_exit_join(&c->early_exit, &c->batch, p, layer);
    qsf_lora_rows(&c->lora, &c->batch, false);
    const qsf_status st = qsf_lora_fetch(&c->lora, layer, &c->error);
    if (st) return st;
    /* Bytes travel while this layer computes: first those of the experts that it chooses. */
    if (!chooses) qsf_layers_ahead(&c->fetch, layer);
    qsf_lora_ahead(&c->lora, layer, c->hp->n_layers, c->batch.n_asked > 0);
    if (layer + 2 >= c->hp->n_layers && c->batch.n_asked) qsf_head_stream_ahead(&c->head_stream);
    p->layer = &c->model->source->layers[layer];
    p->number = (int32_t)layer;
    p->place.kv = qsf_layers_kept(c->model->source, c->o.quality,
                                  p->layer->kv_from ? p->layer->kv_from - 1 : layer);
    if (p->cpu->state) p->place.state = qsf_state_place(c->model->source, c->o.quality, layer);
    qsf_layer_compute(p);
    if (c->now.walk.n) return QSF_OK;
    if (c->reducer.st || atomic_load_explicit(&c->now.not_finite, memory_order_relaxed)) return QSF_OK;
    const uint32_t to = c->now.hidden
        ? next : qsf_exit_next(&c->early_exit, &c->batch, p, c->now.n_new, layer, next);
    for (uint32_t i = next; i < to; i++) c->stats.layers_left += !qsf_layer_skipped(&c->fetch, i);
    c->now.stage = qsf_stage_of(c->hp, to);
    return QSF_OK;
}

static qsf_status compute_head(qsf_context *c, qsf_pass *p, uint32_t part, const qsf_head_units *units)
{
    p->w = units->final;
    if (part == 0 && c->now.hidden) {
        qsf_head_hidden(p, c->batch.n - c->now.n_new, c->now.n_new);
        c->now.n_hidden = c->now.n_new;
    }
    c->now.stage.number++;
    if (!c->batch.n_asked) return QSF_OK;
    qsf_lora_rows(&c->lora, &c->batch, true);
    const qsf_status st = qsf_lora_fetch(&c->lora, c->hp->n_layers + 1, &c->error);
    if (st) return st;
    qsf_lora_ahead(&c->lora, c->hp->n_layers + 1, c->hp->n_layers, true);
    const qsf_head_part head = qsf_head_stream_part(&c->head_stream, part, units);
    qsf_head_compute(&c->head, p, &head, part == 0);
    qsf_head_stream_next(&c->head_stream, part);
    return QSF_OK;
}

static qsf_status step_compute(qsf_context *c, const step_weights *have)
{
    qsf_status st;
    const uint32_t n_layers = c->hp->n_layers;
    const qsf_stage stage = c->now.stage;
    qsf_pass p = step_pass(c);
    p.w = have->w;
    if (stage.kind == QSF_STAGE_EMBEDDING) {
        const uint32_t *places = c->hp->tied ? qsf_head_places(&c->head) : NULL;
        const uint64_t begin = qsf_now(c->platform);
        if (qsf_embedding_compute(&c->embedding, &p, places))
            c->now.stage = qsf_stage_of(c->hp, next_layer(c, 0));
        (void)qsf_pass_alone(&p, QSF_OP_EMBEDDING, begin);
    } else if (stage.kind == QSF_STAGE_LAYER) {
        if ((st = compute_layer(c, &p, stage.number)) || (st = step_finite(c, stage.number))) return st;
    } else if ((st = compute_head(c, &p, stage.number, &have->head))) {
        return st;
    }
    if (c->now.stage.kind != QSF_STAGE_HEAD) return QSF_PENDING;
    c->now.n_states = qsf_part_ends(c->model->source) ? 0 : c->batch.n;
    if (c->now.stage.number < parts_needed(c)) return QSF_PENDING;
    if (c->behind.rows && (st = qsf_behind_compute(c))) return st;
    check_logits(c);
    if ((st = step_finite(c, n_layers))) return st;
    batch_done(c);
    return QSF_OK;
}

static bool step_does_record(const qsf_context *c)
{
#if defined(QSF_NO_RECORD)
    (void)c;
    return false;
#else
    return c->recorder.fn != NULL;
#endif
}

static qsf_status step_recorded(qsf_context *c, const step_weights *have)
{
    static const char *const names[] = { "embedding", "layer", "head" };
    const qsf_stage stage = c->now.stage;
    const uint64_t begin = qsf_now(c->platform);
    const qsf_status st = step_compute(c, have);
    qsf_record_stretch(&c->recorder, QSF_RECORD_STEP, names[stage.kind],
                       stage.kind == QSF_STAGE_LAYER ? (int32_t)stage.number : -1, c->batch.n, begin);
    if (!st) qsf_record_stretch(&c->recorder, QSF_RECORD_BATCH, "batch", -1, c->now.n_new, c->now.begun_ns);
    return st;
}

qsf_status qsf_step(qsf_context *c, bool *waiting)
{
    step_weights weights = { 0 };
    if (waiting) *waiting = false;
    if (!c->now.active) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no batch is in progress");
    if (c->now.waiting_ns) qsf_fetch_waited(&c->fetch, qsf_now(c->platform) - c->now.waiting_ns);
    c->now.waiting_ns = 0;
    qsf_status st = step_fetch(c, false, &weights);
    if (st == QSF_PENDING) {
        if (waiting) *waiting = true;
        c->now.waiting_ns = qsf_now(c->platform);
        return st;
    }
    if (!st) st = step_does_record(c) ? step_recorded(c, &weights) : step_compute(c, &weights);
    if (st && st != QSF_PENDING) qsf_batch_drop(c);
    return st;
}

uint32_t qsf_batch_layer(const qsf_context *c)
{
    const qsf_stage stage = c->now.stage;
    if (!c->now.active || stage.kind == QSF_STAGE_HEAD) return c->hp->n_layers;
    return stage.kind == QSF_STAGE_LAYER ? stage.number : 0;
}

qsf_status qsf_wait(qsf_context *c)
{
    if (!c->now.active) return QSF_OK;
    step_weights weights;
    const qsf_status st = step_fetch(c, true, &weights);
    if (st != QSF_E_UNSUPPORTED) c->now.waiting_ns = 0;
    if (st && st != QSF_E_UNSUPPORTED) qsf_batch_drop(c);     /* a host that cannot wait may keep stepping */
    return st;
}

qsf_status qsf_refine(qsf_context *c, bool wait)
{
    return qsf_refine_step(&c->fetch, wait && c->model->source->io->read_wait, &c->error);
}

/* A batch that has begun, or not: st. */
static qsf_status batch_finish(qsf_context *c, qsf_status st)
{
    bool waiting;
    while (!st) {
        if ((st = qsf_step(c, &waiting)) != QSF_PENDING) return st;
        st = waiting ? qsf_wait(c) : QSF_OK;
    }
    return st;
}

qsf_status qsf_compute(qsf_context *c, const qsf_row *rows, size_t n)
{
    return batch_finish(c, qsf_batch_begin(c, rows, n));
}

qsf_status qsf_compute_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states)
{
    return batch_finish(c, qsf_batch_begin_from(c, rows, n, states));
}

const float *qsf_batch_states(const qsf_context *c, size_t i)
{
    return !c->now.active && i < c->now.n_states ? c->b.x + i * c->b.ld_embd : NULL;
}

/* The rows of a chunk live in the KV tables only; so a small array on the stack feeds batches of
 * any size. */
qsf_status qsf_feed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, const float **logits)
{
    qsf_row rows[512];
    const size_t most = QSF_MIN(c->o.n_batch, QSF_ARRAY_LEN(rows));
    if (logits) *logits = NULL;
    if (n == 0) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no tokens were given");
    qsf_status st = qsf_seq_check(c, s);
    if (st) return st;
    qsf_batch_drop(c);
    const uint32_t room = qsf_seq_room(c, s);
    if (n > room && room)
        return qsf_fail(&c->error, QSF_E_FULL,
                        "%llu tokens do not fit: the context of %u positions has room for %u more",
                        (unsigned long long)n, (unsigned)qsf_seq_end(c), (unsigned)room);
    for (size_t at = 0; at < n;) {
        const size_t len = QSF_MIN(most, n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], logits && at + i == n - 1 };
        if ((st = qsf_compute(c, rows, len))) return st;
        at += len;
    }
    if (logits) *logits = qsf_logits(c, 0);
    return QSF_OK;
}

qsf_status qsf_logits_of(qsf_context *c, size_t i, const uint32_t *mask)
{
    qsf_head_units units;
    if (c->now.active || i >= c->batch.n_asked || !qsf_head_leaves_out(&c->head, c->batch.n_asked))
        return QSF_OK;
    const qsf_status st = qsf_head_stream_fetch(&c->head_stream, 0, true, &units, &c->error);
    if (st) return st;
    const qsf_head_part head = qsf_head_stream_part(&c->head_stream, 0, &units);
    qsf_pass p = step_pass(c);
    p.w = units.final;
    qsf_head_rows(&c->head, &p, &head, (uint32_t)i, mask);
    check_logits(c);
    return step_finite(c, c->hp->n_layers);
}

const float *qsf_logits(const qsf_context *c, size_t i)
{
    return !c->now.active && i < c->batch.n_asked ? c->b.logits + i * c->b.ld_vocab : NULL;
}
