/* The budget: what every part takes, and what gives way when it is too much.
 * SPDX-License-Identifier: MIT */
#include "engine/plan.h"
#include "engine/context.h"

/* A third buffer, where nothing had to be reduced, lets two layers travel while one is computed. */
enum { PLAN_SLOTS = 3 };
/* Pieces of the reserve beside the fetch's slots, at most; and of these the large ones. */
enum { PLAN_PIECES = 44, PLAN_LARGE = 18 };
/* A program's heap, what large pieces lose to whole pages, and what its code takes beyond the 4 MB
 * that a budget leaves to it. */
enum { PLAN_PROGRAM = 1 << 20 };
/* Pages of a file that is read from a mapping, as long as they are copied: those that the page
 * cache has as one piece. */
enum { PLAN_MAPPED = 9 << 18 };
enum { PLAN_MIN_CTX = 128, PLAN_STACK = 128 * 1024, PLAN_MIN_PART = 1 << 20, PLAN_MAX_PART = 16 << 20,
       PLAN_KEPT = 256, PLAN_MIN_KEPT = 32 };
enum { PLAN_MIN_DROPPING = 256 };       /* positions that stay where others are dropped */

typedef struct plan_sizes {
    uint64_t embd, final, layers, largest;
    /* [layers and a final norm that is loaded, embedding, final unit with the head][stored, raw] */
    uint64_t staging[3][2];
    uint64_t tables;          /* of the file alone */
    uint64_t approx;          /* what an approximate head takes beside the head */
} plan_sizes;

static void plan_stage(uint64_t most[2], uint64_t stored, uint64_t raw)
{
    most[0] = QSF_MAX(most[0], stored);
    most[1] = QSF_MAX(most[1], raw);
}

static qsf_status plan_measure(const qsf_source *s, const qsf_context_options *o, plan_sizes *z,
                               uint64_t *layer_bytes, qsf_error *err)
{
    /* Pieces of the reserve begin at whole cache lines, the larger ones at whole pages. */
    const uint64_t lines = (s->n_units + 1 + PLAN_PIECES) * (uint64_t)QSF_RESERVE_LINE;
    const uint64_t rounding = lines + PLAN_LARGE * QSF_RESERVE_PAGE;
    *z = (plan_sizes){ .tables = qsf_fetch_tables(s, o->n_threads) + rounding };
    for (uint32_t u = 0; u < s->n_units; u++) {
        uint64_t slot, stored, raw;
        if (u < s->hp.n_layers && !qsf_layer_runs(s, o->quality, u)) continue;
        const qsf_status st = qsf_unit_memory(s, u, &slot, &stored, &raw, err);
        if (st) return st;
        const qsf_unit_kind kind = qsf_unit_id_at(s->hp.n_layers, u).kind;
        const bool head = kind == QSF_UNIT_FINAL && !s->hp.tied;
        plan_stage(z->staging[kind == QSF_UNIT_EMBEDDING ? 1 : head ? 2 : 0], stored, raw);
        slot = qsf_reserve_room(slot);
        layer_bytes[u] = slot;
        if (kind == QSF_UNIT_EMBEDDING) z->embd = slot;
        else if (kind == QSF_UNIT_FINAL) z->final = slot;
        else {
            z->layers += slot;
            z->largest = QSF_MAX(z->largest, slot);
        }
    }
    return QSF_OK;
}

static void plan_item(qsf_plan *plan, const char *name, uint64_t bytes)
{
    assert(plan->n_items < QSF_ARRAY_LEN(plan->items));
    plan->items[plan->n_items++] = (qsf_plan_item){ name, bytes };
    plan->total += bytes;
}

/* What may still give way. */
typedef struct plan_state {
    uint32_t n_slots;         /* buffers that layers pass through */
    qsf_embedding_plan embedding;         /* without n_batch */
    qsf_head_stream_plan head;
    bool     ctx_given;       /* the caller asked for this context length: it goes last */
    bool     may_drop;        /* positions of it, by the attention that they draw */
    bool     can_embd, can_head;          /* stream; tied: both or none */
} plan_state;

