/* The sampler's distribution: the optimised sampler against the plain definition, which weighs and
 * sorts every token.
 * SPDX-License-Identifier: MIT
 *
 *     sampler_exact_test                              seconds: 5,000 picks for each chain, and
 *                                                     200,000 draws from one pick's candidates
 *     QSF_SAMPLER_DRAWS=1000000 sampler_exact_test    minutes: a million picks each */
#include "sampler_ranked.h"
#include "test.h"
#include "turn/sampler_own.h"

enum { MANY = 3000 };

static long n_picks = TEST_EVERY > 1 ? 1000 : 5000;
static qsf_source source = { .hp = { .n_vocab = MANY } };
static qsf_model model = { .source = &source };
static float logits[MANY];

static qsf_sampler *sampler_with(qsf_sampler_options o)
{
    qsf_sampler *s = NULL;
    model.platform = qsf_platform_native();
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, NULL), QSF_OK);
    return s;
}
static qsf_sampler_options no_parts(void)
{
    qsf_sampler_options o;
    qsf_sampler_defaults(&o);
    o.seed = 42;
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 1;
    return o;
}

/* ---- the plain definition ---- */

static double plain_sum(const ranked *all, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++) sum += all[i].p;
    return sum;
}
static double plain_entropy(const ranked *all, int n)
{
    double entropy = 0;
    const double sum = plain_sum(all, 0, n);
    for (int i = 0; i < n; i++) entropy -= all[i].p / sum * log(all[i].p / sum);
    return entropy;
}
static double typical_entropy;
static int by_distance(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    const double d = fabs(log(x->p) + typical_entropy), e = fabs(log(y->p) + typical_entropy);
    return d != e ? (d > e) - (d < e) : by_rank(a, b);
}

static int plain_typical(ranked *all, int n, double most)
{
    const double sum = plain_sum(all, 0, n);
    typical_entropy = plain_entropy(all, n) - log(sum);         /* of unnormalised weights */
    int to = 0;
    double kept = 0;
    qsort(all, (size_t)n, sizeof *all, by_distance);
    while (to < n && (to == 0 || kept <= most * sum)) kept += all[to++].p;
    qsort(all, (size_t)to, sizeof *all, by_rank);
    return to;
}

/* The distribution of x under o.  Whether XTC applies is itself random, so the caller passes it. */
static int plain_chain(const float *x, const qsf_sampler_options *o, bool xtc, ranked *all)
{
    int best = 0, n = 0;
    double mean = 0, squares = 0, there = 0;
    for (int i = 1; i < MANY; i++) if (x[i] > x[best] || x[best] != x[best]) best = i;
    for (int i = 0; i < MANY; i++)
        if (x[i] > -INFINITY) mean += (double)x[i], squares += (double)x[i] * (double)x[i], there++;
    const double sigma = sqrt(squares / there - mean / there * (mean / there));
    const double t = o->dynatemp_range > 0 ? 1 : (double)o->temperature;
    for (int i = 0; i < MANY; i++) {
        const double p = exp(((double)x[i] - (double)x[best]) / t);
        if (o->top_n_sigma > 0 && (double)x[i] < (double)x[best] - (double)o->top_n_sigma * sigma) continue;
        if (p > 0 && p >= (double)o->min_p) all[n++] = (ranked){ p, i };
    }
    qsort(all, (size_t)n, sizeof *all, by_rank);
    if (o->mirostat == 2) {
        const double sum = plain_sum(all, 0, n);
        int to = 1;
        while (to < n && -log2(all[to].p / sum) <= 2 * (double)o->mirostat_tau) to++;
        return to;
    }
    if (o->top_k) n = QSF_MIN(n, (int)o->top_k);
    if (o->typical_p < 1) n = plain_typical(all, n, (double)o->typical_p);
    if (o->top_p < 1) {
        const double most = (double)o->top_p * plain_sum(all, 0, n);
        double sum = 0;
        int to = 0;
        while (to < n && (to == 0 || sum < most)) sum += all[to++].p;
        n = to;
    }
    if (xtc) {
        const double least = (double)o->xtc_threshold * plain_sum(all, 0, n);
        int from = 0;
        while (from + 1 < n && all[from + 1].p >= least) from++;
        memmove(all, all + from, (size_t)(n - from) * sizeof *all);
        n -= from;
    }
    if (o->dynatemp_range > 0 && n > 1) {
        const double low = QSF_MAX((double)(o->temperature - o->dynatemp_range), 0);
        const double share = plain_entropy(all, n) / log(n), top = log(all[0].p);
        const double hot = low + ((double)(o->temperature + o->dynatemp_range) - low)
                                     * pow(share, (double)o->dynatemp_exponent);
        for (int i = 0; i < n; i++) all[i].p = exp((log(all[i].p) - top) / hot);
    }
    return n;
}

/* ---- chi-square ---- */

/* The value that chi-square with n degrees of freedom exceeds once in 10^6 (Wilson and Hilferty
 * 1931). */
static double chi_limit(double n)
{
    const double c = 2 / (9 * n), z = 1 - c + 4.75 * sqrt(c);
    return n * z * z * z;
}

