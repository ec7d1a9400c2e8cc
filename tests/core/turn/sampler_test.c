/* The sampler: each part of the chain against what it says.
 * SPDX-License-Identifier: MIT */
#include "golden/sampler_golden.h"
#include "sampler_ranked.h"
#include "test.h"
#include "turn/sampler_own.h"

enum { N = 100 };

static qsf_source source = { .hp = { .n_vocab = N } };
static qsf_model model = { .source = &source };
static float logits[N];

static qsf_sampler *sampler_with(qsf_sampler_options o)
{
    qsf_sampler *s = NULL;
    model.platform = qsf_platform_native();
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, NULL), QSF_OK);
    return s;
}
static qsf_sampler_options defaults(void)
{
    qsf_sampler_options o;
    qsf_sampler_defaults(&o);
    o.seed = 42;
    return o;
}
/* Token i has probability proportional to N - i at temperature 1. */
static void ramp(void)
{
    for (int i = 0; i < N; i++) logits[i] = logf((float)(N - i));
}

/* How often each token comes in n draws. */
static void draw(qsf_sampler *s, int n, int *count)
{
    memset(count, 0, N * sizeof *count);
    for (int i = 0; i < n; i++) {
        const int32_t id = qsf_sampler_pick(s, logits);
        CHECK(id >= 0 && id < N);
        if (id >= 0 && id < N) count[id]++;
    }
}

TEST(sampler_is_greedy_at_temperature_zero)
{
    qsf_sampler_options o = defaults();
    o.temperature = 0;
    qsf_sampler *s = sampler_with(o);
    ramp();
    logits[77] = 10;
    for (int i = 0; i < 10; i++) CHECK_EQ(qsf_sampler_pick(s, logits), 77);
    logits[3] = 10;
    CHECK_EQ(qsf_sampler_pick(s, logits), 3);          /* the first of equals */
    logits[0] = NAN;
    CHECK_EQ(qsf_sampler_pick(s, logits), 3);
    qsf_sampler_free(s);
}

TEST(sampler_follows_the_distribution)
{
    qsf_sampler_options o = defaults();
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 1;
    qsf_sampler *s = sampler_with(o);
    int count[N];
    ramp();
    draw(s, 100000, count);
    for (int i = 0; i < N; i += 9) {
        const double p = (double)(N - i) / (N * (N + 1) / 2.0);
        CHECK_NEAR(count[i] / 1e5, p, 5 * sqrt(p / 1e5));
    }
    qsf_sampler_free(s);
}

TEST(sampler_temperature_sharpens)
{
    qsf_sampler_options o = defaults();
    o.temperature = 0.5f;
    o.top_k = 0;
    o.top_p = 1;
    qsf_sampler *s = sampler_with(o);
    int count[N];
    double sum = 0;
    ramp();
    for (int i = 0; i < N; i++) sum += (double)(N - i) * (N - i);
    draw(s, 50000, count);
    CHECK_NEAR(count[0] / 5e4, N * N / sum, 0.004);
    qsf_sampler_free(s);
}

TEST(sampler_top_k_keeps_k)
{
    qsf_sampler_options o = defaults();
    o.temperature = 1;
    o.top_k = 3;
    o.top_p = 1;
    qsf_sampler *s = sampler_with(o);
    int count[N];
    ramp();
    draw(s, 20000, count);
    for (int i = 3; i < N; i++) CHECK_EQ(count[i], 0);
    CHECK_NEAR(count[0] / 2e4, 100.0 / 297, 0.02);
    CHECK_NEAR(count[2] / 2e4, 98.0 / 297, 0.02);
    qsf_sampler_free(s);
}

TEST(sampler_top_p_keeps_the_smallest_set)
{
    qsf_sampler_options o = defaults();
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 0.5f;
    qsf_sampler *s = sampler_with(o);
    int count[N];
    for (int i = 0; i < N; i++) logits[i] = -INFINITY;
    logits[10] = logf(0.4f);
    logits[20] = logf(0.3f);
    logits[30] = logf(0.2f);
    logits[40] = logf(0.1f);
    draw(s, 20000, count);
    CHECK_EQ(count[30] + count[40], 0);
    CHECK_NEAR(count[10] / 2e4, 4.0 / 7, 0.02);
    qsf_sampler_free(s);
}

TEST(sampler_min_p_is_relative_to_the_best)
{
    qsf_sampler_options o = defaults();
    o.temperature = 1;
    o.top_p = 1;
    o.min_p = 0.6f;
    qsf_sampler *s = sampler_with(o);
    int count[N];
    for (int i = 0; i < N; i++) logits[i] = -INFINITY;
    logits[10] = logf(0.4f);
    logits[20] = logf(0.3f);
    logits[30] = logf(0.2f);
    draw(s, 2000, count);
    CHECK_EQ(count[30], 0);
    CHECK(count[10] > 0 && count[20] > 0);
    qsf_sampler_free(s);
}

