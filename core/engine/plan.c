/* The budget: what every part takes, and how far down the ladder it leads.
 * SPDX-License-Identifier: MIT */
#include "engine/plan.h"
#include "base/pieces.h"
#include "engine/context.h"
#include "engine/cpu_executor.h"
#include "engine/state_tables.h"
#include "model/part.h"
#include "turn/sampler.h"
#include "weights/experts.h"

/* If nothing had to be reduced, a third buffer lets two layers be read while one is computed. */
enum { PLAN_SLOTS = 3 };
/* The most pieces of the reserve besides the fetch's slots, and how many of them are large. */
enum { PLAN_PIECES = 45, PLAN_LARGE = 18 };
/* A program's heap, what large pieces lose to whole pages, and what its code takes beyond the 4 MB
 * that a budget leaves to it. */
enum { PLAN_PROGRAM = 1 << 20 };
/* Pages of a mapped file that are resident while they are copied: what the page cache maps as one
 * piece. */
enum { PLAN_MAPPED = 9 << 18 };
enum { PLAN_STACK = 128 * 1024, PLAN_MAX_PART = 16 << 20, PLAN_KEPT = 256 };

typedef struct plan_sizes {
    uint64_t embd, final, layers, largest;
    /* [layers and a final norm that is loaded, embedding, final unit with the head][stored, raw] */
    uint64_t staging[3][2];
    uint64_t tables;          /* of the file alone */
    uint64_t rows_head;       /* what an approximate head takes besides the head itself */
    uint64_t expert;          /* a slot for one with its tables; 0: experts come with their layers */
    uint64_t experts_least;   /* of the fewest such slots */
    qsf_needs needs;          /* of the layers' programs */
} plan_sizes;

static void plan_stage(uint64_t most[2], uint64_t stored, uint64_t raw)
{
    most[0] = QSF_MAX(most[0], stored);
    most[1] = QSF_MAX(most[1], raw);
}

/* ---- memory for the plan ---- */

enum { MEMORY_PIECES = 2 };

static void memory_pieces(qsf_memory *m, const qsf_source *s, qsf_piece list[MEMORY_PIECES])
{
    list[0] = QSF_PIECE(m->caps, s->n_units + 2, "plan");
    list[1] = QSF_PIECE(m->pins, s->n_units + 2, "plan");
}

qsf_status qsf_memory_init(qsf_memory *m, const qsf_model *model, qsf_error *err)
{
    qsf_piece list[MEMORY_PIECES];
    *m = (qsf_memory){ 0 };
    memory_pieces(m, model->source, list);
    return qsf_pieces_alloc(model->platform, list, MEMORY_PIECES, err);
}

void qsf_memory_done(qsf_memory *m, const qsf_model *model)
{
    qsf_piece list[MEMORY_PIECES];
    memory_pieces(m, model->source, list);
    qsf_pieces_free(model->platform, list, MEMORY_PIECES);
}

/* ---- what every part takes ---- */

/* Pieces of the reserve begin at whole cache lines, the larger ones at whole pages. */
uint64_t qsf_plan_rounding(const qsf_source *s)
{
    const uint64_t lines = (s->n_units + 1 + PLAN_PIECES) * (uint64_t)QSF_RESERVE_LINE;
    return lines + PLAN_LARGE * QSF_RESERVE_PAGE;
}

