/* Picks from the most likely tokens in place of all logits.
 * SPDX-License-Identifier: MIT
 *
 * The other tokens' logits are at most that of the last candidate.  They do not matter if what
 * changes logits raises none of them, and if top-k, or min-p, leaves them out.  With top-k the
 * sampler then runs on the candidates as on a vocabulary of its own; otherwise on a whole row in
 * which the others are -infinity.  Either way its sums have the same terms in the same places as
 * with all logits, so that the token is the same one. */
#include "turn/sampler_candidates.h"
#include "turn/sampler_own.h"

/* The candidates in the order of tokens, and what changes them. */
typedef struct few_logits {
    const qsf_candidates *c;
    uint32_t n;
    int32_t  token[QSF_CANDIDATES_MOST];
    float    was[QSF_CANDIDATES_MOST], x[QSF_CANDIDATES_MOST];
} few_logits;

static void few_sort(few_logits *f, const qsf_candidates *c)
{
    f->c = c;
    f->n = c->n;
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t to = i;
        for (; to && f->token[to - 1] > c->token[i]; to--) {
            f->token[to] = f->token[to - 1];
            f->was[to] = f->was[to - 1];
        }
        f->token[to] = c->token[i];
        f->was[to] = c->logit[i];
    }
    memcpy(f->x, f->was, f->n * sizeof *f->x);
}

/* The candidate of a token; f->n: it is none. */
static uint32_t few_find(const few_logits *f, int32_t token)
{
    uint32_t low = 0, high = f->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->token[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < f->n && f->token[low] == token ? low : f->n;
}

/* ---- what changes logits ---- */

/* Whether a stage needs logits of all tokens, or may raise that of any. */
static bool few_suffice(const qsf_sampler *s)
{
    const qsf_sampler_options *o = &s->o;
    const bool lower = o->repeat_penalty >= 1 && o->frequency_penalty >= 0 && o->presence_penalty >= 0;
    if (s->callback || s->banned.len || s->ordered || qsf_sampler_dries(o)) return false;
    if (qsf_sampler_penalizes(o) && !lower) return false;
    return qsf_sampler_greedy(s) || (!o->mirostat && !(o->top_n_sigma > 0));
}

bool qsf_sampler_takes_candidates(const qsf_sampler *s)
{
    const bool few = s->o.top_k && s->o.top_k <= QSF_CANDIDATES_MOST;
    return few_suffice(s) && (qsf_sampler_greedy(s) || few || s->o.min_p > 0);
}

/* Begins the choice.  false: penalties consider more tokens than it has room for. */
static bool choice_penalties(const qsf_sampler *s, qsf_choice *out)
{
    const qsf_sampler_options *o = &s->o;
    *out = (qsf_choice){ .top_p = 1, .repeat = 1 };
    if (!qsf_sampler_penalizes(o)) return true;
    if (o->repeat_last_n > QSF_CHOICE_LAST) return false;
    out->repeat = o->repeat_penalty;
    out->frequency = o->frequency_penalty;
    out->presence = o->presence_penalty;
    out->window = o->repeat_last_n;
    out->n_last = qsf_sampler_n_last(s);
    for (uint32_t i = 0; i < out->n_last; i++) out->last[i] = qsf_sampler_last(s, i);
    return true;
}

bool qsf_sampler_choice(const qsf_sampler *s, qsf_choice *out)
{
    const qsf_sampler_options *o = &s->o;
    qsf_sampler later = *s;             /* its random numbers alone */
    if (!few_suffice(s) || s->n_biases || !choice_penalties(s, out)) return false;
    out->top_k = 1;
    if (qsf_sampler_greedy(s)) return true;
    if (!o->top_k || o->top_k > QSF_CANDIDATES_MOST || o->typical_p < 1) return false;
    if (o->xtc_probability > 0 || o->dynatemp_range > 0) return false;
    out->top_k = o->top_k;
    out->scale = QSF_MIN(1 / o->temperature, FLT_MAX);
    out->top_p = o->top_p;
    out->min_p = o->min_p;
    for (int i = 0; i < 2; i++) out->draw[i] = (float)qsf_sampler_random(&later);
    return true;
}

/* false: another token may become a candidate. */
static bool few_bias(const qsf_sampler *s, few_logits *f)
{
    for (uint32_t i = 0; i < s->n_biases; i++) {
        const uint32_t at = few_find(f, s->biases[i].token);
        if (at == f->n && s->biases[i].bias > 0) return false;
        if (at < f->n) f->x[at] += s->biases[i].bias;
    }
    return true;
}

static void few_penalize(const qsf_sampler *s, few_logits *f)
{
    const qsf_sampler_options *o = &s->o;
    const uint32_t n = qsf_sampler_n_last(s);
    float count[QSF_CANDIDATES_MOST] = { 0 };
    if (!qsf_sampler_penalizes(o)) return;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = few_find(f, qsf_sampler_last(s, i));
        if (at < f->n) count[at]++;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        float *x = &f->x[i];
        if (count[i] == 0) continue;
        *x = *x > 0 ? *x / o->repeat_penalty : *x * o->repeat_penalty;
        *x -= count[i] * o->frequency_penalty + o->presence_penalty;
    }
}

