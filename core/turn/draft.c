/* Drafts: the tokens that followed the same words earlier.
 * SPDX-License-Identifier: MIT
 *
 * Text repeats itself: names, code, quotes from the question.  A guess costs a search;
 * one pass over the weights checks all guesses together (prompt lookup decoding,
 * Saxena 2023). */
#include "base/sized.h"
#include "model/model.h"

/* matching tokens: the minimum, and enough to stop the search */
enum { DRAFT_LEAST = 2, DRAFT_LONG = 4, DRAFT_CONTEXT = 1024 };

/* How many tokens before place a are those before place b, a < b. */
static size_t same_before(const int32_t *ids, size_t a, size_t b)
{
    size_t n = 0;
    while (n < DRAFT_LONG && n < a && ids[a - 1 - n] == ids[b - 1 - n]) n++;
    return n;
}

size_t qsf_draft_lookup(const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    size_t best = 0, best_same = DRAFT_LEAST - 1;
    /* no array is that long */
    if (n > PTRDIFF_MAX / sizeof *ids || cap > PTRDIFF_MAX / sizeof *out) return 0;
    for (size_t at = n ? n - 1 : 0; at > 0 && best_same < DRAFT_LONG; at--) {
        const size_t same = same_before(ids, at, n);
        if (same <= best_same) continue;
        best = at;
        best_same = same;
    }
    if (!best) return 0;
    /* If the draft reaches the end of ids, it starts over, as repetitive text does. */
    for (size_t i = 0; i < cap; i++) out[i] = best + i < n ? ids[best + i] : out[best + i - n];
    return cap;
}

uint32_t qsf_draft_room(const qsf_model *m, qsf_context_options *o, uint32_t most)
{
    qsf_context_options more;
    qsf_plan without = { .size = sizeof without }, with = { .size = sizeof with };
    qsf_context_defaults(&more);
    if (QSF_TAKE(&more, o, qsf_context_options, NULL) ||
        !QSF_SIZED_HAS(o, qsf_context_options, n_logits)) return 0;
    /* a batch of several rows takes no early exit */
    if (more.early_exit > 0 || qsf_context_plan(m, o, &without, NULL)) return 0;
    /* what is dropped depends on batches */
    if (without.resident || without.kv_heavy) return 0;
    for (; most; most /= 2) {
        more.n_logits = 1 + most;
        if (qsf_context_plan(m, &more, &with, NULL)) continue;
        /* Saved passes are worth halving the prompt's batch, and halving a context length that the
         * caller did not set, if it stays long enough. */
        if (with.n_ctx < without.n_ctx && (o->n_ctx || with.n_ctx < DRAFT_CONTEXT
                                           || 2 * with.n_ctx < without.n_ctx))
            continue;
        if (2 * with.n_batch < without.n_batch || with.kv_type != without.kv_type
            || with.n_slots < without.n_slots || with.kv_heavy)
            continue;
        o->n_logits = more.n_logits;
        return most;
    }
    return 0;
}