/* Windows on a small embedding are larger than the embedding. */
static void plan_can_stream(const qsf_source *s, const plan_sizes *z, plan_state *state)
{
    const bool tied = s->hp.tied;
    const qsf_embedding_plan embedding = { .streams = true, .n_kept = PLAN_MIN_KEPT, .n_batch = 8 };
    const qsf_head_stream_plan head = { .streams = true, .part = PLAN_MIN_PART };
    state->can_embd = qsf_embedding_can_stream(s);
    state->can_head = tied ? state->can_embd : qsf_head_can_stream(s);
    const uint64_t parts = state->can_head ? qsf_head_stream_bytes(s, &head) : 0;
    if (state->can_embd) {
        const uint64_t rows = qsf_embedding_bytes(s, &embedding) + qsf_embedding_kept_bytes(s, &embedding);
        state->can_embd = rows + (tied ? parts : 0) < z->embd;
    }
    state->can_head = tied ? state->can_embd : state->can_head && parts < z->final;
}

/* What the fetch's staging buffers must hold. */
static uint64_t plan_staging(const plan_sizes *z, const plan_state *state, int which)
{
    uint64_t most = z->staging[0][which];
    if (!state->embedding.streams) most = QSF_MAX(most, z->staging[1][which]);
    if (!state->head.streams) most = QSF_MAX(most, z->staging[2][which]);
    return most;
}

/* loss: the answers may differ, not only the speed. */
static void plan_note(qsf_plan *plan, bool loss, const char *fmt, ...) QSF_PRINTF(3, 4);
static void plan_note(qsf_plan *plan, bool loss, const char *fmt, ...)
{
    va_list args;
    assert(plan->n_reductions < QSF_ARRAY_LEN(plan->reductions));
    plan->losses[plan->n_reductions] = loss;
    va_start(args, fmt);
    qsf_vformat(plan->reductions[plan->n_reductions++], sizeof plan->reductions[0], fmt, args);
    va_end(args);
}

static uint64_t plan_description(const qsf_model *model)
{
    const uint64_t tokenizer = model->tokenizer ? qsf_tokenizer_memory(model->tokenizer) : 0;
    return sizeof *model + qsf_arena_used(model->source->arena) + tokenizer;
}

/* What is not of the context's reserve. */
static uint64_t plan_own(const qsf_source *s, const qsf_context_options *o)
{
    const uint64_t slots = (s->n_units + 2) * (sizeof(uint64_t) + sizeof(int32_t));
    return sizeof(qsf_context) + qsf_pool_bytes(o->n_threads) + slots;
}
static uint64_t plan_stacks(const qsf_source *s, const qsf_context_options *o)
{
    return ((uint64_t)o->n_threads + qsf_fetch_threaded(s)) * PLAN_STACK;
}
static uint64_t plan_program(const qsf_model *model)
{
    return PLAN_PROGRAM + (model->io == QSF_IO_MMAP ? PLAN_MAPPED : 0);
}
static uint64_t plan_apart(const qsf_model *model, const qsf_context_options *o)
{
    const qsf_source *s = model->source;
    const uint64_t own = plan_own(s, o) + plan_stacks(s, o) + plan_program(model);
    return plan_description(model) + own + qsf_sampler_bytes(s->hp.n_vocab);
}

/* With a second staging buffer, bytes come in while others are decompressed; it goes when the
 * second layer buffer does. */
static uint32_t plan_stages(const plan_state *state) { return state->n_slots > 1 ? QSF_STAGES : 1; }

/* Embedding, final norm and head. */
static void plan_ends(const qsf_source *s, const plan_sizes *z, const plan_state *state,
                      const qsf_context_options *o, qsf_plan *plan)
{
    qsf_embedding_plan embedding = state->embedding;
    embedding.n_batch = o->n_batch;
    const bool head = state->head.streams, embd = embedding.streams;
    const char *both = embd ? "windows on embedding and head" : "windows on the head";
    const uint64_t windows = qsf_embedding_bytes(s, &embedding) + qsf_head_stream_bytes(s, &state->head);
    if (embd || head) plan_item(plan, head ? both : "window on the embedding", windows);
    if (embd) plan_item(plan, "embedding rows kept", qsf_embedding_kept_bytes(s, &embedding));
    else plan_item(plan, "embedding", z->embd);
    if (s->hp.tied) plan_item(plan, "final norm", z->final);
    else if (!head) plan_item(plan, "final norm and head", z->final);
}

