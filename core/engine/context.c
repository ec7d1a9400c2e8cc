/* The context's life: options, plan, memory.
 * SPDX-License-Identifier: MIT */
#include "engine/context.h"
#include "engine/adapters.h"

#include "base/pieces.h"
#include "base/sized.h"
#include "engine/options.h"
#include "engine/plan.h"
#include "layers/layer.h"
#include "layers/route.h"
#include "model/part.h"
#include "weights/refine.h"

/* Most texts fit; -b gives longer ones more. */
enum { ENCODER_BATCH = 512 };

/* What was left to the model, and what follows from the rest. */
static qsf_status context_fill(const qsf_hparams *hp, qsf_context_options *o, qsf_error *err)
{
    const uint32_t trained = hp->n_ctx_train ? hp->n_ctx_train : 2048;
    if (o->n_ctx == 0) o->n_ctx = QSF_MIN(trained, 4096);
    if (hp->learned_pos && o->n_ctx > trained)
        return qsf_fail(err, QSF_E_ARGUMENT, "a context of %u positions; the model has learned only %u",
                        (unsigned)o->n_ctx, (unsigned)trained);
    if (o->n_logits == 0) o->n_logits = o->n_seqs;
    if (hp->both_ways) {        /* an input is one batch, and keeps no keys and values after a layer */
        if (o->kv_window)
            return qsf_fail(err, QSF_E_ARGUMENT, "an encoder attends to its whole text: kv_window is not "
                                                 "supported");
        if (o->early_exit > 0)
            return qsf_fail(err, QSF_E_ARGUMENT, "early exit is not supported for encoders");
        o->n_batch = QSF_MAX(o->n_batch, ENCODER_BATCH);
        o->kv_type = QSF_KV_F32;
    }
    o->n_batch = QSF_MIN(o->n_batch, o->n_ctx);
    o->n_logits = QSF_MIN(o->n_logits, o->n_batch);
    o->device_layers = o->ram_budget ? 0 : QSF_MIN(o->device_layers, hp->n_layers);
    if (o->f32) o->kv_type = QSF_KV_F32;
    return QSF_OK;
}

/* What a part of a model, or a share of its layers, cannot do: it has no head, or not all heads. */
static qsf_status context_of_part(const qsf_source *s, const qsf_context_options *o, qsf_error *err)
{
    const bool shared = qsf_part_shared(s);
    const char *what = o->early_exit > 0 ? "early-exit"
                       : o->head != QSF_HEAD_EXACT ? "an approximate head"
                       : shared && (o->kv_heavy || o->kv_may_drop) ? "what leaves positions out"
                       : shared && o->act_quant == QSF_ACT_ROW ? "act-quant row" : NULL;
    return what ? qsf_part_refuse(s, what, err) : QSF_OK;
}

/* The options that are meant, checked, and the kernels that they choose. */
static qsf_status context_options(const qsf_model *m, const qsf_context_options *opts, qsf_context_options *o,
                                  bool *ctx_given, qsf_kernels *k, qsf_error *err)
{
    const qsf_platform *p = m->platform;
    if (m->source->n_units == 0)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s has a vocabulary only, no weights to run",
                        m->source->path);
    qsf_context_defaults(o);
    qsf_status st = QSF_TAKE(o, opts, qsf_context_options, err);
    if (st) return st;
    *ctx_given = o->n_ctx != 0;
    st = qsf_layers_check(m->source, err);
    if (!st) st = qsf_context_check(o, err);
    if (!st) st = context_fill(&m->source->hp, o, err);
    if (st) return st;
    if (o->early_exit > 0 && qsf_state_place(m->source, o->quality, m->source->hp.n_layers))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s has layers that keep state, which early-exit would not "
                        "update: do not use it", m->source->path);
    if ((st = context_of_part(m->source, o, err))) return st;
    const char *isa = o->isa ? o->isa : p->env ? p->env(p->user, "QSF_ISA") : NULL;
    if ((st = qsf_kernels_init(k, p->cpu_features ? p->cpu_features(p->user) : 0, isa, err))) return st;
    o->isa = k->isa;
    o->n_threads = qsf_pool_threads(p, o->n_threads);
    return QSF_OK;
}

qsf_status qsf_context_plan(const qsf_model *model, const qsf_context_options *opts, qsf_plan *out,
                            qsf_error *err)
{
    qsf_context_options o;
    qsf_kernels k;
    qsf_memory m;
    bool ctx_given = false;
    qsf_plan plan = { 0 };
    qsf_status st = QSF_GIVE(out, &plan, err);
    if (st || (st = context_options(model, opts, &o, &ctx_given, &k, err))) return st;
    if (!(st = qsf_memory_init(&m, model, err))) st = qsf_plan_make(model, &o, ctx_given, &m, &plan, err);
    qsf_memory_done(&m, model);
    (void)QSF_GIVE(out, &plan, NULL);
    return st;
}

