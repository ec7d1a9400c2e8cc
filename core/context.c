/* The context's life, its sequences, and the step that moves a batch on by one layer.
 * SPDX-License-Identifier: MIT */
#include "attention.h"
#include "context.h"

void qsf_context_defaults(qsf_context_options *o)
{
    *o = (qsf_context_options){ .size = sizeof *o, .n_batch = 256, .n_seqs = 4, .kv_type = QSF_KV_Q8,
                                .quality = 1, .kv_sinks = 4 };
}

/* ---- memory ---- */

static uint8_t *carve(uint8_t *base, uint64_t *at, uint64_t n, uint64_t size)
{
    uint8_t *p = base ? base + *at : NULL;
    *at += qsf_round_up(n * size, 64);
    return p;
}
#define CARVE(type, n) ((type *)(void *)carve(base, &at, (n), sizeof(type)))

uint64_t qsf_buffers_layout(qsf_buffers *b, uint8_t *base, const qsf_hparams *hp,
                            const qsf_context_options *o, bool needs_strip)
{
    uint64_t at = 0;
    const uint64_t rows = qsf_rows_most(o), half = qsf_rope_half(hp);
    *b = (qsf_buffers){ 0 };
    b->ld_embd = qsf_round_up(hp->n_embd, 16);
    b->ld_q = qsf_round_up((uint64_t)hp->n_heads * hp->head_dim, 16);
    b->ld_kv = qsf_round_up((uint64_t)hp->n_kv_heads * hp->head_dim, 16);
    b->ld_ff = qsf_round_up(hp->n_ff, 16);
    b->ld_vocab = qsf_round_up(hp->n_vocab, 16);
    const uint64_t act_cols = qsf_act_cols((uint32_t)QSF_MAX(QSF_MAX(b->ld_embd, b->ld_q), b->ld_ff));
    b->max_cols = act_cols;
    b->x = CARVE(float, rows * b->ld_embd);
    b->xn = CARVE(float, rows * b->ld_embd);
    b->tmp = CARVE(float, rows * b->ld_embd);
    b->q = CARVE(float, rows * b->ld_q);
    b->k = CARVE(float, rows * b->ld_kv);
    b->v = CARVE(float, rows * b->ld_kv);
    b->att = CARVE(float, rows * b->ld_q);
    b->gate = CARVE(float, rows * b->ld_ff);
    b->up = CARVE(float, rows * b->ld_ff);
    b->logits = CARVE(float, o->n_logits * b->ld_vocab);
    if (o->early_exit > 0) {
        b->exit_x = CARVE(float, QSF_EXIT_MOST * b->ld_embd);
        b->exit_last = CARVE(float, b->ld_embd);
    }
    for (int i = 0; i < 2; i++) {
        b->cos[i] = CARVE(float, rows * half);
        b->sin[i] = CARVE(float, rows * half);
    }
    if (needs_strip) b->strip = CARVE(float, o->n_threads * QSF_TILE_ROWS * b->max_cols);
    b->attention = CARVE(float, o->n_threads * qsf_attention_scratch(hp, o->kv_type));
    if (qsf_bias_apart(hp, o->kv_type)) {
        b->bias_back = CARVE(float, qsf_ceil_div(o->n_ctx, QSF_KV_BLOCK) * 2 * half);
        b->bias_steps = CARVE(uint16_t, QSF_KV_BLOCK * 2 * half);
    }
    b->heat = CARVE(float, o->n_threads * qsf_heat_floats(hp, o));
    b->act.q = CARVE(int8_t, rows * act_cols);
    b->act.d = CARVE(float, rows * act_cols / 64);
    b->act.s = CARVE(float, rows * act_cols / 32);
    b->act.h = CARVE(int16_t, rows * act_cols / 8);
    return at;
}
#undef CARVE

