/* Runs the sampler's stages in the caller's order.
 * SPDX-License-Identifier: MIT
 *
 * Each stage works on the tokens and logits that the stages before it leave, as in llama.cpp.  So
 * temperature and penalties change the logits, and the candidates are weighed again before the
 * next stage that needs weights.  Orders that give the default order's distribution run as the
 * default order, which is faster. */
#include "turn/sampler_own.h"

#include "engine/sampler_stages.h"

#if !defined(QSF_NO_SAMPLER_ORDER)

/* The row of a stage.  rank: its place in the default order; a dynamic temperature comes last. */
typedef struct order_row {
    char letter, rank;
    bool (*on)(const qsf_sampler_options *o);
    void (*off)(qsf_sampler_options *o);
    void (*run)(sampler_pick *k);
} order_row;

static bool order_sigma(const qsf_sampler_options *o) { return o->top_n_sigma > 0; }
static bool order_heat(const qsf_sampler_options *o) { return o->temperature != 1 || o->dynatemp_range > 0; }
static bool order_min_p(const qsf_sampler_options *o) { return o->min_p > 0; }
static bool order_top_k(const qsf_sampler_options *o) { return o->top_k > 0; }
static bool order_typical(const qsf_sampler_options *o) { return o->typical_p < 1; }
static bool order_top_p(const qsf_sampler_options *o) { return o->top_p < 1; }
static bool order_xtc(const qsf_sampler_options *o)
{
    return o->xtc_probability > 0 && o->xtc_threshold <= 0.5f;
}

static void no_penalties(qsf_sampler_options *o)
{
    o->repeat_penalty = 1;
    o->frequency_penalty = o->presence_penalty = 0;
}
static void no_dry(qsf_sampler_options *o) { o->dry_multiplier = 0; }
static void no_sigma(qsf_sampler_options *o) { o->top_n_sigma = 0; }
static void no_heat(qsf_sampler_options *o)
{
    o->temperature = 1;
    o->dynatemp_range = 0;
}
static void no_min_p(qsf_sampler_options *o) { o->min_p = 0; }
static void no_top_k(qsf_sampler_options *o) { o->top_k = 0; }
static void no_typical(qsf_sampler_options *o) { o->typical_p = 1; }
static void no_top_p(qsf_sampler_options *o) { o->top_p = 1; }
static void no_xtc(qsf_sampler_options *o) { o->xtc_probability = 0; }

/* Logits change: weights are computed again when they are needed. */
static void order_penalize(sampler_pick *k)
{
    qsf_pick_penalize(k);
    k->stale = true;
}
static void order_dry(sampler_pick *k)
{
    qsf_pick_dry(k);
    k->stale = true;
}
static void order_cut_typical(sampler_pick *k)
{
    qsf_pick_reweigh(k);
    qsf_pick_typical(k);
}
static void order_cut_top_p(sampler_pick *k)
{
    qsf_pick_reweigh(k);
    qsf_pick_top_p(k);
}
static void order_cut_xtc(sampler_pick *k)
{
    qsf_pick_reweigh(k);
    qsf_pick_xtc(k);
}

static const order_row order_rows[] = {
    { 'e', 0, qsf_sampler_penalizes, no_penalties, order_penalize },
    { 'd', 1, qsf_sampler_dries, no_dry, order_dry },
    { 's', 2, order_sigma, no_sigma, qsf_pick_sigma_of_rest },
    { 't', 3, order_heat, no_heat, qsf_pick_temperature },
    { 'm', 4, order_min_p, no_min_p, qsf_pick_min_p },
    { 'k', 5, order_top_k, no_top_k, qsf_pick_top_k_of_rest },
    { 'y', 6, order_typical, no_typical, order_cut_typical },
    { 'p', 7, order_top_p, no_top_p, order_cut_top_p },
    { 'x', 8, order_xtc, no_xtc, order_cut_xtc },
};

static const order_row *order_find(char letter)
{
    size_t i = 0;
    while (order_rows[i].letter != letter) i++;     /* the letters have been checked */
    return &order_rows[i];
}

bool qsf_sampler_select(qsf_sampler_options *o)
{
    const bool chosen = o->samplers[0] != 0;
    int last = -1;
    bool same = true;
    for (size_t i = 0; chosen && i < QSF_ARRAY_LEN(order_rows); i++) {
        const order_row *r = &order_rows[i];
        const bool stays = r->letter == 't' && o->mirostat;         /* Mirostat has a temperature */
        if (!stays && !memchr(o->samplers, r->letter, strlen(o->samplers))) r->off(o);
    }
    if (!chosen || o->mirostat || !(o->temperature > 0)) return false;
    for (const char *at = o->samplers; *at; at++) {
        const order_row *r = order_find(*at);
        const int rank = *at == 't' && o->dynatemp_range > 0 ? (int)QSF_ARRAY_LEN(order_rows) : r->rank;
        if (!r->on(o)) continue;
        same = same && rank > last;
        last = rank;
    }
    return !same;
}

void qsf_pick_ordered(sampler_pick *k)
{
    for (const char *at = k->s->o.samplers; *at; at++) {
        const order_row *r = order_find(*at);
        if (r->on(&k->s->o)) r->run(k);
    }
    qsf_pick_reweigh(k);
}

#endif
