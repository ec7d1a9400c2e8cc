/* From logits to a token: the chain of what changes logits, leaves tokens out and draws one.
 * SPDX-License-Identifier: MIT
 *
 * chain_rows below is the chain, in its default order; docs/sampling.md says what each row does. */
#include "turn/sampler_own.h"

#include "base/pieces.h"
#include "base/sized.h"
#include "engine/options.h"

/* ---- life ---- */

enum { SAMPLER_PIECES = 9 };

/* Whether a stage needs the weight of each token; otherwise block sums suffice for the draw. */
static bool leaves_out(const qsf_sampler *s)
{
    const qsf_sampler_options *o = &s->o;
    return s->ordered || o->mirostat || o->top_k || o->typical_p < 1 || o->top_p < 1 || o->xtc_probability > 0
        || o->dynatemp_range > 0;
}

static void sampler_pieces(qsf_sampler *s, qsf_piece list[SAMPLER_PIECES])
{
    const qsf_sampler_options *o = &s->o;
    const bool counts = qsf_sampler_penalizes(o) || qsf_sampler_dries(o), cuts = leaves_out(s);
    const uint32_t dry = qsf_sampler_dries(o) ? o->dry_last_n : 0;
    const bool small = !s->ordered && !o->mirostat && o->top_k && o->top_k <= SAMPLER_TOP_K;
    const uint32_t few = small ? SAMPLER_TOP_K : s->n_vocab;
    const uint32_t most = cuts ? QSF_MIN(few, s->n_vocab) : 0;
    s->cap_last = QSF_MAX(o->repeat_last_n, dry);
    list[0] = QSF_PIECE(s->logits, s->n_vocab, "sampler");
    list[1] = QSF_PIECE(s->weights, counts ? s->n_vocab : most, "sampler");
    list[2] = QSF_PIECE(s->ids, most, "sampler");
    list[3] = QSF_PIECE(s->keys, o->typical_p < 1 ? most : 0, "sampler");
    list[4] = QSF_PIECE(s->sums, qsf_ceil_div(s->n_vocab, QSF_SAMPLE_BLOCK), "sampler");
    list[5] = QSF_PIECE(s->few, cuts ? 2 * SAMPLER_FEW : 0, "sampler");
    list[6] = QSF_PIECE(s->last, s->cap_last, "sampler");
    list[7] = QSF_PIECE(s->repeats, dry, "sampler");
    list[8] = QSF_PIECE(s->counts, s->ordered && counts ? s->n_vocab : 0, "sampler");
}

uint64_t qsf_sampler_bytes(uint32_t n_vocab)
{
    qsf_sampler s = { .n_vocab = n_vocab };
    qsf_piece list[SAMPLER_PIECES];
    qsf_sampler_defaults(&s.o);
    sampler_pieces(&s, list);
    return sizeof s + qsf_pieces_bytes(list, SAMPLER_PIECES);
}

static qsf_status sampler_breakers(qsf_sampler *s, qsf_error *err)
{
    static const char usual[] = "\n:\"*";
    qsf_status st = QSF_OK;
    if (!qsf_sampler_dries(&s->o) || !s->tokenizer) return QSF_OK;
    for (size_t i = 0; !st && usual[i]; i++) st = qsf_sampler_breaker(s, usual + i, 1, err);
    return st;
}

qsf_status qsf_sampler_for(const qsf_platform *p, const qsf_tokenizer *t, uint32_t n_vocab,
                           const qsf_sampler_options *opts, qsf_sampler **out, qsf_error *err)
{
    *out = NULL;
    qsf_sampler *s = qsf_alloc(p, sizeof *s, "sampler", err);
    if (!s) return QSF_E_MEMORY;
    s->platform = p;
    s->tokenizer = t;
    qsf_sampler_defaults(&s->o);
    qsf_status st = QSF_TAKE(&s->o, opts, qsf_sampler_options, err);
    s->n_vocab = st ? 0 : n_vocab;
    if (!st) st = qsf_kernels_init(&s->k, p->cpu_features ? p->cpu_features(p->user) : 0, NULL, err);
    if (st || (st = qsf_sampler_check(&s->o, err))) {
        qsf_dealloc(p, s, sizeof *s);
        return st;
    }
    qsf_piece list[SAMPLER_PIECES];
    s->ordered = qsf_sampler_select(&s->o);
    sampler_pieces(s, list);
    if ((st = qsf_pieces_alloc(p, list, SAMPLER_PIECES, err)) || (st = sampler_breakers(s, err))) {
        qsf_sampler_free(s);
        return st;
    }
    s->rng = s->o.seed ? s->o.seed : qsf_now(p) ^ 0x9e3779b97f4a7c15u;
    qsf_sampler_reset(s);
    *out = s;
    return QSF_OK;
}

