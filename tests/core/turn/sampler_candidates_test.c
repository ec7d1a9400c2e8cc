/* Picks from the most likely tokens: the same tokens and random numbers as with all logits.
 * SPDX-License-Identifier: MIT */
#include "test.h"
#include "turn/sampler_candidates.h"
#include "turn/sampler_own.h"

#include <stdlib.h>

enum { VOCAB = 3001, ROUNDS = 4000, ALLOWED = (VOCAB + 31) / 32 };

static qsf_source source = { .hp = { .n_vocab = VOCAB } };
static qsf_model model = { .source = &source };
static float logits[VOCAB];
static uint64_t rng = 32;

static uint32_t below(uint32_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}
static float real(float least, float most)
{
    return least + (most - least) * (float)below(1 << 20) / (1 << 20);
}

static qsf_sampler *sampler_of(const qsf_sampler_options *o, uint32_t n_vocab)
{
    qsf_sampler *s = NULL;
    model.platform = qsf_platform_native();
    source.hp.n_vocab = n_vocab;
    CHECK_EQ(qsf_sampler_new(&model, o, &s, NULL), QSF_OK);
    return s;
}

/* Steep, flat, or with many equals. */
static void random_logits(uint32_t n)
{
    const uint32_t kind = below(4);
    for (uint32_t i = 0; i < n; i++) {
        const float x = real(-1, 1) + real(-1, 1) + real(-1, 1);
        logits[i] = kind == 0 ? 9 * x : kind == 1 ? 2 * x * fabsf(x) : kind == 2 ? floorf(3 * x) : -4 + x;
    }
    if (kind == 3) for (uint32_t i = 0; i < 6; i++) logits[below(n)] += 9;
}

static int by_logit(const void *a, const void *b)
{
    const qsf_logprob *x = a, *y = b;
    return x->logprob != y->logprob ? (x->logprob < y->logprob) - (x->logprob > y->logprob)
        : x->token - y->token;
}

static void candidates_of(qsf_candidates *c, uint32_t n_vocab, uint32_t n)
{
    qsf_logprob all[VOCAB];
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        all[i] = (qsf_logprob){ (int32_t)i, logits[i] };
        sum += exp((double)logits[i]);
    }
    qsort(all, n_vocab, sizeof *all, by_logit);
    *c = (qsf_candidates){ .n = QSF_MIN(n, n_vocab), .n_vocab = n_vocab, .log_sum = (float)log(sum) };
    for (uint32_t i = 0; i < c->n; i++) {
        c->token[i] = all[i].token;
        c->logit[i] = all[i].logprob;
    }
}

static qsf_sampler_options random_options(void)
{
    qsf_sampler_options o;
    qsf_sampler_defaults(&o);
    o.seed = 1 + below(1u << 30);
    o.temperature = below(5) ? real(0.2f, 2) : 0;
    o.top_k = below(3) ? 1 + below(64) : below(2) * 2000;
    o.top_p = below(2) ? real(0.1f, 1) : 1;
    o.min_p = below(2) ? real(0, 0.4f) : 0;
    if (!below(3)) o.repeat_penalty = real(0.9f, 1.6f);
    if (!below(3)) o.frequency_penalty = real(-0.2f, 1.5f);
    if (!below(3)) o.presence_penalty = below(2) ? (float)below(3) : real(-0.2f, 1.5f);
    o.repeat_last_n = below(200);
    if (!below(4)) o.typical_p = real(0.2f, 1);
    if (!below(4)) o.xtc_probability = real(0, 1);
    if (!below(4)) o.dynatemp_range = real(0, 1);
    if (!below(8)) o.top_n_sigma = real(0.2f, 3);
    if (!below(8)) o.mirostat = 1 + below(2);
    if (!below(8)) o.dry_multiplier = 0.5f;
    if (!below(8)) strcpy(o.samplers, "pkt");
    return o;
}

/* Whether both samplers are in the same state. */
static bool same_state(const qsf_sampler *a, const qsf_sampler *b)
{
    return a->rng == b->rng && a->n_vocab == b->n_vocab && a->n_biases == b->n_biases
        && !memcmp(&a->o, &b->o, sizeof a->o)
        && !memcmp(&a->mirostat_mu, &b->mirostat_mu, sizeof a->mirostat_mu);
}