static qsf_status context_check(const qsf_hparams *hp, qsf_context_options *o, qsf_error *err)
{
    if (o->n_threads > QSF_MAX_THREADS)
        return qsf_fail(err, QSF_E_ARGUMENT, "%u threads; 1 to 256 are possible", (unsigned)o->n_threads);
    if (o->n_batch < 1 || o->n_batch > 65536)
        return qsf_fail(err, QSF_E_ARGUMENT, "a batch of %u rows; 1 to 65536 are possible",
                        (unsigned)o->n_batch);
    if (o->n_seqs < 1 || o->n_seqs > 4096)
        return qsf_fail(err, QSF_E_ARGUMENT, "%u sequences; 1 to 4096 are possible", (unsigned)o->n_seqs);
    if (o->head != QSF_HEAD_EXACT && o->head != QSF_HEAD_SCREEN && o->head != QSF_HEAD_CLUSTERS)
        return qsf_fail(err, QSF_E_ARGUMENT, "unknown head mode %d", (int)o->head);
    if (o->n_ctx > 1u << 24)
        return qsf_fail(err, QSF_E_ARGUMENT, "a context of %u positions; at most 16777216 are possible",
                        (unsigned)o->n_ctx);
    if (o->kv_window > 1u << 24 || o->kv_sinks > 1u << 16)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "a window of %u positions behind %u; at most 16777216 behind 65536 are possible",
                        (unsigned)o->kv_window, (unsigned)o->kv_sinks);
    if (o->kv_heavy > 1u << 24)
        return qsf_fail(err, QSF_E_ARGUMENT, "%u positions beside the window; at most 16777216 are possible",
                        (unsigned)o->kv_heavy);
    if (o->kv_heavy && !o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT,
                        "positions that drew attention are kept beside a window: give kv_window too");
    if (!qsf_kv_known(o->kv_type))
        return qsf_fail(err, QSF_E_ARGUMENT, "unknown KV type %d", (int)o->kv_type);
    if (!(o->quality >= 0 && o->quality <= 1))
        return qsf_fail(err, QSF_E_ARGUMENT, "quality %g; 0 to 1 are possible", (double)o->quality);
    if (!(o->early_exit >= 0 && o->early_exit <= 1))
        return qsf_fail(err, QSF_E_ARGUMENT, "early exit at a cosine of %g; 0 to 1 are possible",
                        (double)o->early_exit);
    if (o->early_exit > 0 && o->kv_window)
        return qsf_fail(err, QSF_E_ARGUMENT, "early exit does not go with a window of keys and values");
    const uint32_t trained = hp->n_ctx_train ? hp->n_ctx_train : 2048;
    if (o->n_ctx == 0) o->n_ctx = QSF_MIN(trained, 4096);
    if (hp->learned_pos && o->n_ctx > trained)
        return qsf_fail(err, QSF_E_ARGUMENT, "a context of %u positions; the model has learned %u",
                        (unsigned)o->n_ctx, (unsigned)trained);
    if (o->n_logits == 0) o->n_logits = o->n_seqs;
    o->n_batch = QSF_MIN(o->n_batch, o->n_ctx);
    o->n_logits = QSF_MIN(o->n_logits, o->n_batch);
    if (o->f32) o->kv_type = QSF_KV_F32;
    return QSF_OK;
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
    QSF_OPTIONS_COPY(o, opts);
    *ctx_given = o->n_ctx != 0;
    qsf_status st = context_check(&m->source->hp, o, err);
    if (st) return st;
    const char *isa = o->isa ? o->isa : p->env ? p->env(p->user, "QSF_ISA") : NULL;
    if ((st = qsf_kernels_init(k, p->cpu_features ? p->cpu_features(p->user) : 0, isa, err))) return st;
    o->isa = k->isa;
    o->n_threads = qsf_pool_threads(p, o->n_threads);
    return QSF_OK;
}

static qsf_status memory_init(qsf_memory *m, const qsf_model *model, qsf_error *err)
{
    const uint32_t room = model->source->n_units + 2;
    *m = (qsf_memory){ 0 };
    m->caps = qsf_alloc_array(model->platform, room, sizeof *m->caps, "plan", err);
    m->pins = m->caps ? qsf_alloc_array(model->platform, room, sizeof *m->pins, "plan", err) : NULL;
    return m->pins ? QSF_OK : QSF_E_MEMORY;
}

static void memory_done(qsf_memory *m, const qsf_model *model)
{
    const uint32_t room = model->source->n_units + 2;
    qsf_dealloc(model->platform, m->pins, room * sizeof *m->pins);
    qsf_dealloc(model->platform, m->caps, room * sizeof *m->caps);
}