TEST(sampler_penalties_count_recent_tokens)
{
    qsf_sampler_options o = defaults();
    o.temperature = 0;
    o.frequency_penalty = 1;
    o.repeat_last_n = 4;
    qsf_sampler *s = sampler_with(o);
    for (int i = 0; i < N; i++) logits[i] = 0;
    logits[5] = 2.5f;
    logits[6] = 1.0f;
    CHECK_EQ(qsf_sampler_pick(s, logits), 5);
    qsf_sampler_accept(s, 5);
    CHECK_EQ(qsf_sampler_pick(s, logits), 5);          /* 1.5 against 1 */
    qsf_sampler_accept(s, 5);
    CHECK_EQ(qsf_sampler_pick(s, logits), 6);          /* 0.5 against 1 */
    for (int i = 0; i < 4; i++) qsf_sampler_accept(s, 90 + i);
    CHECK_EQ(qsf_sampler_pick(s, logits), 5);          /* forgotten */
    qsf_sampler_accept(s, 5);
    qsf_sampler_accept(s, 5);
    qsf_sampler_reset(s);
    CHECK_EQ(qsf_sampler_pick(s, logits), 5);
    qsf_sampler_free(s);

    o.frequency_penalty = 0;
    o.repeat_penalty = 3;
    s = sampler_with(o);
    qsf_sampler_accept(s, 5);
    CHECK_EQ(qsf_sampler_pick(s, logits), 6);
    logits[5] = -1;
    logits[6] = -2;
    for (int i = 0; i < N; i++) if (i != 5 && i != 6) logits[i] = -9;
    CHECK_EQ(qsf_sampler_pick(s, logits), 6);          /* a negative logit is multiplied */
    qsf_sampler_free(s);
}

TEST(sampler_same_seed_same_tokens)
{
    qsf_sampler *a = sampler_with(defaults()), *b = sampler_with(defaults());
    ramp();
    for (int i = 0; i < 200; i++) CHECK_EQ(qsf_sampler_pick(a, logits), qsf_sampler_pick(b, logits));
    qsf_sampler_free(a);
    qsf_sampler_free(b);
}

TEST(sampler_survives_hopeless_logits)
{
    qsf_sampler_options o = defaults();
    qsf_sampler *s = sampler_with(o);
    static const float values[] = { NAN, INFINITY, -INFINITY, 0 };
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < N; i++) logits[i] = values[k];
        const int32_t id = qsf_sampler_pick(s, logits);
        CHECK(id >= 0 && id < N);
    }
    qsf_sampler_free(s);
}

/* An approximate head leaves rows out. */
TEST(sampler_never_takes_what_was_left_out)
{
    for (int kind = 0; kind < 6; kind++) {
        int count[N];
        qsf_sampler_options o = defaults();
        o.temperature = kind == 0 ? 0 : 2;
        o.top_k = kind == 1 ? 0 : 40;
        o.top_p = kind == 2 ? 1 : 0.95f;
        o.min_p = kind == 3 ? 0.5f : 0;
        o.repeat_penalty = kind >= 4 ? 1.5f : 1;
        o.frequency_penalty = kind == 5 ? -2.0f : 0;
        o.presence_penalty = kind == 5 ? -2.0f : 0;
        qsf_sampler *s = sampler_with(o);
        for (int i = 0; i < N; i++) {
            logits[i] = i % 20 == 7 ? (float)(i % 3) : -INFINITY;
            if (i % 10 == 0) qsf_sampler_accept(s, i);
        }
        draw(s, 200, count);
        for (int i = 0; i < N; i++)
            if (i % 20 != 7) CHECK_EQ(count[i], 0);
        qsf_sampler_free(s);
        CHECK_EQ(qsf_sample(logits, N, 1, 0.9f) % 20, 7);
    }
}

TEST(sampler_simple_form_is_deterministic_and_in_range)
{
    ramp();
    CHECK_EQ(qsf_sample(logits, N, 0, 1), 0);
    CHECK_EQ(qsf_sample(logits, N, 1, 0.9f), qsf_sample(logits, N, 1, 0.9f));
    int seen = 0;
    for (int i = 0; i < 200; i++) {
        logits[N - 1] = -20 - (float)i / 100;         /* another seed, the same distribution */
        const int id = qsf_sample(logits, N, 1, 0.3f);
        CHECK(id >= 0 && id < 20);                    /* 17 tokens hold 0.3 */
        seen |= 1 << id;
    }
    CHECK(seen & (seen - 1));                         /* more than one token comes */
    CHECK_EQ(qsf_sample(logits, 0, 1, 1), -1);
}

