/* The step: moves a batch on by one stage.
 * SPDX-License-Identifier: MIT */
#include "engine/step.h"
#include "engine/sequence.h"
#include "weights/refine.h"

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
        if (!known && !c->hp->eagle && (qsf_part_begins(c->model->source) || c->hp->mtp))
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
    if (c->batch.n_asked && !c->head_stream.elsewhere) return c->head_stream.n_parts;
    return c->batch.n_asked > 0 || c->now.hidden;
}

/* Rows are embedded or, if states is not NULL, are the output of the layer before the first one
 * here; a layer for multi-token prediction takes both. */
static void batch_input(qsf_context *c, const float *states)
{
    qsf_executor *x = c->executor;
    const bool embeds = !states || c->hp->mtp;
    c->now.stage = embeds ? (qsf_stage){ QSF_STAGE_EMBEDDING, 0 } : qsf_stage_of(c->hp, next_layer(c, 0));
    x->does->begin(x, embeds);
    for (uint32_t r = 0; states && r < c->batch.n; r++)
        x->does->rows_in(x, r, states + (size_t)r * c->hp->n_embd, NULL);
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

/* A head's rows have no stage for their embedding. */
static void eagle_input(qsf_context *c, const qsf_eagle_rows *from)
{
    qsf_executor *x = c->executor;
    const size_t n_embd = c->hp->n_embd, n = from->own ? n_embd : c->hp->n_features;
    c->batch.own_states = from->own;
    c->now.stage = qsf_stage_of(c->hp, next_layer(c, 0));
    x->does->begin(x, false);
    for (uint32_t r = 0; r < c->batch.n; r++)
        x->does->rows_in(x, r, from->embd + r * n_embd, from->states + r * n);
}

/* eagle: of an EAGLE 3 head, else NULL. */
static qsf_status batch_begin(qsf_context *c, const qsf_row *rows, size_t n, const float *x,
                              const qsf_eagle_rows *eagle)
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
    c->now.hidden = (c->hidden || c->follower.hidden) && ends;
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
    qsf_batch_group(&c->batch);
    qsf_exit_begin(&c->early_exit);
    if (eagle) eagle_input(c, eagle);
    else batch_input(c, x);
    c->now.begun_ns = qsf_now(c->platform);
    c->now.waiting_ns = 0;
    const qsf_thread_count *threads = batch_threads(c);
    qsf_pool_use(c->pool, threads ? qsf_thread_count_next(threads) : c->o.n_threads);
    return QSF_OK;
}

static qsf_status batch_of_eagle(qsf_context *c)
{
    return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is an EAGLE 3 head, which drafts for another model: run "
                    "that model, with this file as its draft model (--draft-model)", c->model->source->path);
}

qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n)
{
    const qsf_source *s = c->model->source;
    if (s->hp.eagle) return batch_of_eagle(c);
    if (!qsf_part_begins(s))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open from layer %u on: its batches begin with "
                        "hidden states (qsf_batch_begin_from)", s->path, (unsigned)s->n_before);
    return batch_begin(c, rows, n, NULL, NULL);
}

qsf_status qsf_batch_begin_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states)
{
    const qsf_source *s = c->model->source;
    if (s->hp.eagle) return batch_of_eagle(c);
    if (qsf_part_begins(s))
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "%s is open from its first layer on: its batches begin "
                        "with tokens (qsf_batch_begin)", s->path);
    return batch_begin(c, rows, n, states, NULL);
}