static void context_records(qsf_context *c)
{
    c->recorder.fn = c->o.record;
    c->recorder.user = c->o.record_user;
    c->recorder.platform = c->platform;
    c->recorder.source = c->model->source;
    c->recorder.k = &c->k;
    c->recorder.n_threads = c->o.n_threads;
    c->fetch.record = c->o.record;
    c->fetch.record_user = c->o.record_user;
    c->fetch.record_thread = c->o.n_threads;
}

static qsf_status context_weights(qsf_context *c, bool ctx_given, qsf_error *err)
{
    const qsf_source *s = c->model->source;
    qsf_memory m;
    qsf_status st;
    if ((st = qsf_memory_init(&m, c->model, err))) goto done;
    if ((st = qsf_plan_make(c->model, &c->o, ctx_given, &m, &c->plan, err))) goto done;
    qsf_plan_log(c->model, &c->plan, &c->o);
    const bool streams = c->plan.n_slots || c->plan.n_experts || m.embedding.streams || m.head.streams;
    if ((st = qsf_source_read_by(s, c->model->io, streams, &c->io, err))) goto done;
    if ((st = qsf_reserve_init(&c->reserve, c->platform, m.reserve, err))) goto done;
    if ((st = qsf_fetch_init(&c->fetch, s, &c->reserve.table, &m.fetch, c->pool, err))) goto done;
    c->fetch.check_every = c->o.check_every;
    c->fetch.lut = c->o.kernel_route == QSF_ROUTE_LUT;
    c->fetch.quality = c->o.quality;
    c->fetch.first = c->o.first_stage && c->o.head != QSF_HEAD_SCREEN && qsf_refine_possible(&c->fetch);
    context_records(c);
    if (c->o.quality < 1 && !qsf_layers_known(s))
        qsf_log(c->model, QSF_LOG_WARN, "%s does not mark less important layers: a lower quality has no "
                "effect (qsf-convert --calibration measures it)", s->path);
    const bool threaded = c->plan.n_slots || c->plan.n_experts || m.head.streams;
    if (threaded && (st = qsf_fetch_start_thread(&c->fetch, err))) goto done;
    if ((st = qsf_experts_init(&c->experts, &c->fetch, &m.fetch, err))) goto done;
    if ((st = qsf_embedding_init(&c->embedding, &c->fetch, &m.embedding, err))) goto done;
    st = qsf_head_stream_init(&c->head_stream, &c->fetch, &m.head, err);
done:
    qsf_memory_done(&m, c->model);
    return st;
}

static qsf_status context_batch(qsf_context *c, qsf_error *err)
{
    const qsf_platform *mem = &c->reserve.table;
    qsf_piece list[QSF_CONTEXT_TABLES];
    qsf_context_pieces(c, c->model->source, &c->o, list);
    return qsf_pieces_alloc(mem, list, QSF_CONTEXT_TABLES, err);
}

/* asked: the context's length before the plan, from which answers must not depend on what a budget
 * left of it. */
static void context_ropes(qsf_context *c, uint32_t asked)
{
    const qsf_source *s = c->model->source;
    double *freq = c->rope_freqs;
    for (uint32_t i = 0; i < s->n_ropes; i++) {
        qsf_rope *r = &c->ropes[i];
        qsf_rope_init(r, &s->ropes[i], freq, c->o.n_ctx, asked);
        freq += r->half;
    }
}

static void copy_block(void *user, uint32_t to, uint32_t from)
{
    qsf_executor *x = user;
    x->does->kv_copy(x, to, from);
}

static void copy_slot(void *user, uint32_t to, uint32_t from)
{
    qsf_executor *x = user;
    x->does->state_copy(x, to, from);
}

/* What computes, over the tables of sequences and of the batch. */
static qsf_status context_executor(qsf_context *c, qsf_error *err)
{
    const qsf_executor_host host = {
        .platform = c->platform, .memory = &c->reserve.table, .source = c->model->source, .o = &c->o,
        .k = &c->k, .pool = c->pool, .batch = &c->batch, .seqs = c->tables.seqs, .state_seqs = c->state.seqs,
        .ropes = c->ropes, .lora = &c->lora, .embedding = &c->embedding, .head_stream = &c->head_stream,
        .experts = &c->experts, .account = &c->account, .recorder = &c->recorder, .watch = &c->watch,
        .reducer = &c->reducer,
    };
    c->executor = &c->on_cpu.base;
    c->executor->does = &qsf_cpu_executor_table;
    c->tables.copy = copy_block;
    c->state.copy = copy_slot;
    c->tables.user = c->state.user = c->executor;
    return c->executor->does->init(c->executor, &host, err);
}

static qsf_status context_state(qsf_context *c, uint32_t asked, qsf_error *err)
{
    const qsf_source *s = c->model->source;
    const qsf_platform *mem = &c->reserve.table;
    context_ropes(c, asked);
    c->early_exit.hp = c->hp;
    c->early_exit.threshold = c->o.early_exit;
    qsf_status st = qsf_kv_tables_init(&c->tables, mem, qsf_kv_blocks_of(&c->o), c->o.n_seqs, err);
    if (st) return st;
    const bool state = qsf_state_place(s, c->o.quality, s->hp.n_layers) > 0;
    if ((st = qsf_state_tables_init(&c->state, mem, state ? c->o.n_seqs : 0, err))) return st;
    return context_executor(c, err);
}