/* Everything but the layers' weights, for options o. */
static void plan_fixed(const qsf_model *model, const plan_sizes *z, const plan_state *state,
                       const qsf_context_options *o, qsf_plan *plan)
{
    const qsf_source *s = model->source;
    const qsf_hparams *hp = &s->hp;
    qsf_buffers b;
    qsf_kv_layout l;
    *plan = (qsf_plan){ .n_ctx = o->n_ctx, .n_batch = o->n_batch, .kv_type = o->kv_type,
                        .kv_window = o->kv_window, .kv_heavy = o->kv_heavy };
    qsf_kv_layout_init(&l, o->kv_type, qsf_layers_run(s, o->quality, hp->n_layers), s->most.n_kv_heads,
                       s->most.head_dim);
    plan_ends(s, z, state, o, plan);
    if (z->approx) plan_item(plan, "approximate head", z->approx);
    plan_item(plan, "KV cache", qsf_kv_bytes(&l, qsf_kv_blocks_of(o), o->n_seqs));
    plan_item(plan, "activations", qsf_buffers_layout(&b, NULL, s, o));
    plan_item(plan, "staging", plan_stages(state) * plan_staging(z, state, 0) + plan_staging(z, state, 1));
    plan_item(plan, "description and vocabulary", plan_description(model));
    const uint64_t rows = qsf_rows_most(o) * (sizeof(qsf_batch_row) + sizeof(qsf_row_group));
    const uint64_t rope = s->n_ropes * sizeof(qsf_rope) + qsf_ropes_half(s) * sizeof(double);
    const uint64_t lengths = o->n_seqs * sizeof(uint32_t);
    plan_item(plan, "tables", plan_own(s, o) + z->tables + rope + rows + lengths);
    plan_item(plan, "sampler", qsf_sampler_bytes(hp->n_vocab));
    plan_item(plan, "thread stacks", plan_stacks(s, o));
    plan_item(plan, "program", plan_program(model));
}

static uint64_t plan_needs(const qsf_plan *fixed, const plan_sizes *z, uint32_t n_slots)
{
    return fixed->total + (n_slots < UINT32_MAX ? QSF_MIN(z->layers, n_slots * z->largest) : z->layers);
}

static bool plan_fits(const qsf_plan *fixed, const plan_sizes *z, const qsf_context_options *o,
                      uint32_t n_slots)
{
    return o->ram_budget == 0 || plan_needs(fixed, z, n_slots) <= o->ram_budget;
}

/* KV types from the best to the smallest that leaves a model; docs/kv-cache.md has what each costs
 * in perplexity. */
static const qsf_kv_type plan_kv_types[] = { QSF_KV_F16, QSF_KV_Q8, QSF_KV_Q8V4, QSF_KV_Q4, QSF_KV_Q4V2 };

/* A type's place there; behind the last for f32 and q2, which stay as they were asked for. */
static size_t plan_kv_rank(qsf_kv_type type)
{
    size_t i = 0;
    while (i < QSF_ARRAY_LEN(plan_kv_types) && plan_kv_types[i] != type) i++;
    return i;
}

/* Keeps n positions, a quarter of them the last ones: docs/kv-cache.md has what that costs.  n 0:
 * keeps all. */
static void plan_drop(qsf_context_options *o, uint32_t n)
{
    o->kv_window = n / 4;
    o->kv_heavy = n - o->kv_window;
}

/* Takes one step back; false where nothing is left to give.  Order: an embedding that is not the
 * head too (it costs a short read for a token that was not used lately), batch, context length
 * where nobody asked for one, keys and values of 8 bits, resident embedding and head, second
 * buffer, the rest of the batch; only then what shows in the answers: the rest of a context that
 * nobody asked for, which short ones do not miss, KV types from the cheapest loss on with half of
 * the positions between them, more positions, and the rest of any context. */