qsf_status qsf_context_plan(const qsf_model *model, const qsf_context_options *opts, qsf_plan *out,
                            qsf_error *err)
{
    qsf_context_options o;
    qsf_kernels k;
    qsf_memory m;
    bool ctx_given = false;
    *out = (qsf_plan){ 0 };
    qsf_status st = context_options(model, opts, &o, &ctx_given, &k, err);
    if (st) return st;
    if (!(st = memory_init(&m, model, err))) st = qsf_plan_make(model, &o, ctx_given, &m, out, err);
    memory_done(&m, model);
    return st;
}

static qsf_status context_weights(qsf_context *c, bool ctx_given, qsf_error *err)
{
    const qsf_source *s = c->model->source;
    qsf_memory m;
    qsf_status st;
    if ((st = memory_init(&m, c->model, err))) goto done;
    if ((st = qsf_plan_make(c->model, &c->o, ctx_given, &m, &c->plan, err))) goto done;
    qsf_plan_log(c->model, &c->plan, &c->o);
    if ((st = qsf_source_read_by(s, c->model->io, c->plan.n_slots || m.ends.embd || m.ends.head,
                                 &c->io, err)))
        goto done;
    if ((st = qsf_reserve_init(&c->reserve, c->platform, m.reserve, err))) goto done;
    if ((st = qsf_loader_init(&c->loader, s, &c->reserve.table, m.caps, m.pins, m.n_slots, m.stored,
                              m.n_stages, m.raw, c->pool, err)))
        goto done;
    c->loader.check_every = c->o.check_every;
    c->loader.quality = c->o.quality;
    if (c->o.quality < 1 && !qsf_loader_knows(&c->loader))
        qsf_log(c->model, QSF_LOG_WARN,
                "%s does not say which layers matter less: a lower quality changes nothing (qsf-convert "
                "--calibration measures it)", s->path);
    if ((c->plan.n_slots || m.ends.head) && (st = qsf_loader_start_thread(&c->loader, err))) goto done;
    if ((st = qsf_ends_init(&c->ends, &c->loader, &m.ends, err))) goto done;
    st = qsf_head_init(&c->approx, s, &c->reserve.table, &c->o, err);
done:
    memory_done(&m, c->model);
    return st;
}

/* asked: the context's length before the plan, from which answers must not depend on what a
 * budget left of it. */
static qsf_status context_buffers(qsf_context *c, uint32_t asked, qsf_error *err)
{
    const qsf_hparams *hp = c->hp;
    const qsf_platform *mem = &c->reserve.table;
    const uint32_t half = qsf_rope_half(hp);
    c->buffers_bytes = qsf_buffers_layout(&c->b, NULL, hp, &c->o, true);
    if (!(c->buffers = qsf_alloc(mem, c->buffers_bytes, "activations", err))) return QSF_E_MEMORY;
    qsf_buffers_layout(&c->b, c->buffers, hp, &c->o, true);
    if (!(c->rows = qsf_alloc_array(mem, qsf_rows_most(&c->o), sizeof *c->rows, "batch", err)))
        return QSF_E_MEMORY;
    if (!(c->groups = qsf_alloc_array(mem, qsf_rows_most(&c->o), sizeof *c->groups, "batch", err)))
        return QSF_E_MEMORY;
    if (!(c->old_length = qsf_alloc_array(mem, c->o.n_seqs, sizeof(uint32_t), "sequences", err)))
        return QSF_E_MEMORY;
    for (int i = 0; i < 2; i++) {
        c->rope[i].half = half;
        if (!(c->rope[i].freq = qsf_alloc_array(mem, half, sizeof(double), "rotary frequencies", err)))
            return QSF_E_MEMORY;
        if (half) qsf_rope_init(&c->rope[i], hp, i == 1, c->o.n_ctx, asked);
    }
    qsf_bias_init(c);
    qsf_kv_layout l;
    qsf_kv_layout_init(&l, c->o.kv_type, qsf_layers_run(c->model->source, c->o.quality, hp->n_layers),
                       hp->n_kv_heads, hp->head_dim);
    return qsf_kv_init(&c->kv, mem, &l, qsf_kv_blocks_of(&c->o), c->o.n_seqs, err);
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
    c->f32 = c->o.f32;
    if ((st = qsf_pool_new(p, c->o.n_threads, &c->pool, err))) goto fail;
    c->threads[0] = c->threads[1] = qsf_thread_count_of(c->o.n_threads);
    if ((st = context_weights(c, ctx_given, err))) goto fail;
    if ((st = context_buffers(c, asked, err))) goto fail;
    qsf_context_reset_stats(c);
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
    qsf_pool_free(c->pool);
    qsf_head_done(&c->approx);
    qsf_ends_done(&c->ends);
    qsf_loader_done(&c->loader);
    qsf_kv_done(&c->kv);
    for (int i = 0; i < 2; i++) qsf_dealloc(mem, c->rope[i].freq, c->rope[i].half * sizeof(double));
    qsf_dealloc(mem, c->old_length, c->o.n_seqs * sizeof(uint32_t));
    qsf_dealloc(mem, c->groups, qsf_rows_most(&c->o) * sizeof *c->groups);
    qsf_dealloc(mem, c->rows, qsf_rows_most(&c->o) * sizeof *c->rows);
    qsf_dealloc(mem, c->buffers, c->buffers_bytes);
    qsf_reserve_done(&c->reserve);
    qsf_dealloc(p, c, sizeof *c);
}

