/* The ladder: what gives way to a budget, rung by rung.
 * SPDX-License-Identifier: MIT */
#include "engine/ladder.h"
#include "engine/kv.h"

enum { LADDER_MIN_CTX = 128, LADDER_MIN_BATCH = 8 };
enum { LADDER_MIN_STAYING = 256 };      /* positions that stay where others are dropped */

/* ---- context ---- */

static bool halve(uint32_t *n, uint32_t least)
{
    if (*n <= least) return false;
    *n = QSF_MAX(least, *n / 2);
    return true;
}

static bool twice(uint32_t *n, uint32_t most)
{
    if (*n >= most) return false;
    *n = QSF_MIN(most, *n * 2);
    return true;
}

static bool ctx_own_to_512(qsf_grant *g) { return !g->ctx_given && halve(&g->o.n_ctx, 512); }
static bool ctx_own(qsf_grant *g) { return !g->ctx_given && halve(&g->o.n_ctx, LADDER_MIN_CTX); }
static bool ctx_any(qsf_grant *g) { return halve(&g->o.n_ctx, LADDER_MIN_CTX); }
static bool ctx_back(qsf_grant *g, const qsf_grant *asked) { return twice(&g->o.n_ctx, asked->o.n_ctx); }

static void ctx_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->o.n_ctx < asked->o.n_ctx)
        qsf_plan_note(plan, true, "context length %u -> %u", (unsigned)asked->o.n_ctx, (unsigned)g->o.n_ctx);
    if (g->o.kv_heavy != asked->o.kv_heavy)
        qsf_plan_note(plan, true, "positions that stay %u -> %u, by attention", (unsigned)g->o.n_ctx,
                      (unsigned)(g->o.kv_window + g->o.kv_heavy));
}

/* ---- keys and values ---- */

/* Types from the best to the smallest that leaves a model; docs/kv-cache.md has what each costs in
 * perplexity. */
static const qsf_kv_type ladder_kv[] = { QSF_KV_F16, QSF_KV_Q8, QSF_KV_Q8V4, QSF_KV_Q4, QSF_KV_Q4V2 };

/* A type's place there; behind the last for f32 and q2, which stay as they were asked for. */
static size_t kv_rank(qsf_kv_type type)
{
    size_t i = 0;
    while (i < QSF_ARRAY_LEN(ladder_kv) && ladder_kv[i] != type) i++;
    return i;
}

static bool kv_worse(qsf_grant *g, qsf_kv_type least)
{
    const size_t kv = kv_rank(g->o.kv_type);
    if (kv >= kv_rank(least)) return false;
    g->o.kv_type = ladder_kv[kv + 1];
    return true;
}

static bool kv_better(qsf_grant *g, const qsf_grant *asked, qsf_kv_type best)
{
    const size_t kv = kv_rank(g->o.kv_type);
    if (kv <= QSF_MAX(kv_rank(asked->o.kv_type), kv_rank(best))) return false;
    g->o.kv_type = ladder_kv[kv - 1];
    return true;
}

static bool kv_to_8(qsf_grant *g) { return kv_worse(g, QSF_KV_Q8); }
static bool kv_to_8v4(qsf_grant *g) { return g->may_drop && kv_worse(g, QSF_KV_Q8V4); }
static bool kv_fewer(qsf_grant *g) { return kv_worse(g, QSF_KV_Q4V2); }
static bool kv_back(qsf_grant *g, const qsf_grant *asked) { return kv_better(g, asked, QSF_KV_F16); }
/* Only as far as a longer context is worth more. */
static bool kv_fewer_back(qsf_grant *g, const qsf_grant *asked)
{
    return kv_better(g, asked, g->ctx_given ? QSF_KV_Q8V4 : QSF_KV_Q8);
}

static void kv_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->o.kv_type != asked->o.kv_type)
        qsf_plan_note(plan, true, "keys and values %s -> %s", qsf_kv_name(asked->o.kv_type),
                      qsf_kv_name(g->o.kv_type));
}

/* ---- positions that stay ---- */