qsf_status qsf_sampler_new(const qsf_model *m, const qsf_sampler_options *opts, qsf_sampler **out,
                           qsf_error *err)
{
    return qsf_sampler_for(m->platform, m->tokenizer, m->source->hp.n_vocab, opts, out, err);
}

void qsf_sampler_free(qsf_sampler *s)
{
    if (!s) return;
    qsf_piece list[SAMPLER_PIECES];
    sampler_pieces(s, list);
    qsf_pieces_free(s->platform, list, SAMPLER_PIECES);
    qsf_dealloc(s->platform, s->biases, s->cap_biases * sizeof *s->biases);
    qsf_sampler_texts_free(s);
    qsf_dealloc(s->platform, s, sizeof *s);
}

/* ---- what it is told ---- */

qsf_status qsf_sampler_bias(qsf_sampler *s, int32_t token, float bias, qsf_error *err)
{
    uint32_t i = 0;
    if (token < 0 || (uint32_t)token >= s->n_vocab)
        return qsf_fail(err, QSF_E_ARGUMENT, "a bias for token %d; the vocabulary has %u", (int)token,
                        (unsigned)s->n_vocab);
    if (!(bias < INFINITY))
        return qsf_fail(err, QSF_E_ARGUMENT, "the bias of token %d is %g; it must be a number or minus "
                        "infinity", (int)token, (double)bias);
    while (i < s->n_biases && s->biases[i].token != token) i++;
    if (i == s->cap_biases) {
        const uint32_t cap = 2 * s->cap_biases + 8;
        qsf_logit_bias *more = qsf_alloc_array(s->platform, cap, sizeof *more, "biases", err);
        if (!more) return QSF_E_MEMORY;
        if (s->n_biases) memcpy(more, s->biases, s->n_biases * sizeof *more);
        qsf_dealloc(s->platform, s->biases, s->cap_biases * sizeof *more);
        s->biases = more;
        s->cap_biases = cap;
    }
    s->biases[i] = (qsf_logit_bias){ token, bias };
    s->n_biases += i == s->n_biases;
    return QSF_OK;
}

void qsf_sampler_callback(qsf_sampler *s, qsf_logits_fn fn, void *user)
{
    s->callback = fn;
    s->callback_user = user;
}

void qsf_sampler_reset(qsf_sampler *s)
{
    s->n_last = s->at = s->n_tail = s->n_answer = 0;
    s->mirostat_mu = 2 * s->o.mirostat_tau;
}
void qsf_sampler_begin(qsf_sampler *s) { s->n_answer = 0; }

void qsf_sampler_accept(qsf_sampler *s, int32_t token)
{
    if (token < 0 || (uint32_t)token >= s->n_vocab) return;
    const bool breaks = qsf_sampler_text(s, token);
    if (s->cap_last == 0) return;
    s->last[s->at] = breaks ? ~token : token;
    s->at = (s->at + 1) % s->cap_last;
    if (s->n_last < s->cap_last) s->n_last++;
}

/* ---- the chain ---- */

bool qsf_sampler_greedy(const qsf_sampler *s) { return !(s->o.temperature > 0); }