qsf_model  *qsf_context_model(qsf_context *c) { return c->model; }
uint32_t    qsf_context_batch(const qsf_context *c) { return c->o.n_batch; }
const char *qsf_last_error(const qsf_context *c) { return c->error.text; }
void        qsf_context_get_plan(const qsf_context *c, qsf_plan *out) { *out = c->plan; }

void qsf_context_get_stats(const qsf_context *c, qsf_stats *out)
{
    *out = c->stats;
    const qsf_loader *l = &c->loader;
    out->bytes_read = l->bytes_read;
    out->ns_wait_io = l->ns_wait;
    out->ns_prepare = l->took.prepare;
    out->ns_read = l->took.read;
    out->ns_check = l->took.unit.check;
    out->ns_decompress = l->took.unit.unpack;
    /* seen: the computing thread did nothing else */
    const uint64_t all = out->ns_read + out->ns_prepare, seen = l->ns_wait + l->ns_own;
    out->overlap = seen < all ? (float)((double)(all - seen) / (double)all) : 0;
}
void qsf_context_reset_stats(qsf_context *c)
{
    c->stats = (qsf_stats){ .isa = c->k.isa, .n_threads = c->o.n_threads, .io = c->io };
    c->loader.bytes_read = c->loader.ns_wait = c->loader.ns_own = 0;
    c->loader.took = (qsf_load_times){ 0 };
}

/* ---- sequences ---- */

/* Drops the batch under way: its positions are taken back. */
static void batch_drop(qsf_context *c)
{
    if (!c->active) return;
    for (uint32_t s = 0; s < c->o.n_seqs; s++) qsf_kv_truncate(&c->kv, s, c->old_length[s]);
    c->active = false;
    c->n_asked = 0;
    for (uint32_t s = 0; s < c->o.n_seqs; s++) qsf_exit_truncate(c, s, c->old_length[s]);
    c->left.joined = 0;                             /* others wait where they did */
    qsf_heat_collect(c, false);
}

static qsf_status seq_check(qsf_context *c, qsf_seq s)
{
    if (s >= 0 && (uint32_t)s < c->o.n_seqs) return QSF_OK;
    return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequence %d; the context has %u", (int)s,
                    (unsigned)c->o.n_seqs);
}

static qsf_status seq_cut_check(qsf_context *c, qsf_seq s, uint32_t n)
{
    const qsf_kv_seq *q = &c->kv.seqs[s];
    if (qsf_kv_can_cut(&c->kv, (uint32_t)s, n)) return QSF_OK;
    if (n > q->length)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "sequence %d has %u positions, not %u", (int)s,
                        (unsigned)q->length, (unsigned)n);
    return qsf_fail(&c->error, QSF_E_ARGUMENT,
                    "sequence %d of %u positions cannot go back to %u: the window has dropped what is seen "
                    "from there (%u does, or 0)", (int)s, (unsigned)q->length, (unsigned)n,
                    (unsigned)q->safe);
}

uint32_t qsf_seq_length(const qsf_context *c, qsf_seq s)
{
    return s >= 0 && (uint32_t)s < c->o.n_seqs ? (c->active ? c->old_length[s] : c->kv.seqs[s].length) : 0;
}

/* With a window no token has to be the last, but a position must stay a number that rotation can
 * tell from its neighbours. */
static uint32_t seq_end(const qsf_context *c)
{
    return c->o.kv_window && !c->hp->learned_pos ? 1u << 24 : c->o.n_ctx;
}