static bool plan_shrink(qsf_context_options *o, plan_state *state, bool tied)
{
    qsf_embedding_plan *e = &state->embedding;
    qsf_head_stream_plan *h = &state->head;
    const size_t kv = plan_kv_rank(o->kv_type);
    const uint32_t stay = o->kv_window + o->kv_heavy;
    if (!tied && !e->streams && state->can_embd) e->streams = true;
    else if (o->n_batch > 32) o->n_batch = QSF_MAX(32, o->n_batch / 2);
    else if (!state->ctx_given && o->n_ctx > 512) o->n_ctx = QSF_MAX(512, o->n_ctx / 2);
    else if (kv < plan_kv_rank(QSF_KV_Q8)) o->kv_type = plan_kv_types[kv + 1];
    else if (!h->streams && state->can_head) {
        h->streams = true;
        e->streams |= tied;
    }
    else if (h->part > PLAN_MIN_PART) h->part = QSF_MAX(PLAN_MIN_PART, h->part / 2);
    else if (e->n_kept > PLAN_MIN_KEPT) e->n_kept = PLAN_MIN_KEPT;
    else if (state->n_slots > 1) state->n_slots = 1;
    else if (o->n_batch > 8) o->n_batch = QSF_MAX(8, o->n_batch / 2);
    else if (state->may_drop && !stay && kv >= plan_kv_rank(QSF_KV_Q8V4) && o->n_ctx >= 2 * PLAN_MIN_DROPPING)
        plan_drop(o, o->n_ctx / 2);
    else if (kv < plan_kv_rank(QSF_KV_Q4V2) && (state->ctx_given || o->n_ctx <= PLAN_MIN_CTX))
        o->kv_type = plan_kv_types[kv + 1];
    else if (state->may_drop && stay > PLAN_MIN_DROPPING) plan_drop(o, QSF_MAX(PLAN_MIN_DROPPING, stay / 2));
    else if (state->may_drop && stay) {
        plan_drop(o, 0);
        o->n_ctx = PLAN_MIN_DROPPING;
    }
    else if (o->n_ctx > PLAN_MIN_CTX) o->n_ctx = QSF_MAX(PLAN_MIN_CTX, o->n_ctx / 2);
    else return false;
    o->n_logits = QSF_MIN(o->n_logits, o->n_batch);
    return true;
}

/* The smallest budget: what is needed when nothing is left to give. */
static uint64_t plan_least(const qsf_model *model, const plan_sizes *z, plan_state state,
                           qsf_context_options o)
{
    uint64_t least = UINT64_MAX;
    const uint64_t opening = model->source->opening + PLAN_PROGRAM;   /* taken before anybody could plan */
    do {
        qsf_plan p;
        plan_fixed(model, z, &state, &o, &p);
        least = QSF_MIN(least, plan_needs(&p, z, state.n_slots));
    } while (plan_shrink(&o, &state, model->source->hp.tied));
    return QSF_MAX(least, opening);
}

/* What was asked and not granted. */
static void plan_explain(qsf_plan *plan, const plan_state *asked_state, const plan_state *state,
                         const qsf_context_options *asked, const qsf_context_options *o)
{
    if (o->n_batch < asked->n_batch)
        plan_note(plan, false, "batch %u -> %u", (unsigned)asked->n_batch, (unsigned)o->n_batch);
    if (o->n_ctx < asked->n_ctx)
        plan_note(plan, true, "context length %u -> %u", (unsigned)asked->n_ctx, (unsigned)o->n_ctx);
    if (o->kv_heavy != asked->kv_heavy)
        plan_note(plan, true, "positions that stay %u -> %u, by attention", (unsigned)o->n_ctx,
                  (unsigned)(o->kv_window + o->kv_heavy));
    if (o->kv_type != asked->kv_type)
        plan_note(plan, true, "keys and values %s -> %s", qsf_kv_name(asked->kv_type),
                  qsf_kv_name(o->kv_type));
    const qsf_embedding_plan *e = &state->embedding;
    const qsf_head_stream_plan *h = &state->head;
    const char *embd = h->streams ? "embedding and head stream" : "embedding streams";
    if (e->streams || h->streams) plan_note(plan, false, "%s", e->streams ? embd : "head streams");
    if (h->streams && h->part < asked_state->head.part)
        plan_note(plan, false, "parts of the head %.1f -> %.1f MB", (double)asked_state->head.part / 1e6,
                  (double)h->part / 1e6);
    if (e->streams && e->n_kept < asked_state->embedding.n_kept)
        plan_note(plan, false, "embedding rows kept %u -> %u", (unsigned)asked_state->embedding.n_kept,
                  (unsigned)e->n_kept);
    if (state->n_slots < asked_state->n_slots) plan_note(plan, false, "second layer buffer left out");
}