/* Brings the weights that the stage needs; wait: does not return QSF_PENDING. */
static qsf_status step_fetch(qsf_context *c, bool wait, qsf_stage_work *need)
{
    const qsf_stage stage = c->now.stage;
    if (stage.kind == QSF_STAGE_EMBEDDING) {
        const qsf_status st = qsf_embedding_fetch(&c->embedding, &c->batch, false, &need->w, &c->error);
        if (st != QSF_PENDING || !wait) return st;
        if (!c->embedding.streamed) qsf_layers_ahead(&c->fetch, c->hp->n_layers - 1);
        return qsf_embedding_fetch(&c->embedding, &c->batch, true, &need->w, &c->error);
    }
    if (stage.kind == QSF_STAGE_HEAD && !c->batch.n_asked)
        return qsf_head_stream_norm(&c->head_stream, wait, &need->head.final, &c->error);
    if (stage.kind == QSF_STAGE_HEAD)
        return qsf_head_stream_fetch(&c->head_stream, stage.number, wait, &need->head, &c->error);
    if (qsf_layer_elsewhere(&c->fetch, stage.number)) return QSF_OK;
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
    qsf_exit_end(&c->early_exit);
    if (batch_threads(c)) qsf_thread_count_took(batch_threads(c), ns);
    if (c->now.n_new == c->batch.n_asked) {
        c->stats.tokens_generated += c->now.n_new;
        c->stats.ns_generated += ns;
    } else {
        c->stats.tokens_prompt += c->now.n_new;
        c->stats.ns_prompt += ns;
    }
    c->executor->does->end(c->executor, c->tables.seqs, true);
}

/* What the batch was computed for comes to the host.  Logits of an approximate head are -infinity
 * if they were not computed. */
static qsf_status check_logits(qsf_context *c)
{
    const qsf_rows *logits = &c->now.rows[QSF_ROWS_LOGITS];
    const float least = c->o.head == QSF_HEAD_EXACT ? -FLT_MAX : -INFINITY;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < c->batch.n_asked; i++) {
        const float *x = logits->x + i * logits->ld;
        for (uint32_t t = 0; t < c->hp->n_vocab; t++) bad |= !(x[t] < INFINITY) | (x[t] < least);
    }
    return bad ? qsf_head_not_finite(c->model->source, &c->error) : QSF_OK;
}

static qsf_status rows_out(qsf_context *c, qsf_rows_kind kind)
{
    qsf_executor *x = c->executor;
    return x->does->rows_out(x, kind, &c->now.rows[kind], &c->error);
}

void qsf_choice_tell(qsf_context *c, const qsf_choice *x)
{
    uint32_t i = 0, *n = &c->now.n_choices;
    while (i < *n && c->choices[i].seq != x->seq) i++;
    if (i == QSF_CHOICES_MOST || !c->choices) return;
    c->choices[i] = *x;
    *n += i == *n;
}

#if defined(QSF_NO_CANDIDATES)
static inline qsf_status candidates_out(qsf_context *c) { (void)c; return QSF_OK; }
static inline bool candidates_suffice(const qsf_context *c) { (void)c; return false; }
static inline const float *candidates_logits(const qsf_context *c, size_t i)
{
    (void)c, (void)i;
    return NULL;
}
#else
static bool candidates_suffice(const qsf_context *c) { return c->now.candidates != NULL; }

/* Candidates come in place of logits, if the batch's rows may do with them and the executor has
 * any. */
static qsf_status candidates_out(qsf_context *c)
{
    qsf_executor *x = c->executor;
    qsf_status st = QSF_OK;
    c->now.candidates = NULL;
    if (c->now.few && x->does->candidates && c->batch.n_asked && !c->behind.rows)
        st = x->does->candidates(x, &c->now.candidates, &c->error);
    if (st != QSF_PENDING) c->now.few = false;
    return st;
}

/* The logits of a row that has candidates. */
static const float *candidates_logits(const qsf_context *c, size_t i)
{
    const float *logits = NULL;
    qsf_error *err = &((qsf_context *)(uintptr_t)c)->error;
    return c->executor->does->logits_row(c->executor, (uint32_t)i, &logits, err) ? NULL : logits;
}
#endif