uint32_t qsf_seq_room(const qsf_context *c, qsf_seq s)
{
    if (s < 0 || (uint32_t)s >= c->o.n_seqs) return 0;
    const uint32_t length = c->kv.seqs[s].length, end = seq_end(c), room = length < end ? end - length : 0;
    /* A window makes its own room. */
    return c->o.kv_window ? room : QSF_MIN(room, qsf_kv_room(&c->kv, (uint32_t)s));
}

qsf_status qsf_seq_truncate(qsf_context *c, qsf_seq s, uint32_t n)
{
    qsf_status st = seq_check(c, s);
    if (st) return st;
    batch_drop(c);
    if ((st = seq_cut_check(c, s, n))) return st;
    qsf_kv_truncate(&c->kv, (uint32_t)s, n);
    qsf_exit_truncate(c, (uint32_t)s, n);
    return QSF_OK;
}

qsf_status qsf_seq_share(qsf_context *c, qsf_seq dst, qsf_seq src, uint32_t n)
{
    qsf_status st;
    if ((st = seq_check(c, dst)) || (st = seq_check(c, src))) return st;
    batch_drop(c);
    if ((st = seq_cut_check(c, src, n))) return st;
    if ((st = qsf_exit_check(c, (uint32_t)src, n, &c->error))) return st;
    qsf_kv_share(&c->kv, (uint32_t)dst, (uint32_t)src, n);
    qsf_exit_truncate(c, (uint32_t)dst, dst == src ? n : 0);
    return QSF_OK;
}

/* ---- steps ---- */

static qsf_status batch_rows(qsf_context *c, const qsf_row *rows, size_t n)
{
    if (n == 0 || n > c->o.n_batch)
        return qsf_fail(&c->error, QSF_E_ARGUMENT, "a batch of %llu rows; 1 to %u are possible",
                        (unsigned long long)n, (unsigned)c->o.n_batch);
    uint32_t asked = 0;
    for (size_t i = 0; i < n; i++) {
        const qsf_status st = seq_check(c, rows[i].seq);
        if (st) return st;
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= c->hp->n_vocab)
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "token %d; the vocabulary has %u", (int)rows[i].token,
                            (unsigned)c->hp->n_vocab);
        if (rows[i].logits && asked++ == c->o.n_logits)
            return qsf_fail(&c->error, QSF_E_ARGUMENT, "more than %u rows ask for logits; see n_logits",
                            (unsigned)c->o.n_logits);
    }
    return QSF_OK;
}

void qsf_batch_group(qsf_context *c)
{
    c->n_groups = 0;
    for (uint32_t r = 0; r < c->n_rows; r++) {
        qsf_row_group *g = c->n_groups ? &c->groups[c->n_groups - 1] : NULL;
        if (g && g->n < QSF_ATTENTION_ROWS && c->rows[g->first].seq == c->rows[r].seq) g->n++;
        else c->groups[c->n_groups++] = (qsf_row_group){ r, 1 };
    }
    c->groups_apart = c->n_groups <= 64;            /* beyond that, nothing would be gained by knowing */
    for (uint32_t i = 1; i < c->n_groups && c->groups_apart; i++)
        for (uint32_t j = 0; j < i; j++)
            c->groups_apart &= c->rows[c->groups[i].first].seq != c->rows[c->groups[j].first].seq;
}

enum { FEW_ROWS = QSF_DRAFT_MOST + 1 };

/* The count of threads that suits this batch; NULL: all. */
static qsf_thread_count *batch_threads(qsf_context *c)
{
    return c->plan.n_slots && c->n_new <= FEW_ROWS ? &c->threads[c->n_new > 1] : NULL;
}