/* Adds a chain's probabilities, scaled by `times`, to the expected ones. */
static void expect(double *expected, const qsf_sampler_options *o, bool xtc, double times)
{
    static ranked all[MANY];
    const int n = plain_chain(logits, o, xtc, all);
    const double sum = plain_sum(all, 0, n);
    for (int i = 0; i < n; i++) expected[all[i].id] += times * all[i].p / sum;
}

/* Checks the counts of n draws against the expected distribution (chi-square test). */
static void check_counts(const char *name, const double *expected, const long *count, long n)
{
    double chi = 0, rest = 0, degrees = -1;
    long others = 0;
    for (int i = 0; i < MANY; i++) {
        const double want = expected[i] * (double)n, off = (double)count[i] - want;
        if (want == 0) CHECK_EQ(count[i], 0);
        if (want < 8) {                             /* pool rare tokens */
            rest += want;
            others += count[i];
            continue;
        }
        chi += off * off / want;
        degrees++;
    }
    if (rest > 8) {
        chi += ((double)others - rest) * ((double)others - rest) / rest;
        degrees++;
    }
    if (degrees > 0 && chi > chi_limit(degrees))
        printf("      %s, %ld draws: chi-square %.1f, %g degrees of freedom, limit %.1f\n", name, n, chi,
               degrees, chi_limit(degrees));
    CHECK(degrees <= 0 || chi <= chi_limit(degrees));
}

static void check_chain(const char *name, const qsf_sampler_options *o)
{
    static double expected[MANY];
    static long count[MANY];
    qsf_sampler *s = sampler_with(*o);
    memset(expected, 0, sizeof expected);
    memset(count, 0, sizeof count);
    expect(expected, o, false, 1 - (double)o->xtc_probability);
    if (o->xtc_probability > 0) expect(expected, o, true, (double)o->xtc_probability);
    for (long i = 0; i < n_picks; i++) {
        if (o->mirostat) qsf_sampler_reset(s);
        count[qsf_sampler_pick(s, logits)]++;
    }
    check_counts(name, expected, count, n_picks);
    if (o->xtc_probability == 0) {                  /* else candidates vary from pick to pick */
        sampler_pick k;
        memset(count, 0, sizeof count);
        qsf_sampler_reset(s);
        CHECK(qsf_pick_candidates(&k, s, logits, NULL));
        const long draws = QSF_MIN(40 * n_picks, 1000000);
        for (long i = 0; i < draws; i++) count[qsf_pick_draw(&k)]++;
        check_counts(name, expected, count, draws);
    }
    qsf_sampler_free(s);
}

/* A few tokens have most of the probability, as in a language model. */
static void peaked_logits(float spread)
{
    uint32_t rng = 7;
    for (int i = 0; i < MANY; i++) {
        float sum = 0;
        for (int j = 0; j < 6; j++) {
            rng = rng * 1664525 + 1013904223;
            sum += (float)(rng >> 8) * 0x1p-24f - 0.5f;
        }
        logits[i] = sum * spread;
    }
}

TEST(sampler_draws_the_distribution)
{
    static const float spreads[] = { 0.3f, 2, 5 };
    for (size_t i = 0; i < QSF_ARRAY_LEN(spreads); i++) {
        qsf_sampler_options o = no_parts();
        peaked_logits(spreads[i]);
#define CHAIN(name, ...) do { o = no_parts(); __VA_ARGS__; check_chain(name, &o); } while (0)
        CHAIN("temperature 1", (void)o);
        CHAIN("temperature 0.6", o.temperature = 0.6f);
        CHAIN("temperature 1.7", o.temperature = 1.7f);
        CHAIN("top-k 40", o.top_k = 40);
        CHAIN("top-k 2000", o.top_k = 2000);
        CHAIN("top-p 0.9", o.top_p = 0.9f);
        CHAIN("top-p 0.3", o.top_p = 0.3f);
        CHAIN("min-p 0.05", o.min_p = 0.05f);
        CHAIN("typical-p 0.7", o.typical_p = 0.7f);
        CHAIN("top-n-sigma 1", o.top_n_sigma = 1);
        CHAIN("xtc", o.xtc_probability = 0.5f, o.xtc_threshold = 0.01f);
        CHAIN("dynamic temperature", o.dynatemp_range = 0.5f);
        CHAIN("mirostat 2", o.mirostat = 2, o.mirostat_tau = 4);
        CHAIN("the defaults", qsf_sampler_defaults(&o), o.seed = 3);
        CHAIN("llama.cpp's", o.temperature = 0.8f, o.top_k = 40, o.top_p = 0.95f, o.min_p = 0.05f);
        CHAIN("top-p and min-p", o.temperature = 1.2f, o.top_p = 0.95f, o.min_p = 0.02f);
        CHAIN("all", o.top_k = 500, o.typical_p = 0.95f, o.top_p = 0.9f, o.xtc_probability = 0.3f,
              o.xtc_threshold = 0.02f, o.dynatemp_range = 0.3f);
#undef CHAIN
    }
}

/* ---- candidates, for many kinds of logits ---- */

