/* How many guesses a turn makes, by times that the test sets: as many as pay, whatever makes them.
 * The answer stays the same.
 * SPDX-License-Identifier: MIT */
#include "qsf_schedule.h"
#include "turn_scene.h"

enum { LONG = 400, US = 1000 };

static uint64_t now;
static uint64_t told_now(void *user) { (void)user; return now; }

/* The machine: what passes and guesses take, and how many tokens of a guess are right. */
typedef struct machine {
    unsigned pass, row, guess;          /* us: of one row; of each further row; of a guessed token */
    size_t   right;
} machine;

/* A turn on it. */
typedef struct run {
    machine  m;
    int32_t  ids[PROMPT + LONG];        /* the prompt and the answer without guesses */
    int32_t  said[LONG];
    size_t   n_said, passes, rows;
    size_t   asked, last;               /* times that guesses were asked for; how many tokens, last */
} run;

static size_t make_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    run *r = user;
    (void)ids;
    r->asked++;
    r->last = cap;
    for (size_t i = 0; i < cap; i++) {
        const int32_t next = n + i < PROMPT + LONG ? r->ids[n + i] : 0;
        out[i] = i < r->m.right ? next : (next + 1) % 256;
    }
    now += (uint64_t)cap * r->m.guess * US;
    return cap;
}

static void make_guesses(qsf_guess *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list[i].found = make_guess(list[i].user, list[i].ids, list[i].n, list[i].out, list[i].cap);
}

static qsf_turn_state state_of(const scene *s)
{
    qsf_turn_state st = { .size = sizeof st };
    qsf_turn_get_state(s->turn, &st);
    return st;
}

/* The answer, with the machine's times. */
static void say(scene *s, run *r, const qsf_turn_options *o)
{
    qsf_turn_piece p = { .size = sizeof p };
    r->n_said = r->passes = r->rows = r->asked = r->last = 0;
    if (!scene_sampler(s, 1, 5)) return;
    CHECK_EQ(qsf_turn_begin(s->turn, r->ids, PROMPT, s->sampler, o), QSF_OK);
    while (!p.end) {
        qsf_status st = qsf_turn_next(s->turn, &p);
        if (st == QSF_OK && p.token >= 0) r->said[r->n_said++] = p.token;
        for (bool first = true; st == QSF_PENDING && !p.end; first = false) {
            st = qsf_turn_step(s->turn, NULL);
            CHECK(st == QSF_OK || (st == QSF_PENDING && (!first || s->b.c->batch.n)));
            if (!first) continue;
            now += (r->m.pass + (s->b.c->batch.n - 1) * (uint64_t)r->m.row) * US;
            r->passes++;
            r->rows += s->b.c->batch.n;
        }
        if (st && st != QSF_PENDING) break;
    }
    CHECK_EQ(p.end, QSF_TURN_MOST);
}

/* A prompt that repeats itself, and its answer without guesses. */
static bool begin(scene *s, run *r, machine m)
{
    qsf_context_options co = scene_context();
    co.n_ctx = PROMPT + LONG;
    if (!scene_begin(s) || !scene_open(s, &co)) return false;
    s->b.h.m.p.now_ns = told_now;
    *r = (run){ .m = m };
    for (int i = 0; i < PROMPT; i++) r->ids[i] = "abcde"[i % 5];
    const qsf_turn_options o = options(LONG);
    say(s, r, &o);
    memcpy(r->ids + PROMPT, r->said, sizeof r->said);
    return true;
}

/* Guesses on machine m; the answer is the same. */
static void say_guessing(scene *s, run *r, machine m, bool lookup)
{
    qsf_turn_options o = options(LONG);
    r->m = m;
    o.draft = QSF_DRAFT_MOST;
    if (!lookup) o.guess = make_guess, o.guess_user = r;
    say(s, r, &o);
    CHECK_EQ(r->n_said, LONG);
    CHECK(!memcmp(r->said, r->ids + PROMPT, sizeof r->said));
}

TEST(right_guesses_that_cost_little_are_long)
{
    scene s;
    run r;
    const machine streams = { 100, 1, 1, QSF_DRAFT_MOST };
    if (!begin(&s, &r, streams)) return;
    CHECK(r.passes >= LONG);
    say_guessing(&s, &r, streams, false);
    CHECK(r.passes < LONG / 8 + 16);
    scene_end(&s);
}

TEST(guesses_end_before_the_first_wrong_token)
{
    scene s;
    run r;
    const machine m = { 100, 10, 5, 2 };
    if (!begin(&s, &r, m)) return;
    say_guessing(&s, &r, m, false);
    CHECK_EQ(r.last, 2);
    say_guessing(&s, &r, m, false);         /* the next answer knows it from the beginning */
    CHECK(r.passes < LONG / 3 + 8);
    scene_end(&s);
}

