/* Chooses a turn's next token, on demand or ahead for several turns at once.
 * SPDX-License-Identifier: MIT */
#include "turn/turn_own.h"

#include "base/pool.h"
#include "engine/context.h"
#include "engine/step.h"
#include "engine/totals.h"
#include "turn/sampler_candidates.h"
#include "turn/sampler_own.h"

#if defined(QSF_NO_CANDIDATES)
static inline bool logprobs_of_candidates(qsf_turn *t, size_t row, int32_t id)
{
    (void)t, (void)row, (void)id;
    return false;
}
#else
/* false: they need the row's logits, which are there. */
static bool logprobs_of_candidates(qsf_turn *t, size_t row, int32_t id)
{
    const qsf_candidates *c = t->given ? NULL : qsf_candidates_of(t->context, row);
    if (!c) return false;
    t->n_logprobs = qsf_candidates_logprobs(c, id, t->logprobs, (uint32_t)t->o.logprobs);
    return t->n_logprobs || !qsf_turn_logits(t, row);
}
#endif

/* Chooses from the current logits; does not change the context. */
static int32_t turn_choose_now(qsf_turn *t)
{
    const uint64_t begin = qsf_now(t->platform);
    const size_t row = t->first + t->right;
    const int32_t id = qsf_turn_choose(t, row);
    t->n_logprobs = 0;
    if (id >= 0 && t->o.logprobs >= 0 && !logprobs_of_candidates(t, row, id))
        t->n_logprobs = qsf_logprobs(&t->context->k, qsf_turn_logits(t, row), t->n_vocab, id, t->logprobs,
                                     (uint32_t)t->o.logprobs);
    t->state.ns_sampling += qsf_now(t->platform) - begin;
    return id;
}

int32_t qsf_turn_draw(qsf_turn *t)
{
    turn_grammar *g = &t->grammar;
    if (t->ahead) {
        t->ahead = false;
        return t->next;
    }
    if (g->at < g->n_forced) {
        t->n_logprobs = 0;
        t->state.n_forced++;
        return g->forced[g->at++];
    }
    const uint64_t begin = qsf_now(t->platform);
    const int32_t id = turn_choose_now(t);
    qsf_context_sampled(t->context, begin);
    return id;
}

/* Whether choosing ahead is worth a thread and independent of other turns and of the caller's
 * functions.  A grammar may be shared with other turns and may need more logits of the context; a
 * reasoning budget may put the end mark in place of the next token. */
static bool turn_may_pick(const qsf_turn *t)
{
    if (!t->given && qsf_candidates_of(t->context, t->first + t->right)) return false;  /* it is quick */
    const bool work = t->sampler && (!qsf_sampler_greedy(t->sampler) || t->o.logprobs >= 0);
    return t->stage == TURN_READY && work && !t->ahead && t->o.max_tokens != 0 && !t->grammar.matcher
        && !t->reasoning.on && !t->sampler->callback;
}

static void turns_pick_one(void *arg, uint32_t thread, uint32_t piece)
{
    qsf_turn *t = ((qsf_turn *const *)arg)[piece];
    (void)thread;
    if (!turn_may_pick(t)) return;
    t->next = turn_choose_now(t);
    t->ahead = true;
}

void qsf_turns_pick(qsf_turn *const *turns, size_t n)
{
    size_t some = 0;
    for (size_t i = 0; i < n; i++) some += turn_may_pick(turns[i]);
    if (some < 2 || qsf_pool_size(turns[0]->context->pool) < 2) return;
    const qsf_context *c = turns[0]->context;
    const uint64_t begin = qsf_now(turns[0]->platform);
    for (size_t i = 0; i < n; i += QSF_POOL_PIECES)
        qsf_pool_run(c->pool, (uint32_t)QSF_MIN(n - i, QSF_POOL_PIECES), 1, turns_pick_one,
                     (void *)(uintptr_t)(turns + i));
    qsf_context_sampled(c, begin);
}
