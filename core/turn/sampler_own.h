/* The sampler's state and a pick under way, shared by its parts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SAMPLER_OWN_H
#define QSF_SAMPLER_OWN_H

#include "turn/sampler.h"

/* The most candidates that a search copies, and the largest top-k that is searched for by logit,
 * before weights are computed. */
enum { SAMPLER_FEW = 4096, SAMPLER_TOP_K = 1024 };

/* Strings one after another: a length of two bytes, then that many bytes. */
typedef struct sampler_texts {
    uint8_t *bytes;
    uint32_t len, cap, longest;
} sampler_texts;

struct qsf_sampler {
    const qsf_platform *platform;
    const qsf_tokenizer *tokenizer;     /* NULL: no text is known */
    qsf_sampler_options o;
    uint32_t   n_vocab;
    qsf_kernels k;
    float     *logits;        /* [n_vocab] allocated when something changes the logits */
    float     *weights;       /* [n_vocab], or [SAMPLER_TOP_K]; NULL: no stage needs them */
    int32_t   *ids;           /* same length as weights */
    float     *keys;          /* same length, for typical-p */
    float     *counts;        /* [n_vocab] for penalties and DRY in the caller's order; else NULL */
    float     *sums;          /* [n_vocab / QSF_SAMPLE_BLOCK, rounded up] sums of weights */
    float     *few;           /* [2][SAMPLER_FEW] keys and weights of a search */
    int32_t   *last;          /* [cap_last] ring of accepted tokens; ~token: a breaker of DRY ends in it */
    uint32_t   cap_last, n_last, at;
    uint32_t  *repeats;       /* [dry_last_n] of DRY */
    bool       ordered;       /* the stages run in the caller's order (sampler_order.c) */
    uint64_t   rng;
    float      mirostat_mu;
    qsf_logit_bias *biases;
    uint32_t   n_biases, cap_biases;
    sampler_texts banned, breakers;
    uint32_t  *starts;        /* [257] offsets by first byte, then [n_vocab] tokens sorted by the first byte
                               * of their text; NULL: nothing is banned */
    uint32_t  *banned_whole;  /* a bit for each token that has a banned text in it; NULL: none is banned */
    char      *tail;          /* [cap_tail] the last n_tail bytes of what was accepted */
    uint32_t   cap_tail, n_tail, n_answer;      /* and how many of them are the answer's */
    qsf_logits_fn callback;
    void      *callback_user;
};

/* A pick under way.  Rows of the sampler's table (sampler.c) change it one after another. */
typedef struct sampler_pick {
    qsf_sampler *s;
    const qsf_sampler_limits *limits;
    const float *x;           /* [n_vocab] logits as changed so far */
    uint32_t   best;          /* of x */
    float      least;         /* lower logits are left out */
    /* Candidates, by id.  A weight is relative to the best token's; 0: removed. */
    qsf_exp_weights e;        /* computes weights from logits */
    uint32_t   n;
    float     *w;             /* [n]; NULL: computed from e */
    int32_t   *id;            /* [n]; NULL: candidate i is token i */
    double     sum;           /* total weight, the sum of s->sums */
    bool       stale;         /* the logits have changed since the weights were computed */
} sampler_pick;

/* Runs all rows of the table; false: no logit is above -INFINITY.  A sampler whose temperature is 0
 * has the best only. */
bool qsf_pick_candidates(sampler_pick *k, qsf_sampler *s, const float *logits,
                         const qsf_sampler_limits *limits);

/* ---- sampler_logits.c: what changes logits ---- */
/* The logits as a copy that may be changed. */
float *qsf_pick_logits(sampler_pick *k);
bool qsf_sampler_penalizes(const qsf_sampler_options *o);
bool qsf_sampler_dries(const qsf_sampler_options *o);
void qsf_pick_bias(sampler_pick *k);
void qsf_pick_callback(sampler_pick *k);
void qsf_pick_penalize(sampler_pick *k);
void qsf_pick_dry(sampler_pick *k);
void qsf_pick_ban(sampler_pick *k);
void qsf_pick_limit(sampler_pick *k);