/* What two samplers have in common: biases, accepted tokens among the likely ones, limits. */
static void prepare_both(qsf_sampler *const both[2], const qsf_candidates *c, uint32_t n_vocab)
{
    const uint32_t n_biases = below(2) * below(4), n_last = below(2) * below(80);
    for (uint32_t i = 0; i < n_biases; i++) {
        const int32_t id = below(2) ? c->token[below(c->n)] : (int32_t)below(n_vocab);
        const float bias = below(2) ? -(float)below(7) : below(3) ? real(-5, 0.5f) : -INFINITY;
        for (int k = 0; k < 2; k++) CHECK_EQ(qsf_sampler_bias(both[k], id, bias, NULL), QSF_OK);
    }
    for (uint32_t i = 0; i < n_last; i++) {
        const int32_t id = below(3) ? c->token[below(c->n)] : (int32_t)below(n_vocab);
        for (int k = 0; k < 2; k++) qsf_sampler_accept(both[k], id);
    }
}

TEST(they_pick_the_same_token_or_ask_for_all)
{
    uint32_t decided = 0, asked = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t n_vocab = below(9) ? VOCAB : 1 + below(80);
        const qsf_sampler_options o = random_options();
        qsf_sampler *both[2] = { sampler_of(&o, n_vocab), sampler_of(&o, n_vocab) };
        uint32_t mask[ALLOWED];
        int32_t never[4], id = -7;
        qsf_candidates c;
        random_logits(n_vocab);
        candidates_of(&c, n_vocab, below(2) ? 64 : 128);
        prepare_both(both, &c, n_vocab);
        for (uint32_t i = 0; i < ALLOWED; i++) mask[i] = below(3) ? UINT32_MAX : below(1u << 31);
        for (uint32_t i = 0; i < 4; i++) never[i] = c.token[below(c.n)];
        const qsf_sampler_limits limits = { below(2) ? mask : NULL, never, below(5) };
        const qsf_sampler_limits *l = below(3) ? NULL : &limits;
        for (uint32_t draws = 0; draws < 4; draws++) {
            const bool done = qsf_sampler_pick_of(both[1], &c, l, &id);
            CHECK(done || same_state(both[0], both[1]));
            const int32_t want = qsf_sampler_pick_within(both[0], logits, l);
            if (!done) CHECK_EQ(qsf_sampler_pick_within(both[1], logits, l), want);
            else CHECK_EQ(id, want);
            CHECK(same_state(both[0], both[1]));
            decided += done;
            asked += !done;
        }
        for (int k = 0; k < 2; k++) qsf_sampler_free(both[k]);
    }
    CHECK(decided > ROUNDS && asked > ROUNDS / 2);
}

/* The settings of most conversations are decided by 64 tokens. */
TEST(usual_settings_never_need_all)
{
    for (uint32_t round = 0; round < 200; round++) {
        qsf_sampler_options o;
        qsf_candidates c;
        int32_t id;
        qsf_sampler_defaults(&o);
        o.seed = 1 + round;
        o.temperature = round % 3 ? 0.7f : 0;
        o.min_p = round % 2 ? 0.05f : 0;
        qsf_sampler *s = sampler_of(&o, VOCAB);
        random_logits(VOCAB);
        candidates_of(&c, VOCAB, 64);
        CHECK(qsf_sampler_pick_of(s, &c, NULL, &id));
        qsf_sampler_free(s);
        o.repeat_penalty = 1.1f;                    /* of 20 of them */
        s = sampler_of(&o, VOCAB);
        for (uint32_t i = 0; i < 60; i++) qsf_sampler_accept(s, c.token[i % 20]);
        CHECK(qsf_sampler_pick_of(s, &c, NULL, &id));
        qsf_sampler_free(s);
    }
}

/* min-p without top-k, and a row whose other tokens have no weight. */
TEST(min_p_bounds_the_candidates)
{
    qsf_sampler_options o;
    qsf_candidates c;
    int32_t id;
    qsf_sampler_defaults(&o);
    o.top_k = 0;
    for (uint32_t i = 0; i < VOCAB; i++) logits[i] = i % 97 ? -1 : 4 + (float)(i % 5);
    candidates_of(&c, VOCAB, 64);
    qsf_sampler *s = sampler_of(&o, VOCAB);
    CHECK(!qsf_sampler_pick_of(s, &c, NULL, &id));              /* top-p needs the weight of all */
    qsf_sampler_free(s);
    o.min_p = 0.05f;
    s = sampler_of(&o, VOCAB);
    CHECK(qsf_sampler_pick_of(s, &c, NULL, &id));
    CHECK_EQ(id % 97, 0);
    qsf_sampler_free(s);
    o.min_p = 0;
    o.temperature = 0.05f;                                      /* e^(-5 / 0.05) is none */
    s = sampler_of(&o, VOCAB);
    CHECK(qsf_sampler_pick_of(s, &c, NULL, &id));
    qsf_sampler_free(s);
}