/* Whether a row has something to do. */
static bool has_biases(const sampler_pick *k) { return k->s->n_biases > 0; }
static bool has_callback(const sampler_pick *k) { return k->s->callback != NULL; }
static bool has_penalties(const sampler_pick *k)
{
    return !k->s->ordered && qsf_sampler_penalizes(&k->s->o);
}
static bool has_dry(const sampler_pick *k) { return !k->s->ordered && qsf_sampler_dries(&k->s->o); }
static bool has_bans(const sampler_pick *k) { return k->s->banned.len > 0; }
static bool has_limits(const sampler_pick *k) { return k->limits != NULL; }

/* The rows that change logits; at temperature 0 the sampler takes the largest logit after them. */
static const struct chain_logits_row {
    bool (*on)(const sampler_pick *k);
    void (*run)(sampler_pick *k);
} chain_logits_rows[] = {
    { has_biases,    qsf_pick_bias },
    { has_callback,  qsf_pick_callback },
    { has_penalties, qsf_pick_penalize },
    { has_dry,       qsf_pick_dry },
    { has_bans,      qsf_pick_ban },
    { has_limits,    qsf_pick_limit },          /* min-tokens and grammars */
};

static bool not_mirostat(const qsf_sampler_options *o) { return o->mirostat == 0; }
static bool has_sigma(const qsf_sampler_options *o) { return not_mirostat(o) && o->top_n_sigma > 0; }
static bool has_top_k(const qsf_sampler_options *o) { return not_mirostat(o) && o->top_k > 0; }
static bool has_typical(const qsf_sampler_options *o) { return not_mirostat(o) && o->typical_p < 1; }
static bool has_top_p(const qsf_sampler_options *o) { return not_mirostat(o) && o->top_p < 1; }
static bool has_xtc(const qsf_sampler_options *o)
{
    return not_mirostat(o) && o->xtc_probability > 0 && o->xtc_threshold <= 0.5f;
}
static bool has_dynamic(const qsf_sampler_options *o) { return not_mirostat(o) && o->dynatemp_range > 0; }
static bool has_mirostat(const qsf_sampler_options *o) { return !not_mirostat(o); }
static bool chain_always(const qsf_sampler_options *o) { return o != NULL; }

/* The rows that leave tokens out. */
static const struct chain_row {
    bool (*on)(const qsf_sampler_options *o);
    void (*run)(sampler_pick *k);
} chain_rows[] = {
    { has_sigma,    qsf_pick_sigma },
    { chain_always, qsf_pick_weigh },           /* applies temperature and min-p */
    { has_top_k,    qsf_pick_top_k },
    { has_typical,  qsf_pick_typical },
    { has_top_p,    qsf_pick_top_p },
    { has_xtc,      qsf_pick_xtc },
    { has_dynamic,  qsf_pick_dynamic },
    { has_mirostat, qsf_pick_mirostat },
};

bool qsf_pick_candidates(sampler_pick *k, qsf_sampler *s, const float *logits,
                         const qsf_sampler_limits *limits)
{
    *k = (sampler_pick){ .s = s, .limits = limits, .x = logits, .least = -INFINITY };
    for (size_t i = 0; i < QSF_ARRAY_LEN(chain_logits_rows); i++)
        if (chain_logits_rows[i].on(k)) chain_logits_rows[i].run(k);
    k->best = (uint32_t)s->k.largest_logit(k->x, s->n_vocab);
    if (!(k->x[k->best] > -INFINITY)) return false;
    if (qsf_sampler_greedy(s)) return true;
    if (s->ordered) qsf_pick_ordered(k);
    else for (size_t i = 0; i < QSF_ARRAY_LEN(chain_rows); i++)
        if (chain_rows[i].on(&s->o)) chain_rows[i].run(k);
    return true;
}

int32_t qsf_sampler_pick_within(qsf_sampler *s, const float *logits, const qsf_sampler_limits *limits)
{
    sampler_pick k;
    if (!qsf_pick_candidates(&k, s, logits, limits)) return -1;
    return qsf_sampler_greedy(s) ? (int32_t)k.best : qsf_pick_draw(&k);
}

int32_t qsf_sampler_pick(qsf_sampler *s, const float *logits)
{
    const int32_t id = qsf_sampler_pick_within(s, logits, NULL);
    return id < 0 ? (int32_t)qsf_sampler_argmax(logits, s->n_vocab) : id;
}