/* Keeps n positions, a quarter of them the last ones: docs/kv-cache.md has what that costs.  n 0:
 * keeps all. */
static void drop_to(qsf_grant *g, uint32_t n)
{
    g->o.kv_window = n / 4;
    g->o.kv_heavy = n - g->o.kv_window;
}

static bool drop_half(qsf_grant *g)
{
    if (!g->may_drop || g->o.kv_window + g->o.kv_heavy || g->o.n_ctx < 2 * LADDER_MIN_STAYING) return false;
    drop_to(g, g->o.n_ctx / 2);
    return true;
}

static bool drop_more(qsf_grant *g)
{
    uint32_t stay = g->o.kv_window + g->o.kv_heavy;
    if (!g->may_drop || !halve(&stay, LADDER_MIN_STAYING)) return false;
    drop_to(g, stay);
    return true;
}

static bool drop_none(qsf_grant *g)
{
    if (!g->may_drop || !(g->o.kv_window + g->o.kv_heavy)) return false;
    drop_to(g, 0);
    g->o.n_ctx = LADDER_MIN_STAYING;
    return true;
}

/* ---- batch ---- */

static bool batch_to_32(qsf_grant *g) { return !g->whole && halve(&g->o.n_batch, 32); }
static bool batch_rest(qsf_grant *g) { return !g->whole && halve(&g->o.n_batch, LADDER_MIN_BATCH); }
static bool batch_back(qsf_grant *g, const qsf_grant *asked)
{
    return twice(&g->o.n_batch, asked->o.n_batch);
}

static void batch_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->o.n_batch < asked->o.n_batch)
        qsf_plan_note(plan, false, "batch %u -> %u", (unsigned)asked->o.n_batch, (unsigned)g->o.n_batch);
}

/* ---- embedding, head, layers ---- */

static bool embd_streams(qsf_grant *g)
{
    if (g->tied || g->embedding.streams || !g->can_embd) return false;
    g->embedding.streams = true;
    return true;
}

static bool head_streams(qsf_grant *g)
{
    if (g->head.streams || !g->can_head) return false;
    g->head.streams = true;
    g->embedding.streams |= g->tied;
    return true;
}

static void ends_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    const bool embedding = g->embedding.streams && !asked->embedding.streams;
    const char *embd = g->head.streams ? "embedding and head stream" : "embedding streams";
    if (embedding || g->head.streams) qsf_plan_note(plan, false, "%s", embedding ? embd : "head streams");
}

static bool head_parts(qsf_grant *g)
{
    if (g->head.part <= QSF_LEAST_PART) return false;
    g->head.part = QSF_MAX(QSF_LEAST_PART, g->head.part / 2);
    return true;
}

static void parts_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->head.streams && g->head.part < asked->head.part)
        qsf_plan_note(plan, false, "parts of the head %.1f -> %.1f MB", (double)asked->head.part / 1e6,
                      (double)g->head.part / 1e6);
}

static bool rows_kept(qsf_grant *g)
{
    if (g->embedding.n_kept <= QSF_LEAST_KEPT) return false;
    g->embedding.n_kept = QSF_LEAST_KEPT;
    return true;
}

static void rows_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->embedding.streams && g->embedding.n_kept < asked->embedding.n_kept)
        qsf_plan_note(plan, false, "embedding rows kept %u -> %u", (unsigned)asked->embedding.n_kept,
                      (unsigned)g->embedding.n_kept);
}

static bool one_buffer(qsf_grant *g) { return halve(&g->n_slots, 1); }

static void buffer_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    if (g->n_slots < asked->n_slots) qsf_plan_note(plan, false, "second layer buffer left out");
}

/* ---- the ladder ---- */

/* What documents say of a rung: left out where nobody prints it, as in a WebAssembly module. */
#if defined(QSF_NO_HELP)
#  define HELP(text, loss) "", ""
#else
#  define HELP(text, loss) text, loss
#endif

/* First what costs time alone, or what hardly anybody sees; then what shows in the answers.
 * docs/memory.md prints text and loss (tools/make_ladder.py). */