static qsf_status batch_results(qsf_context *c)
{
    qsf_status st;
    const bool states = !qsf_part_ends(c->model->source);
    if (states && (st = rows_out(c, QSF_ROWS_STATES))) return st;
    if (c->now.hidden && (st = rows_out(c, c->hp->eagle ? QSF_ROWS_STATES : QSF_ROWS_HIDDEN))) return st;
    if (c->hp->eagle) c->now.rows[QSF_ROWS_HIDDEN] = c->now.rows[QSF_ROWS_STATES];
    if ((st = candidates_out(c))) return st;
    if (!candidates_suffice(c) && (c->batch.n_asked || c->behind.rows)
        && (st = rows_out(c, QSF_ROWS_LOGITS))) return st;
    c->now.n_states = states ? c->batch.n : 0;
    c->now.n_hidden = c->now.hidden ? c->now.n_new : 0;
    if (c->behind.rows && (st = qsf_behind_compute(c))) return st;
    return candidates_suffice(c) ? QSF_OK : check_logits(c);
}

static qsf_status batch_output(qsf_context *c)
{
    const qsf_status st = batch_results(c);
    if (st != QSF_PENDING) c->now.n_choices = 0;
    return st;
}

/* Before a layer: rows that waited for it join the batch, and bytes travel while it computes, first
 * those of the experts that it chooses. */
static qsf_status begin_layer(qsf_context *c, uint32_t layer)
{
    const bool chooses = c->experts.fetch && c->model->source->layers[layer].n_experts && !c->now.walk.n;
    if (!c->now.walk.n) qsf_exit_join(&c->early_exit, &c->batch, c->executor, layer);
    qsf_lora_rows(&c->lora, &c->batch, false);
    const qsf_status st = qsf_lora_fetch(&c->lora, layer, &c->error);
    if (st) return st;
    if (!chooses) qsf_layers_ahead(&c->fetch, layer);
    qsf_lora_ahead(&c->lora, layer, c->hp->n_layers, c->batch.n_asked > 0);
    if (2 * layer >= c->hp->n_layers && c->batch.n_asked)
        qsf_head_stream_ahead(&c->head_stream, layer + 2 >= c->hp->n_layers);
    return QSF_OK;
}

/* Rows go into layer `to`, past those from `from` on that are skipped: the follower gets them. */
static qsf_status tap_rows(qsf_context *c, uint32_t from, uint32_t to)
{
    const qsf_follower *f = &c->follower;
    const size_t n_embd = c->hp->n_embd;
    for (uint32_t k = 0; f->tapped && k < QSF_TAPS; k++) {
        if (f->taps[k] < from || f->taps[k] > to) continue;
        const qsf_status st = rows_out(c, QSF_ROWS_STATES);
        const qsf_rows *x = &c->now.rows[QSF_ROWS_STATES];
        if (st) return st;
        for (uint32_t r = 0; r < c->batch.n; r++)
            memcpy(f->tapped + ((size_t)r * QSF_TAPS + k) * n_embd, x->x + r * x->ld, n_embd * sizeof *x->x);
    }
    return QSF_OK;
}

static qsf_status end_layer(qsf_context *c, uint32_t layer)
{
    const uint32_t next = next_layer(c, layer + 1);
    uint32_t to = next;
    const qsf_status st = c->follower.tapped ? tap_rows(c, layer + 1, next) : c->now.hidden ? QSF_OK
        : qsf_exit_next(&c->early_exit, &c->batch, c->executor, c->now.n_new, layer, &to, &c->error);
    if (st) return st;
    for (uint32_t i = next; i < to; i++) c->stats.layers_left += !qsf_layer_skipped(&c->fetch, i);
    c->now.stage = qsf_stage_of(c->hp, to);
    return QSF_OK;
}

static qsf_status begin_head(qsf_context *c)
{
    const uint32_t unit = c->hp->n_layers + 1;
    if (!c->batch.n_asked) return QSF_OK;
    qsf_lora_rows(&c->lora, &c->batch, true);
    const qsf_status st = qsf_lora_fetch(&c->lora, unit, &c->error);
    if (!st) qsf_lora_ahead(&c->lora, unit, c->hp->n_layers, true);
    return st;
}

