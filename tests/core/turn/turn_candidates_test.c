/* Turns whose logits stay with the executor: the same tokens, texts and log probabilities from the
 * most likely tokens, and whole rows only for what needs them.
 * SPDX-License-Identifier: MIT */
#include "turn_scene.h"
#include "turn/sampler_own.h"

enum { KEPT = 64, ROWS = 16 };

/* An executor that computes on the CPU, and shows logits of the rows it is asked for only. */
static struct kept {
    qsf_executor_table does;
    float   *logits;                /* [ROWS][n_vocab] */
    qsf_candidates candidates[ROWS];
    uint32_t n_vocab, batches, rows, pending;
    bool     fails, none;           /* logits_row fails; only logits are given */
} kept;

static int by_logit_of_token(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const float *row = kept.logits;
    return row[i] != row[j] ? (row[i] < row[j]) - (row[i] > row[j]) : i - j;
}

/* Of the row that is in kept.logits first. */
static void kept_find(qsf_candidates *c)
{
    int32_t ids[512];
    double sum = 0;
    for (uint32_t i = 0; i < kept.n_vocab; i++) {
        ids[i] = (int32_t)i;
        sum += exp((double)kept.logits[i]);
    }
    qsort(ids, kept.n_vocab, sizeof *ids, by_logit_of_token);
    *c = (qsf_candidates){ .n = KEPT, .n_vocab = kept.n_vocab, .log_sum = (float)log(sum) };
    for (uint32_t i = 0; i < KEPT; i++) {
        c->token[i] = ids[i];
        c->logit[i] = kept.logits[ids[i]];
    }
}

static qsf_status kept_candidates(qsf_executor *x, const qsf_candidates **out, qsf_error *err)
{
    qsf_rows at;
    if (kept.none) return QSF_OK;
    if (kept.pending++ % 2 == 0) return QSF_PENDING;
    const qsf_status st = qsf_cpu_executor_table.rows_out(x, QSF_ROWS_LOGITS, &at, err);
    if (st) return st;
    CHECK(at.n <= ROWS && kept.n_vocab <= 512);
    for (uint32_t r = at.n; r-- > 0;) {                 /* the first one comes last */
        memcpy(kept.logits, at.x + r * at.ld, kept.n_vocab * sizeof *at.x);
        kept_find(&kept.candidates[r]);
        memcpy(kept.logits + r * (size_t)kept.n_vocab, kept.logits, kept.n_vocab * sizeof *at.x);
        for (uint32_t i = 0; i < kept.n_vocab; i++) at.x[r * at.ld + i] = NAN;
    }
    kept.batches++;
    *out = kept.candidates;
    return QSF_OK;
}

static qsf_status kept_row(qsf_executor *x, uint32_t i, const float **out, qsf_error *err)
{
    (void)x;
    kept.rows++;
    if (kept.fails) return qsf_fail(err, QSF_E_IO, "the device is gone");
    *out = kept.logits + i * (size_t)kept.n_vocab;
    return QSF_OK;
}

static bool kept_begin(scene *s)
{
    const qsf_context_options co = scene_context();
    if (!scene_begin(s) || !scene_open(s, &co)) return false;
    kept = (struct kept){ .does = qsf_cpu_executor_table, .n_vocab = s->b.n_vocab };
    kept.does.candidates = kept_candidates;
    kept.does.logits_row = kept_row;
    kept.logits = calloc(ROWS, kept.n_vocab * sizeof *kept.logits);
    return kept.logits != NULL;
}
static void kept_end(scene *s)
{
    scene_end(s);
    free(kept.logits);
}

/* ---- an answer ---- */

typedef struct said {
    heard h;
    qsf_logprob logprobs[N_CTX][1 + QSF_LOGPROBS_MOST];
    size_t n_logprobs[N_CTX];
} said;