qsf_status qsf_batch_begin(qsf_context *c, const qsf_row *rows, size_t n)
{
    qsf_status st;
    c->error = (qsf_error){ 0 };
    batch_drop(c);
    if ((st = batch_rows(c, rows, n))) return st;
    const uint32_t end = seq_end(c);
    for (uint32_t s = 0; s < c->o.n_seqs; s++) {
        if (c->o.kv_window) qsf_kv_slide(&c->kv, s, c->o.kv_window, c->o.kv_sinks, c->o.kv_heavy);
        c->old_length[s] = c->kv.seqs[s].length;
    }
    c->active = true;
    c->loader.batch++;
    c->n_rows = c->n_new = (uint32_t)n;
    c->n_asked = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = (uint32_t)rows[i].seq, pos = c->kv.seqs[s].length;
        c->rows[i] = (qsf_batch_row){ s, pos, rows[i].token, rows[i].logits ? (int32_t)c->n_asked++ : -1 };
        if (pos >= end || qsf_kv_grow(&c->kv, s, 1)) {
            batch_drop(c);
            return qsf_fail(&c->error, QSF_E_FULL, "the context of %u positions is full", (unsigned)end);
        }
    }
    c->at = 0;
    atomic_store_explicit(&c->not_finite, false, memory_order_relaxed);
    qsf_batch_group(c);
    qsf_exit_begin(c);
    qsf_ends_begin(c);
    c->begun_ns = qsf_now(c->platform);
    c->waiting_ns = 0;
    const qsf_thread_count *threads = batch_threads(c);
    qsf_pool_use(c->pool, threads ? qsf_thread_count_next(threads) : c->o.n_threads);
    return QSF_OK;
}

static uint32_t next_layer(const qsf_context *c, uint32_t layer)
{
    while (layer < c->hp->n_layers && qsf_loader_skips(&c->loader, layer)) layer++;
    return layer;
}

/* Brings what the step at c->at needs; wait: does not return QSF_PENDING. */
static qsf_status step_fetch(qsf_context *c, bool wait)
{
    const uint32_t n_layers = c->hp->n_layers;
    if (c->at == 0) return qsf_ends_fetch_embd(c, wait);
    if (c->at > n_layers) return qsf_ends_fetch_head(c, c->at - n_layers - 1, wait);
    qsf_status st = qsf_loader_get(&c->loader, c->at - 1, &c->w, &c->error);
    if (st != QSF_PENDING) return st;
    /* the buffer of the last layer is free: the one after this begins to travel */
    qsf_loader_prefetch(&c->loader, c->at - 1);
    if (wait) st = qsf_loader_wait(&c->loader, c->at - 1, &c->error);
    return st ? st : qsf_loader_get(&c->loader, c->at - 1, &c->w, &c->error);
}

static void batch_done(qsf_context *c)
{
    const uint64_t ns = qsf_now(c->platform) - c->begun_ns;
    c->active = false;
    qsf_heat_collect(c, true);
    qsf_exit_end(c);
    if (batch_threads(c)) qsf_thread_count_took(batch_threads(c), ns);
    if (c->n_new == c->n_asked) {
        c->stats.tokens_generated += c->n_new;
        c->stats.ns_generated += ns;
    } else {
        c->stats.tokens_prompt += c->n_new;
        c->stats.ns_prompt += ns;
    }
}

/* What else is on the way may fail too: the next batch does not hear of it. */
static void batch_failed(qsf_context *c)
{
    batch_drop(c);
    qsf_ends_forget(&c->ends);
}

/* Weights that were damaged, or are of another type than the file says, make numbers that are none;
 * they would only spread.  where: a layer, from 0; n_layers: the head. */
static qsf_status step_finite(qsf_context *c, uint32_t where)
{
    const char *path = c->model->source->path;
    if (!atomic_load_explicit(&c->not_finite, memory_order_relaxed)) return QSF_OK;
    if (where == c->hp->n_layers)
        return qsf_fail(&c->error, QSF_E_CORRUPT,
                        "%s: the output head computes logits that are not finite: its weights are damaged; "
                        "get or convert the file again", path);
    return qsf_fail(&c->error, QSF_E_CORRUPT,
                    "%s: layer %u of 0 to %u computes values that are not finite: its weights, or those "
                    "before it, are damaged or of another type than the file says: get or convert the file "
                    "again; or a loaded session is damaged", path, (unsigned)where,
                    (unsigned)c->hp->n_layers - 1);
}

/* Logits of an approximate head are -infinity where they were not computed. */
static void check_logits(qsf_context *c)
{
    for (uint32_t i = 0; i < c->n_asked; i++) {
        const float *logits = c->b.logits + i * c->b.ld_vocab;
        uint32_t bad = 0;
        for (uint32_t t = 0; t < c->hp->n_vocab; t++) bad |= !(logits[t] < INFINITY);
        if (bad) atomic_store_explicit(&c->not_finite, true, memory_order_relaxed);
    }
}