static qsf_status step_stage(qsf_context *c, const qsf_stage_work *work)
{
    qsf_executor *x = c->executor;
    const qsf_stage stage = work->stage;
    qsf_status st = stage.kind == QSF_STAGE_LAYER ? begin_layer(c, stage.number)
                    : stage.kind == QSF_STAGE_HEAD ? begin_head(c) : QSF_OK;
    if (st || (st = x->does->stage(x, work, &c->error))) return st;
    if (stage.kind == QSF_STAGE_LAYER) return end_layer(c, stage.number);
    if (stage.kind == QSF_STAGE_EMBEDDING) {
        c->now.stage = qsf_stage_of(c->hp, next_layer(c, 0));
        return tap_rows(c, 0, next_layer(c, 0));
    }
    if (c->batch.n_asked) qsf_head_stream_next(&c->head_stream, stage.number);
    c->now.stage.number++;
    return QSF_OK;
}

/* Whether all stages are computed. */
static bool batch_computed(const qsf_context *c)
{
    return c->now.stage.kind == QSF_STAGE_HEAD && c->now.stage.number >= parts_needed(c);
}

static qsf_status step_compute(qsf_context *c, const qsf_stage_work *work)
{
    qsf_status st = batch_computed(c) ? QSF_OK : step_stage(c, work);
    if (st) return st;
    if (!batch_computed(c)) return QSF_PENDING;
    if ((st = batch_output(c))) return st;
    batch_done(c);
    if (c->now.active) return QSF_PENDING;              /* the executor has begun another */
    if (c->follower.seen) c->follower.seen(c->follower.user, c);
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

static qsf_status step_recorded(qsf_context *c, const qsf_stage_work *have)
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
    qsf_stage_work work = { .stage = c->now.stage, .walk = &c->now.walk, .n_new = c->now.n_new,
                            .hidden = c->now.hidden };
    if (waiting) *waiting = false;
    if (!c->now.active) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no batch is in progress");
    if (c->now.waiting_ns) qsf_fetch_waited(&c->fetch, qsf_now(c->platform) - c->now.waiting_ns);
    c->now.waiting_ns = 0;
    qsf_status st = batch_computed(c) ? QSF_OK : step_fetch(c, false, &work);
    if (st == QSF_PENDING) {
        if (waiting) *waiting = true;
        c->now.waiting_ns = qsf_now(c->platform);
        return st;
    }
    if (!st) st = step_does_record(c) ? step_recorded(c, &work) : step_compute(c, &work);
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
    if (!c->now.active || batch_computed(c)) return QSF_OK;
    qsf_stage_work work = { .stage = c->now.stage };
    const qsf_status st = step_fetch(c, true, &work);
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

qsf_status qsf_compute_eagle(qsf_context *c, const qsf_row *rows, size_t n, const qsf_eagle_rows *from)
{
    return batch_finish(c, batch_begin(c, rows, n, NULL, from));
}

qsf_status qsf_compute_from(qsf_context *c, const qsf_row *rows, size_t n, const float *states)
{
    return batch_finish(c, qsf_batch_begin_from(c, rows, n, states));
}

const float *qsf_batch_states(const qsf_context *c, size_t i)
{
    const qsf_rows *states = &c->now.rows[QSF_ROWS_STATES];
    return !c->now.active && i < c->now.n_states ? states->x + i * states->ld : NULL;
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
#if !defined(QSF_NO_CANDIDATES)
    if (logits && !*logits && c->batch.n_asked) return QSF_E_IO;        /* a GPU was lost in between */
#endif
    return QSF_OK;
}

qsf_status qsf_logits_of(qsf_context *c, size_t i, const uint32_t *mask)
{
    qsf_executor *x = c->executor;
    if (c->now.active || i >= c->batch.n_asked || candidates_suffice(c)) return QSF_OK;
    qsf_status st = x->does->logits_more(x, (uint32_t)i, mask, &c->error);
    if (!st) st = rows_out(c, QSF_ROWS_LOGITS);
    return st ? st : check_logits(c);
}

const float *qsf_logits(const qsf_context *c, size_t i)
{
    const qsf_rows *logits = &c->now.rows[QSF_ROWS_LOGITS];
    if (qsf_candidates_of(c, i)) return candidates_logits(c, i);
    return !c->now.active && i < c->batch.n_asked ? logits->x + i * logits->ld : NULL;
}
