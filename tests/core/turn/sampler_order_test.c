/* The caller's order of samplers against the plain definition, which weighs and sorts every token
 * before each stage.
 * SPDX-License-Identifier: MIT */
#include "sampler_ranked.h"
#include "test.h"

enum { N = 2000 };

static qsf_source source = { .hp = { .n_vocab = N } };
static qsf_model model = { .source = &source };
static float logits[N];
static const int32_t before[] = { 5, 6, 7, 5, 6 };      /* DRY: 7 would extend a repetition of two */

static qsf_sampler *sampler_with(const qsf_sampler_options *o)
{
    qsf_sampler *s = NULL;
    model.platform = qsf_platform_native();
    CHECK_EQ(qsf_sampler_new(&model, o, &s, NULL), QSF_OK);
    for (size_t i = 0; i < QSF_ARRAY_LEN(before); i++) qsf_sampler_accept(s, before[i]);
    return s;
}
static qsf_sampler_options no_stages(void)
{
    qsf_sampler_options o;
    qsf_sampler_defaults(&o);
    o.seed = 42;
    o.temperature = 1;
    o.top_k = 0;
    o.top_p = 1;
    return o;
}
static void random_logits(uint32_t *rng)
{
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            *rng = *rng * 1664525 + 1013904223;
            sum += (float)(*rng >> 8) * 0x1p-24f - 0.5f;
        }
        logits[i] = 6 * sum;
    }
    logits[7] = 12;                                     /* the best, which penalties change */
    logits[5] = 9;
}

/* ---- the plain definition: p is a logit until the end ---- */

typedef struct plain_state { ranked all[N]; double share[N]; int n; } plain_state;

/* The probabilities of all, best first. */
static void plain_rank(plain_state *c)
{
    double sum = 0;
    qsort(c->all, (size_t)c->n, sizeof *c->all, by_rank);
    for (int i = 0; i < c->n; i++) sum += c->share[i] = exp(c->all[i].p - c->all[0].p);
    for (int i = 0; i < c->n; i++) c->share[i] /= sum;
}
static double plain_entropy(const plain_state *c)
{
    double entropy = 0;
    for (int i = 0; i < c->n; i++) if (c->share[i] > 0) entropy -= c->share[i] * log(c->share[i]);
    return entropy;
}
static void plain_penalties(plain_state *c, const qsf_sampler_options *o)
{
    for (int i = 0; i < c->n; i++) {
        double *x = &c->all[i].p;
        int count = 0;
        for (size_t k = 0; k < QSF_ARRAY_LEN(before); k++) count += before[k] == c->all[i].id;
        if (!count) continue;
        *x = *x > 0 ? *x / (double)o->repeat_penalty : *x * (double)o->repeat_penalty;
        *x -= count * (double)o->frequency_penalty + (double)o->presence_penalty;
    }
}
static void plain_heat(plain_state *c, const qsf_sampler_options *o)
{
    double t = (double)o->temperature;
    if (o->dynatemp_range > 0) {
        if (c->n < 2) return;
        const double low = QSF_MAX(t - (double)o->dynatemp_range, 0), high = t + (double)o->dynatemp_range;
        t = low + (high - low) * pow(plain_entropy(c) / log(c->n), (double)o->dynatemp_exponent);
    }
    for (int i = 0; i < c->n; i++) c->all[i].p /= t;
}
static void plain_typical(plain_state *c, double most)
{
    const double entropy = plain_entropy(c);
    bool keeps[N] = { false };
    double kept = 0;
    for (int n = 0; n < c->n && (n == 0 || kept <= most); n++) {
        int next = -1;
        double least = INFINITY;
        for (int i = 0; i < c->n; i++) {
            const double d = fabs(log(c->share[i]) + entropy);
            if (!keeps[i] && d < least) least = d, next = i;
        }
        if (next < 0) break;
        keeps[next] = true;
        kept += c->share[next];
    }
    int to = 0;
    for (int i = 0; i < c->n; i++) if (keeps[i]) c->all[to++] = c->all[i];
    c->n = to;
}
/* Keeps the ranks [from, to). */
static void plain_keep(plain_state *c, int from, int to)
{
    memmove(c->all, c->all + from, (size_t)(to - from) * sizeof *c->all);
    c->n = to - from;
}
static void plain_sigma(plain_state *c, double count)
{
    double mean = 0, squares = 0;
    int to = 0;
    for (int i = 0; i < c->n; i++) mean += c->all[i].p / c->n;
    for (int i = 0; i < c->n; i++) squares += (c->all[i].p - mean) * (c->all[i].p - mean) / c->n;
    while (to < c->n && c->all[to].p >= c->all[0].p - count * sqrt(squares)) to++;
    plain_keep(c, 0, to);
}
static void plain_top_p(plain_state *c, double most)
{
    double sum = 0;
    int to = 0;
    while (to < c->n && (to == 0 || sum < most)) sum += c->share[to++];
    plain_keep(c, 0, to);
}