/* shared: experts are read alone. */
static qsf_status plan_measure(const qsf_source *s, const qsf_context_options *o, bool shared, plan_sizes *z,
                               uint64_t *layer_bytes, qsf_error *err)
{
    /* At most one slot for each unit: layers pass through fewer slots than their number. */
    *z = (plan_sizes){ .tables = qsf_fetch_tables(s, s->n_units, o->n_threads) + qsf_plan_rounding(s) };
    qsf_needs_of(s, &z->needs);
    for (uint32_t u = 0; u < s->n_units; u++) {
        uint64_t slot, stored, raw;
        if (!qsf_part_needs(s, u) || (u < s->hp.n_layers && !qsf_layer_runs(s, o->quality, u))) continue;
        const qsf_status st = qsf_unit_memory(s, u, shared, &slot, &stored, &raw, err);
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
    if (!shared) return QSF_OK;
    z->tables += qsf_experts_bytes(s);
    z->expert = qsf_experts_slot(s) + qsf_fetch_expert_table(s) + QSF_RESERVE_LINE;
    z->experts_least = z->expert * QSF_MIN(QSF_LEAST_EXPERTS, qsf_experts_all(s));
    return QSF_OK;
}

static void plan_item(qsf_plan *plan, const char *name, uint64_t bytes)
{
    assert(plan->n_items < QSF_ARRAY_LEN(plan->items));
    plan->items[plan->n_items++] = (qsf_plan_item){ name, bytes };
    plan->total += bytes;
}

/* Windows on a small embedding are larger than the embedding. */
static void plan_can_stream(const qsf_source *s, const plan_sizes *z, qsf_grant *g)
{
    const bool tied = g->tied;
    const qsf_embedding_plan embedding = { .streams = true, .n_kept = QSF_LEAST_KEPT, .n_batch = 8 };
    const qsf_head_stream_plan head = { .streams = true, .part = QSF_LEAST_PART };
    g->can_embd = qsf_part_embeds(s) && qsf_embedding_can_stream(s);
    g->can_head = tied ? g->can_embd : qsf_part_ends(s) && qsf_head_can_stream(s);
    const uint64_t parts = g->can_head ? qsf_head_stream_bytes(s, &head) : 0;
    if (g->can_embd) {
        const uint64_t rows = qsf_embedding_bytes(s, &embedding) + qsf_embedding_kept_bytes(s, &embedding);
        g->can_embd = rows + (tied ? parts : 0) < z->embd;
    }
    g->can_head = tied ? g->can_embd : g->can_head && parts < z->final;
}

/* What each of the fetch's staging buffers must hold. */
static uint64_t plan_staging_most(const plan_sizes *z, const qsf_grant *g, int which)
{
    uint64_t most = z->staging[0][which];
    if (!g->embedding.streams) most = QSF_MAX(most, z->staging[1][which]);
    if (!g->head.streams) most = QSF_MAX(most, z->staging[2][which]);
    return most;
}

static uint64_t plan_description(const qsf_model *model)
{
    const uint64_t tokenizer = model->tokenizer ? qsf_tokenizer_memory(model->tokenizer) : 0;
    return sizeof *model + qsf_arena_used(model->source->arena) + tokenizer;
}

/* What is not of the context's reserve. */
static uint64_t plan_own(const qsf_source *s, const qsf_context_options *o)
{
    qsf_memory m;
    qsf_piece list[MEMORY_PIECES];
    memory_pieces(&m, s, list);
    return sizeof(qsf_context) + qsf_pool_bytes(o->n_threads) + qsf_pieces_bytes(list, MEMORY_PIECES);
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
    return plan_description(model) + own + o->adapter_bytes + qsf_sampler_bytes(s->hp.n_vocab);
}

/* With a second staging buffer, bytes are read while others are decompressed; it is dropped
 * together with the second layer buffer. */
static void plan_staging(const plan_sizes *z, const qsf_grant *g, qsf_fetch_plan *fetch)
{
    fetch->stored = plan_staging_most(z, g, 0);
    fetch->raw = plan_staging_most(z, g, 1);
    fetch->n_stages = g->n_slots > 1 ? QSF_STAGES : 1;
}

/* Embedding, final norm and head. */
static void plan_ends(const qsf_source *s, const plan_sizes *z, const qsf_grant *g, qsf_plan *plan)
{
    qsf_embedding_plan embedding = g->embedding;
    embedding.n_batch = g->o.n_batch;
    const bool head = g->head.streams, embd = embedding.streams;
    const char *both = embd ? "windows on embedding and head" : "windows on the head";
    const uint64_t windows = qsf_embedding_bytes(s, &embedding) + qsf_head_stream_bytes(s, &g->head);
    if (embd || head) plan_item(plan, head ? both : "window on the embedding", windows);
    if (embd) plan_item(plan, "embedding rows kept", qsf_embedding_kept_bytes(s, &embedding));
    else if (qsf_part_embeds(s)) plan_item(plan, "embedding", z->embd);
    if (!qsf_part_ends(s)) return;
    if (s->hp.tied) plan_item(plan, "final norm", z->final);
    else if (!head) plan_item(plan, "final norm and head", z->final);
}

/* Everything but the layers' weights. */
static void plan_fixed(const qsf_model *model, const plan_sizes *z, const qsf_grant *g, qsf_plan *plan)
{
    const qsf_source *s = model->source;
    const qsf_context_options *o = &g->o;
    qsf_fetch_plan fetch = { 0 };
    const qsf_hparams *hp = &s->hp;
    qsf_executor_needs needs;
    *plan = (qsf_plan){ .n_ctx = o->n_ctx, .n_batch = o->n_batch, .kv_type = o->kv_type,
                        .kv_window = o->kv_window, .kv_heavy = o->kv_heavy };
    qsf_cpu_executor_table.plan(s, &z->needs, o, &needs);
    plan_staging(z, g, &fetch);
    plan_ends(s, z, g, plan);
    if (z->rows_head) plan_item(plan, "approximate head", z->rows_head);
    plan_item(plan, "KV cache", needs.kv + qsf_kv_tables_bytes(qsf_kv_blocks_of(o), o->n_seqs));
    if (needs.state)
        plan_item(plan, "state", needs.state + qsf_state_tables_bytes(o->n_seqs) + 2 * QSF_RESERVE_PAGE);
    plan_item(plan, "activations", needs.activations);
    plan_item(plan, "staging", qsf_fetch_staging(&fetch));
    plan_item(plan, "description and vocabulary", plan_description(model));
    plan_item(plan, "tables", plan_own(s, o) + z->tables + qsf_context_tables(s, o));
    plan_item(plan, "sampler", qsf_sampler_bytes(hp->n_vocab));
    if (o->adapter_bytes) plan_item(plan, "adapters", o->adapter_bytes);
    plan_item(plan, "thread stacks", plan_stacks(s, o));
    plan_item(plan, "program", plan_program(model));
}

static uint64_t plan_needs(const qsf_plan *fixed, const plan_sizes *z, uint32_t n_slots)
{
    return fixed->total + z->experts_least +
           (n_slots < UINT32_MAX ? QSF_MIN(z->layers, n_slots * z->largest) : z->layers);
}

static bool plan_fits(const qsf_plan *fixed, const plan_sizes *z, const qsf_grant *g, uint32_t n_slots)
{
    return g->o.ram_budget == 0 || plan_needs(fixed, z, n_slots) <= g->o.ram_budget;
}

/* ---- down the ladder ---- */

/* The smallest budget: what is needed when nothing is left to give. */
static uint64_t plan_least(const qsf_model *model, const plan_sizes *z, qsf_grant g)
{
    uint64_t least = UINT64_MAX;
    const uint64_t opening = model->source->opening + PLAN_PROGRAM;   /* taken before anybody could plan */
    do {
        qsf_plan p;
        plan_fixed(model, z, &g, &p);
        least = QSF_MIN(least, plan_needs(&p, z, g.n_slots));
    } while (qsf_ladder_down(&g));
    return QSF_MAX(least, opening);
}

void qsf_plan_log(const qsf_model *model, const qsf_plan *plan, const qsf_context_options *o)
{
    for (size_t i = 0; i < plan->n_reductions; i++) {
        qsf_log(model, plan->losses[i] ? QSF_LOG_WARN : QSF_LOG_INFO, "%s, to stay within %llu MB",
                plan->reductions[i], (unsigned long long)(o->ram_budget / 1000000));
    }
}

/* ---- slots ---- */

static void plan_slot(qsf_memory *m, uint64_t cap, qsf_pin pin)
{
    m->caps[m->fetch.n_slots] = cap;
    m->pins[m->fetch.n_slots++] = pin;
}

/* The rest goes to experts. */
static void plan_experts(const qsf_source *s, const plan_sizes *z, uint64_t spare, qsf_memory *m,
                         qsf_plan *plan)
{
    const uint32_t all = qsf_experts_all(s);
    m->fetch.n_experts = 0;
    if (!z->expert) return;
    const uint64_t n = QSF_MIN((z->experts_least + spare) / z->expert, all);
    m->fetch.n_experts = plan->n_experts = (uint32_t)n;
    m->fetch.expert_cap = qsf_experts_slot(s);
    plan_item(plan, "experts", n * z->expert);
    qsf_plan_note(plan, false, "%u of %u experts have a place", (unsigned)n, (unsigned)all);
}

/* Which slots there are: layers that stay, buffers that the others pass through, then embedding,
 * norm and head. */
static void plan_place(const qsf_source *s, const plan_sizes *z, const qsf_grant *g, qsf_memory *m,
                       qsf_plan *plan)
{
    const uint32_t n_layers = s->hp.n_layers, n_run = qsf_layers_run(s, g->o.quality, n_layers),
        n_here = n_layers - g->o.device_layers;
    const uint64_t budget = g->o.ram_budget;
    /* Layers that stay: all that no device computes, or as many from the first on as leave room for
     * the buffers that the others pass through. */
    const uint64_t taken = plan->total + z->experts_least;
    const bool all_stay = budget == 0 || taken + z->layers <= budget, whole = all_stay && !z->expert;
    plan->resident = whole && n_here == n_layers;
    uint64_t spare = whole ? z->layers : budget - taken - (all_stay ? 0 : g->n_slots * z->largest);
    uint64_t pinned = 0;
    m->fetch.n_slots = 0;
    for (uint32_t u = 0; u < n_here; u++) {
        const uint64_t bytes = m->caps[u];
        if (!qsf_layer_runs(s, g->o.quality, u)) continue;
        if (bytes > spare) break;
        /* From here on of the slot; what that overwrites belongs to a layer before or to this
         * one. */
        plan_slot(m, bytes, qsf_pin_to(qsf_id_layer(u)));
        spare -= bytes;
        pinned += bytes;
    }
    const uint32_t stay = m->fetch.n_slots;
    plan->n_slots = stay == n_run ? 0 : g->n_slots;
    if (plan->n_slots && budget)
        qsf_plan_note(plan, false, "%u of %u layers stream", (unsigned)(n_run - stay), (unsigned)n_run);
    plan_item(plan, "layers that stay", pinned);
    if (plan->n_slots) plan_item(plan, "layer buffers", g->n_slots * z->largest);
    for (uint32_t i = 0; i < plan->n_slots; i++) plan_slot(m, z->largest, (qsf_pin){ .pinned = 0 });
    if (!g->embedding.streams && qsf_part_embeds(s)) plan_slot(m, z->embd, qsf_pin_to(qsf_id_embd()));
    if (qsf_part_ends(s) && (!g->head.streams || s->hp.tied))
        plan_slot(m, z->final, qsf_pin_to(qsf_id_final()));
    plan_experts(s, z, spare, m, plan);
    m->fetch.caps = m->caps;
    m->fetch.pins = m->pins;
    plan_staging(z, g, &m->fetch);
    m->embedding = g->embedding;
    m->embedding.n_batch = g->o.n_batch;
    m->head = g->head;
}

/* What a device will have passes through in parts.  Tied matrices do so together. */
static void plan_moves(const qsf_source *s, qsf_grant *g)
{
    const bool all = g->o.device_layers == s->hp.n_layers;
    g->n_slots = 1;
    g->head.streams = g->can_head && (all || !g->tied);
    g->embedding.streams |= g->can_embd && all;
    g->embedding.part = g->head.part = QSF_LEAST_PART;
}

/* What the options ask for, before anything is reduced. */
static qsf_grant plan_wishes(const qsf_source *s, const qsf_context_options *o, bool ctx_given,
                             const plan_sizes *z)
{
    qsf_grant g = { .o = *o, .n_slots = 2, .tied = s->hp.tied && qsf_part_ends(s),
                    .whole = s->hp.both_ways,
                    .ctx_given = ctx_given,
                    .embedding.n_kept = PLAN_KEPT };
    g.may_drop = ctx_given && o->kv_may_drop && !o->kv_window && o->n_seqs == 1 && !(o->early_exit > 0);
    if (o->head == QSF_HEAD_EXACT || s->hp.n_embd_layer) plan_can_stream(s, z, &g);
    if (o->head != QSF_HEAD_EXACT) g.can_head = false;
    /* Per-layer embeddings are most of such a model, and a token needs one row: they stay in the
     * file. */
    g.embedding.streams = s->hp.n_embd_layer && !g.tied && g.can_embd;
    g.head.part = QSF_MIN(QSF_MAX(z->largest, QSF_LEAST_PART), PLAN_MAX_PART);
    if (o->device_layers) plan_moves(s, &g);
    return g;
}

/* The sizes of everything; experts are read one by one if this is possible and not all layers fit.
 * *least: the smallest budget. */
static qsf_status plan_sizes_of(const qsf_model *model, const qsf_context_options *o, bool ctx_given,
                                qsf_memory *m, plan_sizes *z, uint64_t *least, qsf_error *err)
{
    const qsf_source *s = model->source;
    qsf_status st = plan_measure(s, o, qsf_experts_possible(s), z, m->caps, err);
    if (st || (st = qsf_head_bytes(s, o, &z->rows_head, err))) return st;
    qsf_context_options alone = *o;     /* a budget excludes a device's layers */
    alone.device_layers = 0;
    *least = plan_least(model, z, plan_wishes(s, &alone, ctx_given, z));
    if (!z->expert) return QSF_OK;
    plan_sizes whole;
    qsf_plan plan;
    if ((st = plan_measure(s, o, false, &whole, m->caps, err))) return st;
    whole.rows_head = z->rows_head;
    qsf_grant g = plan_wishes(s, o, ctx_given, &whole);
    (void)qsf_ladder[QSF_RUNG_EMBEDDING].step(&g);
    plan_fixed(model, &whole, &g, &plan);
    if (!plan_fits(&plan, &whole, &g, UINT32_MAX)) return plan_measure(s, o, true, &whole, m->caps, err);
    *z = whole;
    return QSF_OK;
}

qsf_status qsf_plan_make(const qsf_model *model, qsf_context_options *o, bool ctx_given, qsf_memory *m,
                         qsf_plan *plan, qsf_error *err)
{
    const qsf_source *s = model->source;
    plan_sizes z;
    qsf_status st;
    uint64_t least;

    if ((st = plan_sizes_of(model, o, ctx_given, m, &z, &least, err))) return st;
    const qsf_grant asked = plan_wishes(s, o, ctx_given, &z);
    if (o->ram_budget && least > o->ram_budget) {
        *plan = (qsf_plan){ .least = least };
        return qsf_fail(err, QSF_E_BUDGET, "%s needs at least %llu MB, the budget is %llu MB", s->path,
                        (unsigned long long)qsf_ceil_div(least, 1000000),
                        (unsigned long long)(o->ram_budget / 1000000));
    }
    qsf_grant g = asked;
    plan_fixed(model, &z, &g, plan);
    /* Before any layer streams, which all tokens wait for. */
    if (!plan_fits(plan, &z, &g, UINT32_MAX) && qsf_ladder[QSF_RUNG_EMBEDDING].step(&g))
        plan_fixed(model, &z, &g, plan);
    bool reduced = false;
    /* Every budget takes the same steps until the plan fits, so a larger budget never takes more of
     * them.  A step is not undone even if room remains after it; only layers (and experts) may use
     * that room. */
    while (!plan_fits(plan, &z, &g, g.n_slots) && qsf_ladder_down(&g)) {
        plan_fixed(model, &z, &g, plan);
        reduced = true;
    }
    plan->least = least;
    if (!reduced && !g.o.device_layers && plan_fits(plan, &z, &g, PLAN_SLOTS)) g.n_slots = PLAN_SLOTS;
    plan_place(s, &z, &g, m, plan);
    *o = g.o;
    m->reserve = plan->total - plan_apart(model, o);
    qsf_ladder_say(plan, &asked, &g);
    return QSF_OK;
}
