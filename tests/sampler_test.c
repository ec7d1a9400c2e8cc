/* The sampler: each part of the chain against what it says.
 * SPDX-License-Identifier: MIT */
#include "model/model.h"
#include "test.h"

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

/* ---- a token that is passed over would never have been chosen ---- */
enum { MANY = 3000 };
typedef struct ranked { float p; int id; } ranked;
static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : x->id - y->id;
}
/* The sampler in its plainest form: every token's probability, all of them sorted. */
static int32_t plain_pick(const float *x, const qsf_sampler_options *o, uint64_t *state)
{
    static ranked all[MANY];
    int best = 0, n = 0;
    for (int i = 1; i < MANY; i++) if (x[i] > x[best] || x[best] != x[best]) best = i;
    if (!(o->temperature > 0)) return best;
    float sum = 0, cut = 0;
    for (int i = 0; i < MANY; i++) {
        const float p = expf((x[i] - x[best]) / o->temperature);
        if (!(p > 0) || p < o->min_p) continue;
        all[n++] = (ranked){ p, i };
        sum += p;
    }
    if (!n) return best;
    qsort(all, (size_t)n, sizeof *all, by_rank);
    if (o->top_k) {
        n = QSF_MIN(n, (int)o->top_k);
        sum = 0;
        for (int i = 0; i < n; i++) sum += all[i].p;
    }
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    int chosen = 0;
    while (chosen < n && (chosen == 0 || cut < o->top_p * sum)) cut += all[chosen++].p;
    float u = (float)((z ^ z >> 31) >> 40) * 0x1p-24f * cut;
    for (int i = 0; i < chosen; i++) if ((u -= all[i].p) < 0) return all[i].id;
    return all[chosen - 1].id;
}

TEST(sampler_draws_what_the_plain_form_draws)
{
    static const float temperatures[] = { 0.7f, 1, 0.05f, 3, 1e-30f, 1e30f, 0, 0.7f };
    static const float peaks[] = { 5, 0.5f, 30, 1e-6f, 400 };
    static float x[MANY];
    uint32_t rng = 1;
    source.hp.n_vocab = MANY;
    for (int round = 0; round < 400; round++) {
        qsf_sampler_options o = defaults();
        o.temperature = temperatures[round % 8];
        o.top_k = round % 5 == 4 ? 0 : round % 7 == 6 ? 1000 : round % 3 ? 40 : 1;
        o.top_p = round % 4 == 3 ? 1 : 0.9f;
        o.min_p = round % 6 == 5 ? 0.05f : 0;
        for (int i = 0; i < MANY; i++) {
            rng = rng * 1664525 + 1013904223;
            x[i] = ((float)(rng >> 8) * 0x1p-23f - 1) * peaks[round / 8 % 5] + (round % 11 == 10 ? 1e5f : 0);
            if (round % 9 == 8) x[i] = floorf(x[i]);        /* many equals */
            if (round % 13 == 12 && i % 3) x[i] = -INFINITY;
            if (round % 17 == 16 && i % 50 == 0) x[i] = i % 100 ? NAN : round % 2 ? INFINITY : x[i];
        }
        qsf_sampler *s = sampler_with(o);
        uint64_t state = o.seed;
        for (int i = 0; i < 5; i++) {
            const int32_t want = plain_pick(x, &o, &state), got = qsf_sampler_pick(s, x);
            if (want != got) printf("      round %d\n", round);
            CHECK_EQ(got, want);
        }
        qsf_sampler_free(s);
    }
    source.hp.n_vocab = N;
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
    RUN(sampler_draws_what_the_plain_form_draws);
    RUN(sampler_simple_form_is_deterministic_and_in_range);
    return test_end();
}