void qsf_plan_log(const qsf_model *model, const qsf_plan *plan, const qsf_context_options *o)
{
    for (size_t i = 0; i < plan->n_reductions; i++) {
        qsf_log(model, plan->losses[i] ? QSF_LOG_WARN : QSF_LOG_INFO, "%s, to stay within %llu MB",
                plan->reductions[i], (unsigned long long)(o->ram_budget / 1000000));
    }
}

/* One step towards what was asked, of one kind; false: nothing of it was taken. */
typedef enum plan_growth { GROW_COARSE_KV, GROW_CTX, GROW_KV, GROW_BATCH, N_GROWTHS } plan_growth;
static bool plan_grow(qsf_context_options *o, const qsf_context_options *asked, bool ctx_given,
                      plan_growth kind)
{
    const size_t kv = plan_kv_rank(o->kv_type), best = plan_kv_rank(asked->kv_type);
    const size_t coarse = plan_kv_rank(ctx_given ? QSF_KV_Q8V4 : QSF_KV_Q8);
    if (kind == GROW_COARSE_KV && kv > QSF_MAX(best, coarse)) o->kv_type = plan_kv_types[kv - 1];
    else if (kind == GROW_CTX && o->n_ctx < asked->n_ctx) o->n_ctx = QSF_MIN(asked->n_ctx, o->n_ctx * 2);
    else if (kind == GROW_KV && kv > best) o->kv_type = plan_kv_types[kv - 1];
    else if (kind == GROW_BATCH && o->n_batch < asked->n_batch)
        o->n_batch = QSF_MIN(asked->n_batch, o->n_batch * 2);
    else return false;
    o->n_logits = QSF_MIN(asked->n_logits, o->n_batch);
    return true;
}

/* A later step back may have made room for what an earlier one took. */
static void plan_regrow(const qsf_model *model, const plan_sizes *z, const plan_state *state,
                        qsf_context_options *o, const qsf_context_options *asked, qsf_plan *plan)
{
    for (int kind = 0; kind < N_GROWTHS; kind++)
        for (;;) {
            qsf_context_options more = *o;
            qsf_plan larger;
            if (!plan_grow(&more, asked, state->ctx_given, (plan_growth)kind)) break;
            plan_fixed(model, z, state, &more, &larger);
            if (!plan_fits(&larger, z, &more, state->n_slots)) break;
            *o = more;
            *plan = larger;
        }
}

/* Which slots there are: layers that stay, buffers that the others pass through, then embedding,
 * norm and head. */