/* ---- the chain, against llama.cpp's ---- */

static float golden_logit(int i, unsigned seed)
{
    unsigned r = seed * 2654435761u + (unsigned)i * 40503u;
    for (int k = 0; k < 3; k++) r = (r ^ r >> 15) * 2246822519u + 1013904223u;
    const float u = (float)(r >> 8) * (1.0f / 8388608.0f) - 1;
    return u * u * u * 8;
}

enum { GOLDEN_N = 200 };

static const struct golden_case {
    float temperature; uint32_t top_k; float top_p, min_p, sigma, typical, xtc_threshold, range, exponent;
    uint32_t mirostat; float tau, repeat, frequency, presence, dry; uint32_t dry_allowed; float bias;
} golden_cases[] = {
#include "golden/sampler_cases.h"
};

static qsf_sampler *golden_sampler(const struct golden_case *c)
{
    qsf_sampler_options o = defaults();
    o.temperature = c->temperature;
    o.top_k = c->top_k;
    o.top_p = c->top_p;
    o.min_p = c->min_p;
    o.top_n_sigma = c->sigma;
    o.typical_p = c->typical;
    o.xtc_probability = c->xtc_threshold < 1;
    o.xtc_threshold = c->xtc_threshold;
    o.dynatemp_range = c->range;
    o.dynatemp_exponent = c->exponent;
    o.mirostat = c->mirostat;
    o.mirostat_tau = c->tau;
    o.repeat_penalty = c->repeat;
    o.frequency_penalty = c->frequency;
    o.presence_penalty = c->presence;
    o.dry_multiplier = c->dry;
    o.dry_allowed_length = c->dry_allowed;
    o.dry_last_n = 64;
    source.hp.n_vocab = GOLDEN_N;
    qsf_sampler *s = sampler_with(o);
    if (s && c->bias != 0) CHECK_EQ(qsf_sampler_bias(s, 7, c->bias, NULL), QSF_OK);
    return s;
}

TEST(sampler_leaves_what_llama_leaves)
{
    CHECK_EQ(QSF_ARRAY_LEN(golden_cases), QSF_ARRAY_LEN(sampler_golden));
    for (unsigned c = 0; c < QSF_ARRAY_LEN(golden_cases); c++) {
        const unsigned seed = c + 1;
        static float x[GOLDEN_N];
        qsf_sampler *s = golden_sampler(&golden_cases[c]);
        sampler_pick k;
        for (int i = 0; i < GOLDEN_N; i++) x[i] = golden_logit(i, seed);
        for (unsigned i = 0; i < 40; i++)
            qsf_sampler_accept(s, (int32_t)((seed + i % 9 * (i % 7 ? 1 : 2)) % GOLDEN_N));
        CHECK(qsf_pick_candidates(&k, s, x, NULL));
        static ranked all[GOLDEN_N];
        const int left = ranked_candidates(&k, all), there = sampler_golden[c].n;
        /* Of many, the sum may be reached before the last ones, which then have no share of it. */
        int wrong = left != there && !(left > 180 && left < there);
        for (int i = 0; i < QSF_MIN(left, 24); i++) {
            wrong += all[i].id != sampler_golden[c].best[i].id;
            CHECK_NEAR(all[i].p / k.sum, sampler_golden[c].best[i].p, 2e-5);
        }
        const int id = qsf_pick_draw(&k);
        CHECK(id >= 0 && id < GOLDEN_N);
        if (wrong) printf("      case %u: %d left, %d there\n", c, left, there);
        CHECK_EQ(wrong, 0);
        qsf_sampler_free(s);
    }
    source.hp.n_vocab = N;
}