/* The i-th of the accepted tokens, the last first; a breaker of DRY ends in it: its complement. */
static inline int32_t qsf_sampler_marked(const qsf_sampler *s, uint32_t i)
{
    return s->last[s->at > i ? s->at - 1 - i : s->at + s->cap_last - 1 - i];
}
static inline int32_t qsf_sampler_last(const qsf_sampler *s, uint32_t i)
{
    const int32_t id = qsf_sampler_marked(s, i);
    return id < 0 ? ~id : id;
}
/* How many of them penalties consider. */
static inline uint32_t qsf_sampler_n_last(const qsf_sampler *s)
{
    return QSF_MIN(s->n_last, s->o.repeat_last_n);
}

/* ---- sampler_choose.c: what leaves candidates out ---- */
void qsf_pick_sigma(sampler_pick *k);
void qsf_pick_weigh(sampler_pick *k);
void qsf_pick_top_k(sampler_pick *k);
void qsf_pick_typical(sampler_pick *k);
void qsf_pick_top_p(sampler_pick *k);
void qsf_pick_xtc(sampler_pick *k);
void qsf_pick_dynamic(sampler_pick *k);
void qsf_pick_mirostat(sampler_pick *k);
/* The same if the logits of candidates may have changed, and candidates may be gone: weights are
 * valid only after qsf_pick_reweigh, and temperature changes logits. */
void qsf_pick_reweigh(sampler_pick *k);
void qsf_pick_sigma_of_rest(sampler_pick *k);
void qsf_pick_min_p(sampler_pick *k);
void qsf_pick_top_k_of_rest(sampler_pick *k);
void qsf_pick_temperature(sampler_pick *k);

/* ---- sampler_order.c: the caller's order of stages ---- */
#if defined(QSF_NO_SAMPLER_ORDER)
static inline bool qsf_sampler_select(qsf_sampler_options *o) { (void)o; return false; }
static inline void qsf_pick_ordered(sampler_pick *k) { (void)k; }
#else
/* Turns off the stages that the order omits; returns whether the rest needs qsf_pick_ordered
 * because the default order may give another distribution. */
bool qsf_sampler_select(qsf_sampler_options *o);
/* Runs the stages in that order. */
void qsf_pick_ordered(sampler_pick *k);
#endif

/* ---- sampler_cut.c: finding the first candidates of an order, and keeping them ---- */
/* In order of falling key: all candidates above `key`, and the first `equal` of those equal to
 * it. */
typedef struct sampler_cut { float key; uint32_t equal; } sampler_cut;
/* The smallest such set, of at least one candidate, whose weights w (NULL: 1 each) add up to
 * target; keys of 0 never count.  key[n] and w[n] belong to the candidates; keys are at most 1. */
sampler_cut qsf_pick_find(const sampler_pick *k, const float *key, const float *w, double target);
/* Keeps the candidates within the cut. */
void qsf_pick_keep(sampler_pick *k, const float *key, sampler_cut cut);
/* Keeps the `count` largest logits before weights are computed: sets k->id and k->n. */
void qsf_pick_keep_logits(sampler_pick *k, uint32_t count);
/* Recomputes the sums of the weights. */
void qsf_pick_add(sampler_pick *k);

/* ---- sampler_draw.c ---- */
/* Uniform in [0, 1). */
double  qsf_sampler_random(qsf_sampler *s);
/* The surprise of a candidate with weight w, in bits. */
double  qsf_pick_surprise(const sampler_pick *k, float w);
int32_t qsf_pick_draw(sampler_pick *k);

/* ---- sampler_texts.c ---- */
uint32_t qsf_sampler_piece(const qsf_sampler *s, int32_t id, const char **piece);
/* The n tokens whose text begins with this byte; only valid if something is banned. */
const uint32_t *qsf_sampler_starting(const qsf_sampler *s, uint8_t byte, uint32_t *n);
/* Whether text contains a string of the list. */
bool qsf_sampler_list_within(const sampler_texts *l, const char *text, uint32_t len);
/* Adds a token's text to the tail; returns whether a breaker ends in it. */
bool qsf_sampler_text(qsf_sampler *s, int32_t token);
void qsf_sampler_texts_free(qsf_sampler *s);
/* The list's string at *at, which advances past it; NULL at the end of the list. */
const char *qsf_sampler_list_next(const sampler_texts *l, uint32_t *at, uint32_t *len);

#endif