qsf_status qsf_context_new(qsf_model *m, const qsf_context_options *opts, qsf_context **out, qsf_error *err)
{
    qsf_status st;
    bool ctx_given = false;
    *out = NULL;
    const qsf_platform *p = m->platform;
    qsf_context *c = qsf_alloc(p, sizeof *c, "context", err);
    if (!c) return QSF_E_MEMORY;
    c->model = m;
    c->platform = p;
    c->hp = &m->source->hp;
    if ((st = context_options(m, opts, &c->o, &ctx_given, &c->k, err))) goto fail;
    const uint32_t asked = c->o.n_ctx;
    if ((st = qsf_route_choose(m, &c->k, &c->o, err))) goto fail;
    if ((st = qsf_pool_new(p, c->o.n_threads, &c->pool, err))) goto fail;
    c->threads[0] = c->threads[1] = qsf_thread_count_of(c->o.n_threads);
    if ((st = context_weights(c, ctx_given, err))) goto fail;
    if ((st = context_batch(c, err)) || (st = context_state(c, asked, err))) goto fail;
    qsf_context_reset_stats(c);
    if (c->o.ram_budget) qsf_host_release_code(p);      /* much of it is for opening */
    *out = c;
    return QSF_OK;
fail:
    qsf_context_free(c);
    return st;
}

void qsf_context_free(qsf_context *c)
{
    if (!c) return;
    const qsf_platform *p = c->platform, *mem = &c->reserve.table;
    qsf_piece list[QSF_CONTEXT_TABLES];
    qsf_pool_free(c->pool);
    qsf_adapters_done(&c->lora);
    qsf_behind_done(c);
    if (c->executor) c->executor->does->done(c->executor);
    qsf_head_stream_done(&c->head_stream);
    qsf_embedding_done(&c->embedding);
    qsf_experts_done(&c->experts);
    qsf_fetch_done(&c->fetch);
    qsf_state_tables_done(&c->state);
    qsf_kv_tables_done(&c->tables);
    qsf_context_pieces(c, c->model->source, &c->o, list);
    qsf_pieces_free(mem, list, QSF_CONTEXT_TABLES);
    qsf_reserve_done(&c->reserve);
    qsf_dealloc(p, c, sizeof *c);
}

qsf_model  *qsf_context_model(qsf_context *c) { return c->model; }
uint32_t    qsf_context_batch(const qsf_context *c) { return c->o.n_batch; }
const char *qsf_last_error(const qsf_context *c) { return c->error.text; }
qsf_status  qsf_context_get_plan(const qsf_context *c, qsf_plan *out)
{
    return QSF_GIVE(out, &c->plan, NULL);
}

qsf_status qsf_context_get_stats(const qsf_context *c, qsf_stats *out)
{
    qsf_stats s = c->stats;
    const qsf_fetch *l = &c->fetch;
    s.ns_matmul = qsf_account_ns(&c->account, QSF_OP_MATMUL);
    s.ns_attention = qsf_account_ns(&c->account, QSF_OP_ATTEND);
    s.ns_other = qsf_account_ns(&c->account, QSF_OP_OTHER);
    s.ns_head = qsf_account_ns(&c->account, QSF_OP_TO_HEAD);
    s.bytes_read = l->bytes_read;
    s.adapter_bytes = c->lora.bytes_read;
    s.experts_used = c->experts.n_used;
    s.experts_found = c->experts.n_found;
    s.experts_read = c->experts.shelf.n_read;
    s.experts_bytes = c->experts.shelf.bytes_read;
    s.ns_wait_io = l->ns_wait;
    s.ns_prepare = l->took.prepare;
    s.ns_read = l->took.read;
    s.ns_check = l->took.unit.check;
    s.ns_decompress = l->took.unit.unpack;
    /* Seen: the computing thread did nothing else. */
    const uint64_t all = s.ns_read + s.ns_prepare, seen = l->ns_wait + l->ns_own;
    s.overlap = seen < all ? (float)((double)(all - seen) / (double)all) : 0;
    return QSF_GIVE(out, &s, NULL);
}
void qsf_context_reset_stats(qsf_context *c)
{
    c->stats = (qsf_stats){ .isa = c->k.isa, .n_threads = c->o.n_threads, .io = c->io };
    c->account = (qsf_account){ 0 };
    c->experts.n_used = c->experts.n_found = 0;
    c->lora.bytes_read = 0;
    c->experts.shelf.n_read = c->experts.shelf.bytes_read = 0;
    c->fetch.bytes_read = c->fetch.ns_wait = c->fetch.ns_own = 0;
    c->fetch.took = (qsf_fetch_times){ 0 };
}