/* The surprise of each token moves Mirostat: the next steps leave what llama.cpp's leave. */
TEST(sampler_mirostat_goes_on_as_llamas)
{
    enum { STEPS = 4, TRIES = 100000 };
    unsigned row = 0;
    for (unsigned c = 0; c < QSF_ARRAY_LEN(golden_cases); c++) {
        if (!golden_cases[c].mirostat) continue;
        qsf_sampler *s = golden_sampler(&golden_cases[c]);
        for (unsigned step = 0; step < STEPS; step++) {
            static float x[GOLDEN_N];
            const int want = sampler_mirostat[row][step].id;
            sampler_pick k;
            int id = -1, tries = 0;
            for (int i = 0; i < GOLDEN_N; i++) x[i] = golden_logit(i, c + 1 + 100 * step);
            for (const float mu = s->mirostat_mu; id != want && tries < TRIES; tries++) {
                s->mirostat_mu = mu;                            /* until llama.cpp's token comes */
                CHECK(qsf_pick_candidates(&k, s, x, NULL));
                id = qsf_pick_draw(&k);
            }
            CHECK_EQ(id, want);
            static ranked all[GOLDEN_N];
            CHECK_EQ(ranked_candidates(&k, all), sampler_mirostat[row][step].n);
            CHECK_NEAR(all[0].p / k.sum, sampler_mirostat[row][step].p, 2e-5);
        }
        qsf_sampler_free(s);
        row++;
    }
    CHECK_EQ(row, QSF_ARRAY_LEN(sampler_mirostat));
    source.hp.n_vocab = N;
}

/* ---- DRY, against every earlier place looked at ---- */

TEST(sampler_dry_counts_repetitions)
{
    enum { TOKENS = 60 };
    uint32_t rng = 5;
    for (int round = 0; round < 200; round++) {
        qsf_sampler_options o = defaults();
        int32_t ids[TOKENS];
        float want[N];
        o.temperature = 0;
        o.dry_multiplier = 0.5f + (float)(round % 3);
        o.dry_base = 1 + (float)(round % 4) * 0.25f;
        o.dry_allowed_length = 1 + (uint32_t)round % 3;
        o.dry_last_n = round % 5 ? TOKENS : 20;
        qsf_sampler *s = sampler_with(o);
        for (int i = 0; i < TOKENS; i++) {
            rng = rng * 1664525 + 1013904223;
            ids[i] = (int32_t)(rng >> 20) % (2 + round % 5);
            qsf_sampler_accept(s, ids[i]);
        }
        const int begin = TOKENS - (int)QSF_MIN(o.dry_last_n, TOKENS);
        for (int id = 0; id < N; id++) {
            uint32_t longest = 0;
            logits[id] = want[id] = (float)(id % 7);
            for (int at = begin + 1; at < TOKENS; at++) {      /* id stands here, what before it? */
                uint32_t len = 0;
                if (ids[at] != id) continue;
                for (int b = at - 1; b >= begin && ids[b] == ids[TOKENS - 1 - (int)len]; b--) len++;
                longest = QSF_MAX(longest, len);
            }
            if (longest >= o.dry_allowed_length)
                want[id] -= o.dry_multiplier * powf(o.dry_base, (float)(longest - o.dry_allowed_length));
        }
        sampler_pick k;
        CHECK(qsf_pick_candidates(&k, s, logits, NULL));
        for (int id = 0; id < N; id++) CHECK_NEAR(k.x[id], want[id], 1e-3 * (1 + fabs((double)want[id])));
        qsf_sampler_free(s);
    }
}

/* ---- what callers add ---- */

static void no_fives(void *user, float *x, size_t n)
{
    ++*(int *)user;
    CHECK_EQ(n, N);
    for (size_t i = 5; i < n; i += 10) x[i] = -INFINITY;
}

TEST(sampler_adds_biases_and_asks_the_callback)
{
    qsf_error e = { 0 };
    int asked = 0;
    qsf_sampler_options o = defaults();
    o.temperature = 0;
    qsf_sampler *s = sampler_with(o);
    ramp();
    CHECK_EQ(qsf_sampler_bias(s, 7, 50, &e), QSF_OK);
    CHECK_EQ(qsf_sampler_pick(s, logits), 7);
    CHECK_EQ(qsf_sampler_bias(s, 7, -INFINITY, &e), QSF_OK);
    CHECK_EQ(qsf_sampler_pick(s, logits), 0);
    CHECK_EQ(qsf_sampler_bias(s, 7, 0, &e), QSF_OK);
    for (int32_t i = 20; i < 60; i++) CHECK_EQ(qsf_sampler_bias(s, i, (float)i, &e), QSF_OK);
    CHECK_EQ(qsf_sampler_pick(s, logits), 59);
    CHECK_EQ(qsf_sampler_bias(s, 55, 100, &e), QSF_OK);
    CHECK_EQ(qsf_sampler_pick(s, logits), 55);
    qsf_sampler_callback(s, no_fives, &asked);
    CHECK_EQ(qsf_sampler_pick(s, logits), 59);
    CHECK_EQ(asked, 1);
    qsf_sampler_callback(s, NULL, NULL);
    for (int32_t i = 0; i < N; i++) CHECK_EQ(qsf_sampler_bias(s, i, -INFINITY, &e), QSF_OK);
    CHECK_EQ(qsf_sampler_pick(s, logits), 0);                       /* nothing is left: they do not count */
    CHECK_EQ(qsf_sampler_bias(s, N, 1, &e), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_bias(s, 1, INFINITY, &e), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_bias(s, 1, NAN, &e), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_ban(s, "x", 1, &e), QSF_E_UNSUPPORTED);    /* this model has no vocabulary */
    qsf_sampler_free(s);
}