const qsf_rung qsf_ladder[QSF_N_RUNGS] = {
    [QSF_RUNG_EMBEDDING] =
    { embd_streams, NULL, NULL,
      HELP("an embedding that is not also the head streams",
           "a short read for each token that is not among the last 256") },
    { batch_to_32, batch_back, batch_say,
      HELP("batch, to 32",
           "a prompt needs more passes over the layers") },
    { ctx_own_to_512, NULL, ctx_say,
      HELP("context length, to 512, where nobody asked for one",
           "none to a short conversation") },
    { kv_to_8, kv_back, kv_say,
      HELP("keys and values of 8 bits, where 16 were asked for",
           "hardly any ([kv-cache.md](kv-cache.md#bits))") },
    { head_streams, NULL, ends_say,
      HELP("embedding and head stream",
           "the head is read once for each token") },
    { head_parts, NULL, parts_say,
      HELP("smaller parts of the head, down to 1 MB",
           "more and shorter reads") },
    { rows_kept, NULL, rows_say,
      HELP("fewer embedding rows kept, 32",
           "more of the short reads") },
    { one_buffer, NULL, buffer_say,
      HELP("the second layer buffer",
           "nothing is read while a layer is computed") },
    { batch_rest, NULL, NULL,
      HELP("the rest of the batch, to 8",
           "a prompt takes up to four times as many passes") },
    { ctx_own, ctx_back, NULL,
      HELP("the rest of a context that nobody asked for, to 128",
           "a conversation ends early") },
    { kv_to_8v4, NULL, NULL,
      HELP("values of 4 bits (`q8v4`), where positions may be dropped",
           "little") },
    { drop_half, NULL, NULL,
      HELP("half of the positions of a context that was asked for, where the caller lets them go "
           "(`kv_may_drop`; `qsf-run` does, except with `--session`)",
           "the text that drew the least attention is forgotten "
           "([heavy hitters](kv-cache.md#heavy-hitters))") },
    { kv_fewer, kv_fewer_back, NULL,
      HELP("keys and values in fewer bits, from the cheapest loss on: `q8v4`, `q4`, `q4v2`",
           "the answers get worse ([kv-cache.md](kv-cache.md#bits))") },
    { drop_more, NULL, NULL,
      HELP("more positions, until 256 stay",
           "most of a long text is forgotten") },
    { drop_none, NULL, NULL,
      HELP("positions are no longer dropped: the context has 256",
           "a conversation ends there") },
    { ctx_any, NULL, NULL,
      HELP("the rest of a context that was asked for, to 128",
           "a conversation ends early, although it asked for more") },
};
#undef HELP

bool qsf_ladder_down(qsf_grant *g)
{
    for (size_t i = 0; i < QSF_N_RUNGS; i++) {
        if (!qsf_ladder[i].step(g)) continue;
        g->o.n_logits = QSF_MIN(g->o.n_logits, g->o.n_batch);
        return true;
    }
    return false;
}

bool qsf_ladder_up(size_t rung, qsf_grant *g, const qsf_grant *asked)
{
    if (!qsf_ladder[rung].undo || !qsf_ladder[rung].undo(g, asked)) return false;
    g->o.n_logits = QSF_MIN(asked->o.n_logits, g->o.n_batch);
    return true;
}

void qsf_plan_note(qsf_plan *plan, bool loss, const char *fmt, ...)
{
    va_list args;
    assert(plan->n_reductions < QSF_ARRAY_LEN(plan->reductions));
    plan->losses[plan->n_reductions] = loss;
    va_start(args, fmt);
    qsf_vformat(plan->reductions[plan->n_reductions++], sizeof plan->reductions[0], fmt, args);
    va_end(args);
}

void qsf_ladder_say(qsf_plan *plan, const qsf_grant *asked, const qsf_grant *g)
{
    for (size_t i = 0; i < QSF_N_RUNGS; i++)
        if (qsf_ladder[i].say) qsf_ladder[i].say(plan, asked, g);
}