static void no_callback(void *user, float *x, size_t n) { (void)user, (void)x, (void)n; }

TEST(what_reads_all_logits_asks_for_them)
{
    qsf_sampler_options o;
    qsf_candidates c;
    int32_t id;
    qsf_sampler_defaults(&o);
    random_logits(VOCAB);
    candidates_of(&c, VOCAB, 64);
    qsf_sampler *s = sampler_of(&o, VOCAB);
    CHECK(qsf_sampler_pick_of(s, &c, NULL, &id));
    qsf_sampler_callback(s, no_callback, NULL);
    CHECK(!qsf_sampler_pick_of(s, &c, NULL, &id));
    qsf_sampler_callback(s, NULL, NULL);
    CHECK_EQ(qsf_sampler_bias(s, c.token[63] ? 0 : 1, 0.5f, NULL), QSF_OK);
    uint32_t at = 0;
    while (at < c.n && c.token[at] != (c.token[63] ? 0 : 1)) at++;
    CHECK_EQ(qsf_sampler_pick_of(s, &c, NULL, &id), at < c.n);  /* another token would be raised */
    qsf_sampler_free(s);
    o.top_k = 65;
    s = sampler_of(&o, VOCAB);
    CHECK(!qsf_sampler_pick_of(s, &c, NULL, &id));
    qsf_sampler_free(s);
}

/* Token 2000 falls to the logit of all others, of which 64 to 1999 then rank before it. */
TEST(equal_logits_rank_by_token)
{
    qsf_sampler_options o;
    qsf_candidates c;
    int32_t id;
    qsf_sampler_defaults(&o);
    for (uint32_t i = 0; i < VOCAB; i++) logits[i] = i == 2000 ? 3 : 1;
    candidates_of(&c, VOCAB, 64);
    for (uint32_t top_k = 63; top_k < 65; top_k++) {
        o.top_k = top_k;
        qsf_sampler *s = sampler_of(&o, VOCAB);
        CHECK_EQ(qsf_sampler_bias(s, 2000, -2, NULL), QSF_OK);
        CHECK_EQ(qsf_sampler_pick_of(s, &c, NULL, &id), top_k == 63);
        qsf_sampler_free(s);
    }
}

TEST(log_probabilities_are_those_of_the_row)
{
    qsf_kernels k;
    qsf_candidates c;
    qsf_logprob want[21], got[21];
    CHECK_EQ(qsf_kernels_init(&k, 0, NULL, NULL), QSF_OK);
    for (uint32_t round = 0; round < 50; round++) {
        random_logits(VOCAB);
        candidates_of(&c, VOCAB, 64);
        const int32_t chosen = round % 5 ? c.token[below(c.n)] : -1;
        CHECK_EQ(qsf_logprobs(&k, logits, VOCAB, chosen, want, 20), 21);
        CHECK_EQ(qsf_candidates_logprobs(&c, chosen, got, 20), 21);
        for (int i = 0; i < 21; i++) {
            CHECK_EQ(got[i].token, want[i].token);
            CHECK(got[i].logprob == want[i].logprob || fabsf(got[i].logprob - want[i].logprob) < 1e-5f);
        }
    }
    CHECK_EQ(qsf_candidates_logprobs(&c, -1, got, 65), 0);
    int32_t other = 0;
    for (uint32_t i = 0; i < c.n; i++) if (c.token[i] == other) other++, i = UINT32_MAX;
    CHECK_EQ(qsf_candidates_logprobs(&c, other, got, 3), 0);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(they_pick_the_same_token_or_ask_for_all);
    RUN(usual_settings_never_need_all);
    RUN(min_p_bounds_the_candidates);
    RUN(what_reads_all_logits_asks_for_them);
    RUN(equal_logits_rank_by_token);
    RUN(log_probabilities_are_those_of_the_row);
    return test_end();
}