static void few_limit(const qsf_sampler_limits *l, few_logits *f)
{
    if (!l) return;
    for (uint32_t i = 0; l->mask && i < f->n; i++)
        if (!(l->mask[f->token[i] / 32] >> f->token[i] % 32 & 1)) f->x[i] = -INFINITY;
    for (size_t i = 0; i < l->n_never; i++) {
        const uint32_t at = few_find(f, l->never[i]);
        if (at < f->n) f->x[at] = -INFINITY;
    }
}

/* ---- whether the others matter ---- */

/* Whether min-p, or the range of exponentials, leaves all other tokens out. */
static bool few_others_weigh_nothing(const qsf_sampler *s, const few_logits *f)
{
    const qsf_sampler_options *o = &s->o;
    const float top = f->x[s->k.largest_logit(f->x, f->n)];
    const float d = (f->c->logit[f->n - 1] - top) * (o->dynatemp_range > 0 ? 1 : 1 / o->temperature);
    return d < -87.5f || expf(d) < o->min_p * 0.9999f;
}

/* How many candidates certainly rank before all other tokens.  Other tokens whose logits equal the
 * last candidate's are higher than it. */
static uint32_t few_ahead(const few_logits *f)
{
    const float others = f->c->logit[f->n - 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++)
        n += f->x[i] > others || (f->x[i] == others && f->was[i] == others);
    return n;
}

/* Whether no other token can be picked.  by_rank: the best `top_k` are kept first. */
static bool few_decide(const qsf_sampler *s, const few_logits *f, bool by_rank, uint32_t top_k)
{
    const uint32_t ahead = few_ahead(f);
    if (f->n == f->c->n_vocab) return f->x[s->k.largest_logit(f->x, f->n)] > -INFINITY;
    return by_rank ? ahead >= top_k : ahead > 0 && few_others_weigh_nothing(s, f);
}

/* The candidates as a row of all tokens. */
static const float *few_whole_row(const qsf_sampler *s, const few_logits *f)
{
    for (uint32_t i = 0; i < s->n_vocab; i++) s->logits[i] = -INFINITY;
    for (uint32_t i = 0; i < f->n; i++) s->logits[f->token[i]] = f->x[i];
    return s->logits;
}

bool qsf_sampler_pick_of(qsf_sampler *s, const qsf_candidates *c, const qsf_sampler_limits *limits,
                         int32_t *id)
{
    few_logits f;
    if (!c->n || !few_suffice(s)) return false;
    few_sort(&f, c);
    if (!few_bias(s, &f)) return false;
    few_penalize(s, &f);
    few_limit(limits, &f);
    const uint32_t top_k = qsf_sampler_greedy(s) ? 1 : s->o.top_k;
    const bool by_rank = top_k && top_k <= SAMPLER_TOP_K;
    if (!few_decide(s, &f, by_rank, top_k)) return false;
    /* The same sampler after the stages that have run here. */
    qsf_sampler rest = *s;
    rest.n_biases = 0;
    rest.o.repeat_penalty = 1;
    rest.o.frequency_penalty = rest.o.presence_penalty = 0;
    if (by_rank) rest.n_vocab = f.n;
    const int32_t at = qsf_sampler_pick_within(&rest, by_rank ? f.x : few_whole_row(s, &f), NULL);
    s->rng = rest.rng;
    *id = by_rank ? f.token[at] : at;
    return true;
}

/* ---- log probabilities ---- */

uint32_t qsf_candidates_logprobs(const qsf_candidates *c, int32_t chosen, qsf_logprob *out, uint32_t n)
{
    uint32_t at = 0;
    while (at < c->n && c->token[at] != chosen) at++;
    if (n > c->n || (chosen >= 0 && at == c->n)) return 0;
    out[0] = (qsf_logprob){ chosen, chosen < 0 ? -INFINITY : c->logit[at] - c->log_sum };
    for (uint32_t i = 0; i < n; i++) out[1 + i] = (qsf_logprob){ c->token[i], c->logit[i] - c->log_sum };
    return 1 + n;
}