TEST(guesses_that_lose_are_off_and_tried_again)
{
    const machine dear[] = { { 10, 10, 10, QSF_DRAFT_MOST }, { 100, 10, 5, 0 }, { 10, 1, 90, 3 } };
    for (size_t i = 0; i < QSF_ARRAY_LEN(dear); i++) {
        scene s;
        run r;
        if (!begin(&s, &r, dear[i])) return;
        say_guessing(&s, &r, dear[i], false);           /* learns it */
        say_guessing(&s, &r, dear[i], false);
        CHECK(r.asked >= LONG / 40 && r.asked <= LONG / 33 + 1);
        CHECK_EQ(r.last, 1);
        scene_end(&s);
    }
}

TEST(so_are_those_from_earlier_text)
{
    scene s;
    run r;
    const machine dear = { 10, 10, 0, 0 }, streams = { 100, 1, 0, 0 };
    if (!begin(&s, &r, dear)) return;
    say_guessing(&s, &r, dear, true);
    say_guessing(&s, &r, dear, true);
    const size_t few = r.rows - r.passes;
    CHECK(few <= PROMPT + LONG / 33 + 1);
    say_guessing(&s, &r, streams, true);
    say_guessing(&s, &r, streams, true);
    CHECK(r.rows - r.passes > few);
    scene_end(&s);
}

/* One step of a schedule, which has this turn alone; false: the turn has ended. */
static bool schedule_step(scene *s, run *r, qsf_schedule *q)
{
    qsf_row rows[16];
    qsf_turn_piece p = { .size = sizeof p };
    const qsf_turn_state before = state_of(s);
    const bool prompt = r->n_said == 0;
    uint32_t n;
    qsf_schedule_begin(q, rows, 1, !prompt);
    if (!prompt) qsf_schedule_next(q, 1);
    if (!prompt) qsf_schedule_guess(q, &s->turn, 1);
    n = prompt ? 0 : qsf_schedule_answer(q, s->turn, 0, false);
    qsf_schedule_prompts(q, prompt, false);
    if (prompt) n = qsf_schedule_prompt(q, s->turn, NULL, 0, (uint32_t)qsf_turn_wanted(s->turn));
    CHECK_EQ(qsf_compute(s->b.c, rows, n), QSF_OK);
    qsf_schedule_measure(q, (r->m.pass + (n - 1) * (uint64_t)r->m.row) * US, n);
    r->passes += !prompt;
    (void)qsf_turn_computed(s->turn, 0);
    while (qsf_turn_next(s->turn, &p) == QSF_OK && !p.end) r->said[r->n_said++] = p.token;
    const qsf_turn_state after = state_of(s);
    qsf_schedule_drafted(q, after.n_guessed - before.n_guessed, after.n_right - before.n_right);
    return !p.end;
}

/* Passes that an answer takes on machine m, if a schedule decides how many guesses there are. */
static size_t scheduled(scene *s, run *r, machine m, bool together)
{
    const qsf_schedule_options so = { .size = sizeof so, .n_seqs = 1, .n_logits = 1 + QSF_DRAFT_MOST,
                                      .draft = QSF_DRAFT_MOST };
    qsf_turn_options o = options(LONG);
    qsf_schedule *q = NULL;
    r->m = m;
    r->n_said = r->passes = r->asked = 0;
    o.draft = QSF_DRAFT_MOST;
    o.guess = make_guess;
    o.guess_user = r;
    if (together) o.guess_many = make_guesses;
    CHECK(scene_sampler(s, 1, 5));
    CHECK_EQ(qsf_turn_begin(s->turn, r->ids, PROMPT, s->sampler, &o), QSF_OK);
    if (!bench_ok(&s->b, qsf_schedule_new(s->b.c, &so, &q, &s->b.error))) return 0;
    while (schedule_step(s, r, q)) {}
    qsf_schedule_free(q);
    CHECK(r->n_said == LONG && !memcmp(r->said, r->ids + PROMPT, sizeof r->said));
    return r->passes;
}

TEST(a_schedule_counts_the_time_of_guesses)
{
    scene s;
    run r;
    const machine cheap = { 100, 1, 1, QSF_DRAFT_MOST }, dear = { 100, 1, 200, QSF_DRAFT_MOST };
    if (!begin(&s, &r, cheap)) return;
    for (int together = 0; together < 2; together++) {
        CHECK(scheduled(&s, &r, cheap, together) < LONG / 8 + 16);
        CHECK(scheduled(&s, &r, dear, together) > LONG - LONG / 16);
        CHECK(r.asked > LONG / 40 && r.asked < LONG / 16);      /* tried again now and then */
    }
    scene_end(&s);
}

int main(void)
{
    RUN(right_guesses_that_cost_little_are_long);
    RUN(guesses_end_before_the_first_wrong_token);
    RUN(guesses_that_lose_are_off_and_tried_again);
    RUN(so_are_those_from_earlier_text);
    RUN(a_schedule_counts_the_time_of_guesses);
    return test_end();
}