static void plain_stage(plain_state *c, char stage, const qsf_sampler_options *o)
{
    int to = 0, from = 0;
    plain_rank(c);
    switch (stage) {
    case 'e': plain_penalties(c, o); break;
    case 'd':
        for (int i = 0; i < c->n; i++) c->all[i].p -= c->all[i].id == 7 ? (double)o->dry_multiplier : 0;
        break;
    case 's': if (o->top_n_sigma > 0) plain_sigma(c, (double)o->top_n_sigma); break;
    case 't': plain_heat(c, o); break;
    case 'm':
        while (to < c->n && c->share[to] >= (double)o->min_p * c->share[0]) to++;
        plain_keep(c, 0, to);
        break;
    case 'k': plain_keep(c, 0, o->top_k ? QSF_MIN(c->n, (int)o->top_k) : c->n); break;
    case 'y': plain_typical(c, (double)o->typical_p); break;
    case 'p': plain_top_p(c, (double)o->top_p); break;
    case 'x':
        if (!(o->xtc_probability > 0)) break;
        while (from + 1 < c->n && c->share[from + 1] >= (double)o->xtc_threshold) from++;
        plain_keep(c, from, c->n);
        break;
    default: CHECK(false);
    }
}

static void plain_ordered(plain_state *c, const qsf_sampler_options *o)
{
    c->n = N;
    for (int i = 0; i < N; i++) c->all[i] = (ranked){ (double)logits[i], i };
    for (const char *at = o->samplers; *at; at++) plain_stage(c, *at, o);
    plain_rank(c);
}

/* Whether a chain keeps the tokens that the plain one keeps, with their probabilities. */
static bool same_as_plain(const qsf_sampler_options *o)
{
    static plain_state want;
    static ranked got[N];
    static double by_id[N];
    sampler_pick k;
    double sum = 0;
    qsf_sampler *s = sampler_with(o);
    CHECK(qsf_pick_candidates(&k, s, logits, NULL));
    const int n = ranked_candidates(&k, got);
    plain_ordered(&want, o);
    for (int i = 0; i < n; i++) sum += got[i].p;
    memset(by_id, 0, sizeof by_id);
    for (int i = 0; i < want.n; i++) by_id[want.all[i].id] = want.share[i];
    bool same = abs(n - want.n) <= 1;                   /* sums round */
    double others = 0;
    for (int i = 0; i < n; i++) {
        const double share = by_id[got[i].id];
        same = same && (share > 0 ? fabs(got[i].p / sum - share) < 2e-3 * share : i == n - 1);
        others += share > 0 ? 0 : got[i].p / sum;
    }
    same = same && others < 2e-3;
    if (!same) printf("      order \"%s\": %d candidates, not %d; best %d, not %d\n", o->samplers, n, want.n,
                      got[0].id, want.all[0].id);
    qsf_sampler_free(s);
    return same;
}

TEST(every_order_leaves_what_the_plain_definition_leaves)
{
    uint32_t rng = 3;
    int ordered = 0;
    for (int round = 0; round < 400 / TEST_EVERY; round++) {
        qsf_sampler_options o = no_stages();
        char letters[] = "edstmkypx";
        random_logits(&rng);
        for (size_t i = 8; i > 0; i--) {                /* in random order, some of them */
            rng = rng * 1664525 + 1013904223;
            const size_t j = (rng >> 8) % (i + 1);
            const char c = letters[i];
            letters[i] = letters[j];
            letters[j] = c;
        }
        letters[2 + round % 8] = 0;
        qsf_format(o.samplers, sizeof o.samplers, "%s", letters);
        o.temperature = round % 3 ? 0.6f : 1.5f;
        o.dynatemp_range = round % 7 == 6 ? 0.4f : 0;
        o.repeat_penalty = 1.3f;
        o.frequency_penalty = 0.5f;
        o.presence_penalty = 0.2f;
        o.dry_multiplier = 2;
        o.top_n_sigma = round % 4 ? 2.5f : 0;
        o.min_p = round % 2 ? 0.01f : 0;
        o.top_k = round % 5 == 4 ? 1500 : round % 5 == 3 ? 0 : 60;
        o.typical_p = round % 3 == 1 ? 0.8f : 1;
        o.top_p = round % 4 == 3 ? 1 : 0.9f;
        o.xtc_probability = round % 6 == 5 ? 1 : 0;
        o.xtc_threshold = 0.05f;
        qsf_sampler_options check = o;
        ordered += qsf_sampler_select(&check);
        CHECK(same_as_plain(&check));
    }
    CHECK(ordered > 100 / TEST_EVERY);
    printf("    %d of the orders differ from the default one\n", ordered);
}