static qsf_status step_compute(qsf_context *c)
{
    qsf_status st;
    const uint32_t n_layers = c->hp->n_layers;
    if (c->at == 0) {
        if (qsf_ends_embed(c)) c->at = 1 + next_layer(c, 0);
    } else if (c->at <= n_layers) {
        const uint32_t layer = c->at - 1, next = next_layer(c, layer + 1);
        qsf_exit_join(c, layer);
        qsf_loader_prefetch(&c->loader, layer);     /* bytes travel while this layer computes */
        if (layer + 2 >= n_layers) qsf_ends_ahead(c);
        qsf_forward_layer(c, layer, c->w);
        if ((st = step_finite(c, layer))) return st;
        c->at = 1 + qsf_exit_next(c, layer, next);
    } else {
        qsf_ends_head(c, c->at - n_layers - 1);
        c->at++;
    }
    if (c->at <= n_layers || (c->n_asked && c->at <= n_layers + c->ends.n_parts)) return QSF_PENDING;
    check_logits(c);
    if ((st = step_finite(c, n_layers))) return st;
    batch_done(c);
    return QSF_OK;
}

qsf_status qsf_step(qsf_context *c, bool *waiting)
{
    if (waiting) *waiting = false;
    if (!c->active) return qsf_fail(&c->error, QSF_E_ARGUMENT, "there is no batch under way");
    if (c->waiting_ns) qsf_loader_waited(&c->loader, qsf_now(c->platform) - c->waiting_ns);
    c->waiting_ns = 0;
    qsf_status st = step_fetch(c, false);
    if (st == QSF_PENDING) {
        if (waiting) *waiting = true;
        c->waiting_ns = qsf_now(c->platform);
        return st;
    }
    if (!st) st = step_compute(c);
    if (st && st != QSF_PENDING) batch_failed(c);
    return st;
}

uint32_t qsf_batch_layer(const qsf_context *c)
{
    return c->active ? QSF_MIN(QSF_MAX(c->at, 1) - 1, c->hp->n_layers) : c->hp->n_layers;
}

qsf_status qsf_wait(qsf_context *c)
{
    if (!c->active) return QSF_OK;
    const qsf_status st = step_fetch(c, true);
    if (st != QSF_E_UNSUPPORTED) c->waiting_ns = 0;
    if (st && st != QSF_E_UNSUPPORTED) batch_failed(c);     /* a host that cannot wait may go on stepping */
    return st;
}

qsf_status qsf_compute(qsf_context *c, const qsf_row *rows, size_t n)
{
    bool waiting;
    qsf_status st = qsf_batch_begin(c, rows, n);
    while (!st) {
        if ((st = qsf_step(c, &waiting)) != QSF_PENDING) return st;
        st = waiting ? qsf_wait(c) : QSF_OK;
    }
    return st;
}

/* The rows of a chunk live in the KV tables only; so a small array on the stack feeds
 * batches of any size. */
qsf_status qsf_feed(qsf_context *c, qsf_seq s, const int32_t *ids, size_t n, const float **logits)
{
    qsf_row rows[512];
    const size_t most = QSF_MIN(c->o.n_batch, QSF_ARRAY_LEN(rows));
    if (logits) *logits = NULL;
    if (n == 0) return qsf_fail(&c->error, QSF_E_ARGUMENT, "no tokens were given");
    qsf_status st = seq_check(c, s);
    if (st) return st;
    batch_drop(c);
    const uint32_t room = qsf_seq_room(c, s);
    if (n > room && room)
        return qsf_fail(&c->error, QSF_E_FULL,
                        "%llu tokens do not fit: the context of %u positions has room for %u more",
                        (unsigned long long)n, (unsigned)seq_end(c), (unsigned)room);
    for (size_t at = 0; at < n;) {
        const size_t len = QSF_MIN(most, n - at);
        for (size_t i = 0; i < len; i++) rows[i] = (qsf_row){ s, ids[at + i], logits && at + i == n - 1 };
        if ((st = qsf_compute(c, rows, len))) return st;
        at += len;
    }
    if (logits) *logits = qsf_logits(c, 0);
    return QSF_OK;
}

const float *qsf_logits(const qsf_context *c, size_t i)
{
    return !c->active && i < c->n_asked ? c->b.logits + i * c->b.ld_vocab : NULL;
}
