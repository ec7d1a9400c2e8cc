/* The ladder: what a smaller budget reduces, step by step.
 * SPDX-License-Identifier: MIT */
#include "engine/ladder.h"
#include "layers/kv.h"

enum { LADDER_MIN_CTX = 128, LADDER_CHAT_CTX = 1024, LADDER_MIN_BATCH = 8 };
enum { LADDER_MIN_STAYING = 256 };      /* positions that stay where others are dropped */

/* ---- context ---- */

static bool halve(uint32_t *n, uint32_t least)
{
    if (*n <= least) return false;
    *n = QSF_MAX(least, *n / 2);
    return true;
}

/* Rounds down to the next eighth of a power of two: halving could leave up to half of the KV
 * cache's room unused. */
static bool shorten(uint32_t *n, uint32_t least)
{
    if (*n <= least) return false;
    uint32_t power = 1;
    while (power < *n - power) power *= 2;        /* the largest power of two below n */
    const uint32_t eighth = QSF_MAX(1, power / 4);
    *n = QSF_MAX(least, (*n - 1) / eighth * eighth);
    return true;
}

static bool ctx_own_to_chat(qsf_grant *g) { return !g->ctx_given && shorten(&g->o.n_ctx, LADDER_CHAT_CTX); }
static bool ctx_own(qsf_grant *g) { return !g->ctx_given && shorten(&g->o.n_ctx, LADDER_MIN_CTX); }
static bool ctx_any(qsf_grant *g) { return shorten(&g->o.n_ctx, LADDER_MIN_CTX); }

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

/* A type's index in that list; past the end for f32 and q2, which are never changed. */
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

static bool kv_to_8(qsf_grant *g) { return kv_worse(g, QSF_KV_Q8); }
static bool kv_to_8v4(qsf_grant *g) { return g->may_drop && kv_worse(g, QSF_KV_Q8V4); }
static bool kv_to_4(qsf_grant *g) { return kv_worse(g, QSF_KV_Q4); }
static bool kv_fewest(qsf_grant *g) { return kv_worse(g, QSF_KV_Q4V2); }

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
    const bool embedding = g->embedding.streams && !asked->embedding.streams,
        head = g->head.streams && !asked->head.streams;
    const char *embd = head ? "embedding and head stream" : "embedding streams";
    if (embedding || head) qsf_plan_note(plan, false, "%s", embedding ? embd : "head streams");
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

/* A rung's text for the documentation; left out of builds that never print it, such as WebAssembly
 * modules. */
#if defined(QSF_NO_HELP)
#  define HELP(text, loss) "", ""
#else
#  define HELP(text, loss) text, loss
#endif

/* Steps that cost only speed come first, then those that change the answers, larger losses last.  A
 * larger budget undoes them from the last to the first (qsf_plan_make).  docs/memory.md prints the
 * text and loss (tools/make_ladder.py). */
const qsf_rung qsf_ladder[QSF_N_RUNGS] = {
    [QSF_RUNG_EMBEDDING] =
    { embd_streams, NULL,
      HELP("an embedding that is not also the head is streamed",
           "a short read for each token that is not among the last 256") },
    { head_streams, ends_say,
      HELP("embedding and head are streamed",
           "the head is read once for each token") },
    { head_parts, parts_say,
      HELP("smaller parts of the head, down to 1 MB",
           "more and shorter reads") },
    { batch_to_32, batch_say,
      HELP("batch, to 32",
           "a prompt needs more passes over the layers") },
    { ctx_own_to_chat, ctx_say,
      HELP("context length, to 1024, if the caller did not set one",
           "none to a short conversation") },
    { kv_to_8, kv_say,
      HELP("KV cache of 8 bits, if 16 were set",
           "hardly any ([kv-cache.md](kv-cache.md#bits))") },
    { rows_kept, rows_say,
      HELP("fewer embedding rows kept, 32",
           "more of the short reads") },
    { one_buffer, buffer_say,
      HELP("the second layer buffer",
           "nothing is read while a layer is computed") },
    { batch_rest, NULL,
      HELP("the rest of the batch, to 8",
           "a prompt takes up to four times as many passes") },
    { ctx_own, NULL,
      HELP("the rest of a context length that the caller did not set, to 128",
           "a conversation ends early") },
    { kv_to_8v4, NULL,
      HELP("values of 4 bits (`q8v4`), if positions may be dropped",
           "little") },
    { drop_half, NULL,
      HELP("half of the positions of a context length that the caller set, if it allows that "
           "(`kv_may_drop`; `qsf-run` does, except with `--session`)",
           "the text that drew the least attention is forgotten "
           "([heavy hitters](kv-cache.md#heavy-hitters))") },
    { kv_to_4, NULL,
      HELP("KV cache of fewer bits: `q8v4`, then `q4`",
           "the answers get a little worse ([kv-cache.md](kv-cache.md#bits))") },
    { drop_more, NULL,
      HELP("more positions, until 256 stay",
           "most of a long text is forgotten") },
    { drop_none, NULL,
      HELP("positions are no longer dropped: the context has 256",
           "a conversation ends there") },
    { ctx_any, NULL,
      HELP("the rest of a context length that the caller set, to 128",
           "a conversation ends early, although it asked for more") },
    { kv_fewest, NULL,
      HELP("values of 2 bits (`q4v2`)",
           "the answers get much worse ([kv-cache.md](kv-cache.md#bits))") },
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