static void hard_logits(int round, uint32_t *rng)
{
    static const float peaks[] = { 5, 0.5f, 30, 1e-3f, 400 };
    for (int i = 0; i < MANY; i++) {
        *rng = *rng * 1664525 + 1013904223;
        logits[i] = ((float)(*rng >> 8) * 0x1p-23f - 1) * peaks[round / 8 % 5];
        if (round % 11 == 10) logits[i] += 1e4f;
        if (round % 9 == 8) logits[i] = floorf(logits[i]);          /* many ties */
        if (round % 13 == 12 && i % 3) logits[i] = -INFINITY;
        if (round % 17 == 16 && i % 50 == 0) logits[i] = i % 100 ? NAN : logits[i];
        if (round % 23 == 22) logits[i] = 1;
    }
}

TEST(sampler_keeps_what_the_plain_form_keeps)
{
    static const float temperatures[] = { 0.7f, 1, 0.05f, 3, 1e-30f, 0.7f };
    static ranked want[MANY], got[MANY];
    uint32_t rng = 1;
    for (int round = 0; round < 600; round++) {
        qsf_sampler_options o = no_parts();
        sampler_pick k;
        o.temperature = temperatures[round % 6];
        o.top_k = round % 5 == 4 ? 0 : round % 7 == 6 ? 2000 : round % 3 ? 40 : 1;
        o.top_p = round % 4 == 3 ? 1 : round % 4 ? 0.9f : 0.2f;
        o.min_p = round % 6 == 5 ? 0.05f : 0;
        o.typical_p = round % 19 == 18 && round % 9 != 8 ? 0.6f : 1;
        hard_logits(round, &rng);
        qsf_sampler *s = sampler_with(o);
        CHECK(qsf_pick_candidates(&k, s, logits, NULL));
        const int n = plain_chain(logits, &o, false, want), m = ranked_candidates(&k, got);
        /* rounded sums may end the run one rank earlier or later; weights below 1e-38 are 0 */
        const bool same = n == m || (abs(n - m) <= 1 && o.top_p < 1) || (m < n && want[m].p < 1e-37);
        if (!same) printf("      round %d: %d candidates, not %d\n", round, m, n);
        CHECK(same);
        for (int i = 0; i < QSF_MIN(n, m); i++) {
            const double far = fabs(got[i].p - want[i].p) / want[i].p;
            if (far <= 3e-7 + 2e-7 * fabs(log(want[i].p))) continue;
            printf("      round %d, rank %d: token %d %g, not %d %g\n", round, i, got[i].id, got[i].p,
                   want[i].id, want[i].p);
            CHECK(false);
            break;
        }
        qsf_sampler_free(s);
    }
}

/* ---- reproducible tokens ---- */

TEST(sampler_draws_the_same_with_every_instruction_set)
{
    static const char *const sets[] = { "scalar", "sse42", "avx2", "avx512", "neon", "dotprod", "wasm",
                                        "wasm-relaxed", "wasm-dot" };
    enum { DRAWS = 30 };
    const qsf_platform *p = qsf_platform_native();
    const uint32_t cpu = p->cpu_features ? p->cpu_features(p->user) : 0;
    uint32_t rng = 5;
    int compared = 0;
    for (int round = 0; round < 120; round += TEST_EVERY) {
        int32_t first[DRAWS];
        qsf_sampler_options o = no_parts();
        o.temperature = 0.4f + 0.2f * (float)(round % 6);
        o.top_k = round % 4 ? 0 : round % 3 ? 40 : 1500;
        o.top_p = round % 3 ? 1 : 0.9f;
        o.min_p = round % 5 ? 0 : 0.03f;
        o.typical_p = round % 7 ? 1 : 0.8f;
        o.top_n_sigma = round % 8 ? 0 : 1.5f;
        o.xtc_probability = round % 6 ? 0 : 0.4f;
        o.xtc_threshold = 0.01f;
        o.dynatemp_range = round % 10 ? 0 : 0.3f;
        o.mirostat = round % 11 > 8 ? (uint32_t)(round % 11) - 8 : 0;
        hard_logits(round, &rng);
        for (size_t i = 0; i < QSF_ARRAY_LEN(sets); i++) {
            qsf_sampler *s = sampler_with(o);
            if (qsf_kernels_init(&s->k, cpu, sets[i], NULL)) {
                qsf_sampler_free(s);
                continue;
            }
            for (int j = 0; j < DRAWS; j++) {
                const int32_t id = qsf_sampler_pick(s, logits);
                if (i == 0) first[j] = id;
                CHECK_EQ(id, first[j]);
                compared += i > 0;
            }
            qsf_sampler_free(s);
        }
    }
    printf("    %d tokens compared with the scalar set's\n", compared);
}

int main(int argc, char **argv)
{
    const char *draws = getenv("QSF_SAMPLER_DRAWS");
    if (draws && atol(draws) > 1000) n_picks = atol(draws);
    test_begin(argc, argv);
    RUN(sampler_draws_the_distribution);
    RUN(sampler_keeps_what_the_plain_form_keeps);
    RUN(sampler_draws_the_same_with_every_instruction_set);
    return test_end();
}