static const char *order_of(qsf_sampler_options *o, const char *text)
{
    CHECK_EQ(qsf_sampler_set(o, "samplers", text, NULL), QSF_OK);
    return o->samplers;
}

TEST(stages_have_llama_cpps_names_and_letters)
{
    qsf_sampler_options o = no_stages();
    qsf_error err = { 0 };
    CHECK_STR(o.samplers, "");
    CHECK_STR(order_of(&o, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"), "edskypmxt");
    CHECK_STR(order_of(&o, "edskypmxt"), "edskypmxt");
    CHECK_STR(order_of(&o, "Top-K, nucleus;temp"), "kpt");
    CHECK_STR(order_of(&o, "typical_p;typ;TYPICAL;topk;minp"), "yyykm");
    CHECK_STR(order_of(&o, "temp"), "t");               /* the name, not the letters t, e, m and p */
    CHECK_STR(order_of(&o, "k"), "k");
    CHECK_STR(order_of(&o, ""), "");
    CHECK_EQ(qsf_sampler_set(&o, "samplers", "top_k;infill", &err), QSF_E_ARGUMENT);
    CHECK(strstr(err.text, "unknown stage \"infill\"") != NULL);
    CHECK_EQ(qsf_sampler_set(&o, "samplers", "kz", &err), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_set(&o, "samplers", "top_k;;temp", &err), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_set(&o, "samplers", "kkkkkkkkkkkkkkkkkkkkkkkk", &err), QSF_E_ARGUMENT);
    CHECK_STR(o.samplers, "");                          /* unchanged by an error */
    qsf_sampler *s;
    model.platform = qsf_platform_native();
    memcpy(o.samplers, "k?", 3);
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, &err), QSF_E_ARGUMENT);
    memset(o.samplers, 'k', sizeof o.samplers);
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, &err), QSF_E_ARGUMENT);
    o = no_stages();
    o.size = offsetof(qsf_sampler_options, samplers);   /* a caller that does not know the member */
    memset(o.samplers, '?', sizeof o.samplers);
    CHECK_EQ(qsf_sampler_set(&o, "samplers", "k", &err), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_sampler_new(&model, &o, &s, &err), QSF_OK);
    qsf_sampler_free(s);
}

/* The tokens of 200 picks. */
static void picks_of(const qsf_sampler_options *o, int32_t out[200])
{
    qsf_sampler *s = sampler_with(o);
    for (int i = 0; i < 200; i++) out[i] = qsf_sampler_pick(s, logits);
    qsf_sampler_free(s);
}

TEST(stages_that_are_not_named_are_off_and_the_default_order_is_the_default)
{
    uint32_t rng = 9;
    int32_t a[200], b[200];
    qsf_sampler_options all = no_stages(), some = no_stages();
    random_logits(&rng);
    all.temperature = 0.7f;
    all.top_k = 40;
    all.top_p = 0.9f;
    all.min_p = 0.02f;
    all.repeat_penalty = 1.4f;
    all.dry_multiplier = 3;
    all.xtc_probability = 0.5f;
    picks_of(&all, a);
    for (int way = 0; way < 2; way++) {
        qsf_sampler_options named = all;
        order_of(&named, way ? "edtmkpx" : "edstmkypx");        /* what is off may be missing */
        picks_of(&named, b);
        CHECK(!memcmp(a, b, sizeof a));
    }
    order_of(&all, "top_k;temperature");
    some.temperature = 0.7f;
    some.top_k = 40;
    picks_of(&some, a);
    qsf_sampler_options same = all;
    CHECK_EQ(qsf_sampler_select(&same), true);          /* k before t is an order of its own, */
    order_of(&all, "temperature;top_k");
    picks_of(&all, b);                                  /* and t before k is the default one */
    CHECK(!memcmp(a, b, sizeof a));
    order_of(&all, "top_k");                            /* a temperature that is not named is 1 */
    some.temperature = 1;
    all.temperature = 0;
    picks_of(&some, a);
    picks_of(&all, b);
    CHECK(!memcmp(a, b, sizeof a));
    order_of(&all, "top_k;temperature");                /* 0 takes the best, after penalties if named */
    qsf_sampler *s = sampler_with(&all);
    CHECK_EQ(qsf_sampler_pick(s, logits), 7);
    qsf_sampler_free(s);
    order_of(&all, "temperature;penalties;dry");
    s = sampler_with(&all);
    CHECK(qsf_sampler_pick(s, logits) != 7);
    qsf_sampler_free(s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(every_order_leaves_what_the_plain_definition_leaves);
    RUN(stages_have_llama_cpps_names_and_letters);
    RUN(stages_that_are_not_named_are_off_and_the_default_order_is_the_default);
    return test_end();
}