static void plan_place(const qsf_source *s, const plan_sizes *z, const plan_state *state,
                       const qsf_context_options *o, qsf_memory *m, qsf_plan *plan)
{
    const uint32_t n_layers = s->hp.n_layers, n_run = qsf_layers_run(s, o->quality, n_layers);
    const uint32_t n_slots = state->n_slots;
    m->embedding = state->embedding;
    m->embedding.n_batch = o->n_batch;
    m->head = state->head;
    /* Layers that stay: all, or as many from the first on as leave room for the buffers that the
     * others pass through. */
    plan->resident = o->ram_budget == 0 || plan->total + z->layers <= o->ram_budget;
    uint64_t spare = plan->resident ? z->layers : o->ram_budget - plan->total - n_slots * z->largest;
    uint64_t pinned = 0;
    m->n_slots = 0;
    for (uint32_t u = 0; u < n_layers; u++) {
        const uint64_t bytes = m->caps[u];
        if (!qsf_layer_runs(s, o->quality, u)) continue;
        if (bytes > spare) break;
        /* From here on of the slot; what that overwrites belongs to a layer before or to this
         * one. */
        m->caps[m->n_slots] = bytes;
        m->pins[m->n_slots++] = (int32_t)u;
        spare -= bytes;
        pinned += bytes;
    }
    const uint64_t embd = m->caps[qsf_unit_embd(s)], final = m->caps[qsf_unit_final(s)];
    plan->n_slots = m->n_slots == n_run ? 0 : n_slots;
    if (plan->n_slots)
        plan_note(plan, false, "%u of %u layers stream", (unsigned)(n_run - m->n_slots), (unsigned)n_run);
    plan_item(plan, "layers that stay", pinned);
    if (plan->n_slots) plan_item(plan, "layer buffers", n_slots * z->largest);
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        m->caps[m->n_slots] = z->largest;
        m->pins[m->n_slots++] = -1;
    }
    if (!m->embedding.streams) {
        m->caps[m->n_slots] = embd;
        m->pins[m->n_slots++] = (int32_t)qsf_unit_embd(s);
    }
    if (!m->head.streams || s->hp.tied) {
        m->caps[m->n_slots] = final;
        m->pins[m->n_slots++] = (int32_t)qsf_unit_final(s);
    }
    m->stored = plan_staging(z, state, 0);
    m->n_stages = plan_stages(state);
    m->raw = plan_staging(z, state, 1);
}

qsf_status qsf_plan_make(const qsf_model *model, qsf_context_options *o, bool ctx_given, qsf_memory *m,
                         qsf_plan *plan, qsf_error *err)
{
    const qsf_source *s = model->source;
    const qsf_context_options asked = *o;
    plan_state state = { .n_slots = 2, .ctx_given = ctx_given, .embedding.n_kept = PLAN_KEPT }, asked_state;
    state.may_drop = ctx_given && o->kv_may_drop && !o->kv_window && o->n_seqs == 1 && !(o->early_exit > 0);
    plan_sizes z;
    qsf_status st;

    if ((st = plan_measure(s, o, &z, m->caps, err))) return st;
    if ((st = qsf_head_bytes(s, o, &z.approx, err))) return st;
    if (o->head == QSF_HEAD_EXACT) plan_can_stream(s, &z, &state);
    state.head.part = QSF_MIN(QSF_MAX(z.largest, PLAN_MIN_PART), PLAN_MAX_PART);
    asked_state = state;
    const uint64_t least = plan_least(model, &z, state, *o);
    if (o->ram_budget && least > o->ram_budget) {
        *plan = (qsf_plan){ .least = least };
        return qsf_fail(err, QSF_E_BUDGET, "%s needs at least %llu MB, the budget is %llu MB", s->path,
                        (unsigned long long)qsf_ceil_div(least, 1000000),
                        (unsigned long long)(o->ram_budget / 1000000));
    }
    plan_fixed(model, &z, &state, o, plan);
    bool reduced = false;
    /* Before any layer streams, which all tokens wait for. */
    if (!s->hp.tied && state.can_embd && !plan_fits(plan, &z, o, UINT32_MAX)) {
        state.embedding.streams = true;
        plan_fixed(model, &z, &state, o, plan);
    }
    while (!plan_fits(plan, &z, o, state.n_slots) && plan_shrink(o, &state, s->hp.tied)) {
        plan_fixed(model, &z, &state, o, plan);
        reduced = true;
    }
    plan_regrow(model, &z, &state, o, &asked, plan);
    plan->least = least;
    if (!reduced && plan_fits(plan, &z, o, PLAN_SLOTS)) state.n_slots = PLAN_SLOTS;
    plan_place(s, &z, &state, o, m, plan);
    m->reserve = plan->total - plan_apart(model, o);
    plan_explain(plan, &asked_state, &state, &asked, o);
    return QSF_OK;
}