/* Whatever the options, a token comes that may, and the same seed gives the same ones. */
TEST(sampler_chains_pick_what_is_there)
{
    uint32_t rng = 9;
    for (int round = 0; round < 300; round++) {
        qsf_sampler_options o = defaults();
        o.temperature = round % 4 ? 0.3f * (float)(round % 7) : 1e-20f;
        o.top_k = round % 3 * 20;
        o.min_p = round % 5 ? 0 : 0.1f;
        o.dry_multiplier = round % 2;
        o.top_n_sigma = round % 6 ? 0 : 0.5f * (float)(round % 4);
        o.typical_p = round % 7 ? 1 : 0.1f * (float)(round % 11);
        o.xtc_probability = round % 8 ? 0 : 0.5f;
        o.xtc_threshold = 0.01f * (float)(round % 60);
        o.dynatemp_range = round % 9 ? 0 : (float)(round % 5);
        o.mirostat = round % 10 > 7 ? (uint32_t)(round % 10) - 7 : 0;
        o.mirostat_tau = (float)(round % 13);
        o.mirostat_eta = 0.3f;
        qsf_sampler *a = sampler_with(o), *b = sampler_with(o);
        for (int i = 0; i < N; i++) {
            rng = rng * 1664525 + 1013904223;
            logits[i] = (float)(rng >> 8) * 0x1p-21f - 4;
            if (round % 12 == 1) logits[i] = 1;
            if (round % 12 == 2 && i % 3) logits[i] = -INFINITY;
        }
        for (int i = 0; i < 60; i++) {
            const int32_t id = qsf_sampler_pick(a, logits);
            CHECK(id >= 0 && id < N && logits[id] > -INFINITY);
            CHECK_EQ(qsf_sampler_pick(b, logits), id);
            qsf_sampler_accept(a, id);
            qsf_sampler_accept(b, id);
        }
        qsf_sampler_free(a);
        qsf_sampler_free(b);
    }
}

TEST(sampler_refuses_what_no_option_can_be)
{
    static const struct { const char *name, *value; bool fits; } values[] = {
        { "typical-p", "1.5", false }, { "typical-p", "0.5", true }, { "mirostat", "3", false },
        { "mirostat", "2", true }, { "dry-base", "0.5", false }, { "xtc-probability", "-0.1", false },
        { "temperature", "x", false }, { "seed", "12345678901", true }, { "no-such", "1", false },
        { "repeat-last-n", "1048577", false },
    };
    qsf_error e;
    for (size_t i = 0; i < QSF_ARRAY_LEN(values); i++) {
        qsf_sampler_options o = defaults();
        CHECK_EQ(!qsf_sampler_set(&o, values[i].name, values[i].value, &e), values[i].fits);
    }
    qsf_sampler_options o = defaults();
    qsf_sampler *s = NULL;
    o.typical_p = 2;
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, &e), QSF_E_ARGUMENT);
    CHECK(!s && strstr(e.text, "typical-p") != NULL);
    for (size_t i = 0; qsf_sampler_option(i); i++) CHECK(*qsf_sampler_option(i)->help != 0);
    for (size_t i = 0; qsf_turn_option(i); i++) CHECK(*qsf_turn_option(i)->help != 0);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(sampler_is_greedy_at_temperature_zero);
    RUN(sampler_follows_the_distribution);
    RUN(sampler_temperature_sharpens);
    RUN(sampler_top_k_keeps_k);
    RUN(sampler_top_p_keeps_the_smallest_set);
    RUN(sampler_min_p_is_relative_to_the_best);
    RUN(sampler_penalties_count_recent_tokens);
    RUN(sampler_same_seed_same_tokens);
    RUN(sampler_survives_hopeless_logits);
    RUN(sampler_never_takes_what_was_left_out);
    RUN(sampler_simple_form_is_deterministic_and_in_range);
    RUN(sampler_leaves_what_llama_leaves);
    RUN(sampler_mirostat_goes_on_as_llamas);
    RUN(sampler_dry_counts_repetitions);
    RUN(sampler_adds_biases_and_asks_the_callback);
    RUN(sampler_chains_pick_what_is_there);
    RUN(sampler_refuses_what_no_option_can_be);
    return test_end();
}