/* Of a new context, on the CPU or with the executor above. */
static void say(scene *s, const qsf_sampler_options *so, const qsf_turn_options *o, int32_t raised, bool away,
                said *out)
{
    const qsf_context_options co = scene_context();
    qsf_turn_piece p = { .size = sizeof p };
    qsf_status st;
    memset(out, 0, sizeof *out);
    if (!scene_open(s, &co)) return;
    if (away) s->b.c->executor->does = &kept.does;
    qsf_sampler_free(s->sampler);
    s->sampler = NULL;
    if (!bench_ok(&s->b, qsf_sampler_new(s->b.m, so, &s->sampler, &s->b.error))) return;
    if (raised >= 0) CHECK_EQ(qsf_sampler_bias(s->sampler, raised, 3, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_begin(s->turn, s->prompt, PROMPT, s->sampler, o), QSF_OK);
    while (!p.end) {
        while ((st = qsf_turn_next(s->turn, &p)) == QSF_PENDING) (void)qsf_turn_step(s->turn, NULL);
        CHECK_EQ(st, QSF_OK);
        if (st) return;
        if (p.token >= 0) {
            out->n_logprobs[out->h.n] = p.n_logprobs;
            for (size_t i = 0; i < p.n_logprobs; i++) out->logprobs[out->h.n][i] = p.logprobs[i];
        }
        hear(&out->h, &p);
    }
}

static void check_same_said(const said *a, const said *b)
{
    CHECK_EQ(a->h.n, b->h.n);
    CHECK(!memcmp(a->h.ids, b->h.ids, a->h.n * sizeof *a->h.ids));
    CHECK_STR(a->h.text, b->h.text);
    CHECK_EQ(a->h.end, b->h.end);
    for (size_t i = 0; i < a->h.n; i++) {
        CHECK_EQ(a->n_logprobs[i], b->n_logprobs[i]);
        for (size_t k = 0; k < a->n_logprobs[i]; k++) {
            CHECK_EQ(a->logprobs[i][k].token, b->logprobs[i][k].token);
            CHECK_NEAR(a->logprobs[i][k].logprob, b->logprobs[i][k].logprob, 1e-5);
        }
    }
}

/* ---- settings ---- */

/* Whole rows: of every token, of none; candidates: asked for. */
enum { EVERY = 1, NEVER = 2, ASKED = 4 };

static const char GRAMMAR[] = "root ::= [a-z ]+ \".\"";

static const struct setting {
    const char *name;
    float temperature, repeat, top_p, min_p;
    uint32_t top_k;
    int32_t logprobs, raised, draft, min_tokens;
    bool grammar, after, dry, end;
    int use;
} settings[] = {
    { "default", .temperature = 1, .repeat = 1, .top_p = 0.9f, .top_k = 40, .use = NEVER | ASKED },
    { "greedy", .repeat = 1, .use = NEVER | ASKED },
    { "penalties", .temperature = 1, .repeat = 1.3f, .top_p = 1, .top_k = 30, .use = ASKED },
    { "greedy with penalties", .repeat = 1.5f, .use = ASKED },
    { "log probabilities", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 20, .logprobs = 7,
      .use = NEVER | ASKED },
    { "many log probabilities", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 20, .logprobs = 90,
      .use = EVERY | ASKED },
    { "a raised token", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 40, .raised = 200,
      .use = ASKED },
    { "guesses", .temperature = 0.5f, .repeat = 1, .top_p = 1, .top_k = 40, .draft = 4,
      .use = NEVER | ASKED },
    { "ends", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 40, .min_tokens = 9, .end = true,
      .use = NEVER | ASKED },
    { "a grammar", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 40, .grammar = true, .use = NEVER },
    { "a grammar, greedy", .repeat = 1, .grammar = true, .use = ASKED },
    { "a grammar later", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 40, .grammar = true,
      .after = true, .use = ASKED },
    { "min-p", .temperature = 0.3f, .repeat = 1, .top_p = 1, .min_p = 0.2f, .use = ASKED },
    { "top-p", .temperature = 1, .repeat = 1, .top_p = 0.9f, .use = NEVER },
    { "dry", .temperature = 1, .repeat = 1, .top_p = 1, .top_k = 40, .dry = true, .use = NEVER },
};

static void check_setting(scene *s, const struct setting *a)
{
    static const char *const after[] = { "e" };
    static said want, have;
    qsf_sampler_options so;
    qsf_grammar *g = NULL;
    qsf_turn_options o = options(MOST);
    qsf_sampler_defaults(&so);
    so.temperature = a->temperature;
    so.repeat_penalty = a->repeat;
    so.top_p = a->top_p;
    so.min_p = a->min_p;
    so.top_k = a->top_k;
    so.dry_multiplier = a->dry;
    o.logprobs = a->logprobs ? a->logprobs : -1;
    o.draft = (uint32_t)a->draft;
    o.draft_fixed = true;
    o.min_tokens = a->min_tokens;
    o.ignore_end = !a->end;
    if (a->grammar)
        CHECK_EQ(qsf_grammar_new(s->b.m, QSF_GRAMMAR_GBNF, GRAMMAR, sizeof GRAMMAR - 1, NULL, &g, NULL),
                 QSF_OK);
    o.grammar = g;
    o.grammar_after = a->after ? after : NULL;
    o.n_grammar_after = a->after;
    kept.batches = kept.rows = 0;
    for (uint64_t seed = 1; seed < 5; seed++) {
        so.seed = seed;
        say(s, &so, &o, a->raised ? a->raised : -1, false, &want);
        say(s, &so, &o, a->raised ? a->raised : -1, true, &have);
        check_same_said(&want, &have);
        if (a->use & EVERY) CHECK(kept.rows >= have.h.n * seed);
    }
    const int asked = kept.batches ? ASKED : 0, never = kept.rows ? 0 : NEVER;
    if (asked != (a->use & ASKED) || ((a->use & NEVER) && !never))
        printf("      %s: %u batches, %u rows\n", a->name, (unsigned)kept.batches, (unsigned)kept.rows);
    CHECK_EQ(asked, a->use & ASKED);
    CHECK(!(a->use & NEVER) || never);
    qsf_turn_cancel(s->turn);
    qsf_grammar_free(g);
}

TEST(candidates_give_the_same_answers)
{
    scene s;
    if (!kept_begin(&s)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(settings); i++) check_setting(&s, &settings[i]);
    kept_end(&s);
}

/* What reads logits itself has them after a batch of turns as well. */
TEST(logits_are_there_for_others)
{
    scene s;
    qsf_sampler_options so;
    const qsf_turn_options o = options(1);
    said h;
    float want[512];
    if (!kept_begin(&s)) return;
    qsf_sampler_defaults(&so);
    so.seed = 1;
    say(&s, &so, &o, -1, false, &h);
    memcpy(want, qsf_logits(s.b.c, 0), s.b.n_vocab * sizeof *want);
    say(&s, &so, &o, -1, true, &h);
    CHECK_EQ(kept.rows, 0);
    CHECK(!memcmp(want, qsf_logits(s.b.c, 0), s.b.n_vocab * sizeof *want));
    CHECK(!qsf_logits(s.b.c, 1));
    kept.fails = true;
    CHECK(!qsf_logits(s.b.c, 0));
    CHECK_STR(qsf_last_error(s.b.c), "the device is gone");
    kept_end(&s);
}

/* A program that feeds tokens asks for no candidates; nor does an executor have them always. */
TEST(others_get_logits_at_once)
{
    scene s;
    said want, have;
    qsf_sampler_options so;
    const qsf_turn_options o = options(5);
    const float *logits;
    if (!kept_begin(&s)) return;
    qsf_sampler_defaults(&so);
    so.seed = 3;
    say(&s, &so, &o, -1, false, &want);
    kept.none = true;
    say(&s, &so, &o, -1, true, &have);
    check_same_said(&want, &have);
    CHECK_EQ(qsf_feed(s.b.c, 0, s.prompt, 3, &logits), QSF_OK);
    CHECK(logits && logits[0] == logits[0]);
    CHECK_EQ(kept.batches, 0);
    CHECK_EQ(kept.rows, 0);
    kept_end(&s);
}

TEST(a_row_that_cannot_be_had_ends_the_turn)
{
    scene s;
    qsf_sampler_options so;
    qsf_turn_options o = options(MOST);
    said h;
    if (!kept_begin(&s)) return;
    qsf_sampler_defaults(&so);
    so.temperature = 1;
    so.top_k = 64;
    so.seed = 1;
    kept.fails = true;
    say(&s, &so, &o, 200, true, &h);            /* raised: a candidate or not */
    say(&s, &so, &o, 201, true, &h);
    say(&s, &so, &o, 202, true, &h);
    CHECK_EQ(h.h.end, QSF_TURN_FAILED);
    CHECK_STR(qsf_turn_error(s.turn)->text, "the device is gone");
    o.logprobs = 90;                            /* the token is there, its probabilities are not */
    say(&s, &so, &o, -1, true, &h);
    CHECK_EQ(h.h.n, MOST);
    CHECK_EQ(h.n_logprobs[0], 0);
    kept_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(candidates_give_the_same_answers);
    RUN(logits_are_there_for_others);
    RUN(others_get_logits_at_once);
    RUN(a_row_that_cannot_be_had_ends_the_turn);
    return test_end();
}
