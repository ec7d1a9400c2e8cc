/* Batches that a device computes before the host has their tokens: answers are the same as without.
 * SPDX-License-Identifier: MIT
 *
 * QSF_WEBGPU_LIB: a webgpu.h library, with whatever adapter it finds.  QSF_TEST_LONG: a device is
 * lost at each call, and twelve layers, for the time that the host needs from a result to the next
 * submit. */
#include "broken_device.h"
#include "device/device_life.h"
#include "engine_bench.h"
#include "memfile.h"

/* Answers of more than six tokens end in the second block. */
enum { MOST = 60, PROMPT = 26, ROWS = 4 /* of a batch: few pipelines */ };

static const int32_t prompt[PROMPT] = {
    70, 103, 97, 200, 5, 31, 256, 11, 88, 140, 9, 64, 33, 7, 121, 119, 250, 41, 3, 68, 90, 15, 177,
    54, 8, 101,
};

/* How a turn runs, and what comes of it. */
typedef struct answer {
    float    temperature, min_p, repeat, frequency;
    uint32_t window;                    /* of penalties; 0: the default */
    uint32_t top_k;
    int      logprobs;                  /* of the most likely tokens; -1: none */
    const char *stop;
    uint32_t draft;                     /* tokens that are looked up, at most */
    uint32_t n, cancel_at;              /* tokens at most; cancelled after that many, 0: never, */
    bool     begun;                     /* when the next batch has begun */
    bool     callback;
} answer;
typedef struct said {
    int32_t ids[MOST];
    float   logprobs[MOST];             /* sums */
    char    text[1024];
    uint32_t n, length;                 /* length: of the sequence afterwards */
    qsf_turn_end end;
} said;

static tiny_options ahead_model(void)
{
    tiny_options o = tiny_defaults();
    o.hp.n_layers = getenv("QSF_TEST_LONG") ? 12 : 2;
    return o;
}

static bool ahead_begin(bench *b, uint32_t fail_at)
{
    const tiny_options t = ahead_model();
    qsf_context_options o = bench_options();
    o.n_seqs = 3;
    o.n_batch = ROWS;
    o.n_logits = 4;
    broken_reset(fail_at, QSF_E_IO);
    if (!bench_write(b, &t) || !bench_open(b) || !bench_context(b, &o)) return false;
    const qsf_status st = qsf_context_use_device(b->c, &broken.list, 0, UINT32_MAX, 0);
    if (st) printf("      %s\n", qsf_last_error(b->c));
    CHECK_EQ(st, QSF_OK);
    return !st;
}

static device_executor *ahead_executor(const bench *b) { return (device_executor *)(void *)b->c->executor; }

/* What is done before tokens are known: nothing, commands, or batches. */
typedef enum ahead_kind { NOTHING, COMMANDS, BATCHES } ahead_kind;

static void ahead_set(const bench *b, ahead_kind k)
{
    device_executor *e = ahead_executor(b);
    e->ahead.off = k < BATCHES;
    e->ready.off = k < COMMANDS;
    qsf_device_ready_drop(e);
    broken.host_ns = 0;
    e->ahead.n_flown = e->ahead.n_taken = e->ready.n_made = e->ready.n_taken = 0;
}

static void ahead_end(bench *b)
{
    bench_end(b);
    CHECK_EQ(broken.open, 0);
    CHECK_EQ(broken.live, 0);
}

static void leave_logits(void *user, float *logits, size_t n) { (void)user, (void)logits, (void)n; }

static qsf_sampler *ahead_sampler(bench *b, const answer *a)
{
    qsf_sampler_options so;
    qsf_sampler *s = NULL;
    qsf_sampler_defaults(&so);
    so.seed = 77;
    so.temperature = a->temperature;
    so.min_p = a->min_p;
    if (a->top_k) so.top_k = a->top_k;
    if (a->repeat > 0) so.repeat_penalty = a->repeat;
    so.frequency_penalty = a->frequency;
    if (a->window) so.repeat_last_n = a->window;
    CHECK_EQ(qsf_sampler_new(b->m, &so, &s, &b->error), QSF_OK);
    if (a->callback) qsf_sampler_callback(s, leave_logits, NULL);
    return s;
}

static bool turns_wrong;

/* A turn of a sequence; lost_at: after that many tokens the device is lost, or gives NaN. */
static void say(bench *b, qsf_turn *t, const answer *a, said *out, uint32_t lost_at)
{
    qsf_turn_piece p = { .size = sizeof p };
    qsf_turn_options o;
    qsf_sampler *s = ahead_sampler(b, a);
    const size_t len = a->stop ? strlen(a->stop) : 0;
    size_t at = 0;
    memset(out, 0, sizeof *out);
    qsf_turn_defaults(&o);
    o.max_tokens = a->n;
    o.ignore_end = true;
    o.logprobs = a->logprobs;
    o.draft = a->draft;
    o.stops = &a->stop;
    o.n_stops = a->stop != NULL;
    o.stop_lengths = &len;
    CHECK_EQ(qsf_turn_begin(t, prompt, PROMPT, s, &o), QSF_OK);
    while (!p.end) {
        qsf_status st;
        while ((st = qsf_turn_next(t, &p)) == QSF_PENDING)
            if ((st = qsf_turn_step(t, NULL)) && st != QSF_PENDING) break;
        CHECK_EQ(st, QSF_OK);
        if (st) break;
        if (p.token >= 0) out->ids[out->n] = p.token;
        for (size_t i = 0; i < p.n_logprobs; i++) out->logprobs[out->n] += p.logprobs[i].logprob;
        out->n += p.token >= 0;
        if (at + p.len < sizeof out->text) memcpy(out->text + at, p.text, p.len), at += p.len;
        if (lost_at && out->n == lost_at) *(turns_wrong ? &broken.wrong : &broken.lost) = true;
        if (a->cancel_at && out->n == a->cancel_at && !p.end) {
            if (a->begun) (void)qsf_turn_step(t, NULL);
            qsf_turn_cancel(t);
        }
    }
    out->end = p.end;
    out->length = qsf_seq_length(b->c, 0);
    qsf_sampler_free(s);
}

static bool same(const said *a, const said *b)
{
    return a->n == b->n && a->end == b->end && a->length == b->length && !strcmp(a->text, b->text)
        && !memcmp(a->ids, b->ids, sizeof a->ids) && !memcmp(a->logprobs, b->logprobs, sizeof a->logprobs);
}

#define NEEDS_DEVICE if (!broken.real) LEFT_OUT("a library of WebGPU (QSF_WEBGPU_LIB)")

static said with[2], without[2];
static bench one;               /* of all answers with a device that is right */
static qsf_turn *turn;          /* of its sequence 0 */
static uint64_t host_ns[2];     /* without and with */

static void end_turn(void)
{
    qsf_turn_free(turn);
    turn = NULL;
}
static void end_one(void)
{
    end_turn();
    if (one.c) ahead_end(&one);
    one.c = NULL;
}

/* Answers one after the other, with what is done ahead and without. */
static void answers(const answer *a, int n, ahead_kind how)
{
    static const answer first = { .n = 1, .logprobs = -1 };     /* whose prompt the others keep */
    if (!one.c && !ahead_begin(&one, 0)) exit(1);
    if (!turn) {
        CHECK_EQ(qsf_turn_new(one.c, 0, &turn, &one.error), QSF_OK);
        say(&one, turn, &first, &with[0], 0);
    }
    for (int k = 0; k < 2; k++) {
        ahead_set(&one, k ? how : NOTHING);
        for (int i = 0; i < n; i++) say(&one, turn, a, k ? &with[i] : &without[i], 0);
        host_ns[k] = broken.host_ns;
        if (k) continue;
        CHECK_EQ(ahead_executor(&one)->ahead.n_flown, 0);
        CHECK_EQ(ahead_executor(&one)->ready.n_made, 0);
    }
    for (int i = 0; i < n; i++) CHECK(same(&with[i], &without[i]));
}

/* Whether all batches of an answer were ahead but that of the prompt's last token, and one that
 * begins a block, and were what the sampler wanted; one draw may be at a border. */
static void check_ahead(const answer *a)
{
    const qsf_device_ahead *x = &ahead_executor(&one)->ahead;
    CHECK_EQ(with[0].n, a->n);
    printf("      %u of %u batches ahead\n", (unsigned)x->n_taken, (unsigned)x->n_flown);
    CHECK_EQ(x->n_flown, a->n - 1 - (PROMPT + a->n > QSF_KV_BLOCK));
    CHECK(x->n_taken + (a->temperature > 0) >= x->n_flown);
}

TEST(answers_are_the_same_as_without)
{
    NEEDS_DEVICE;
    static const answer list[] = {
        { .n = 5, .logprobs = -1, .temperature = 0.8f, .min_p = 0.05f },
        { .n = 5, .logprobs = 3, .temperature = 1.5f, .top_k = 60 },
        { .n = 4, .logprobs = QSF_LOGPROBS_MOST },      /* whole rows of logits */
        { .n = 9, .logprobs = -1 },                     /* from one block into the next */
        { .n = 9, .logprobs = 3, .repeat = 9, .window = 1 },    /* no token twice in succession */
        { .n = 6, .logprobs = -1, .temperature = 0.3f, .repeat = 1.1f, .frequency = 3, .window = 3 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(list); i++) {
        answers(&list[i], 1, BATCHES);
        check_ahead(&list[i]);
    }
}

/* Batches with guesses of the host are others than the device has computed. */
TEST(guesses_take_turns_with_batches_ahead)
{
    NEEDS_DEVICE;
    const answer a = { .n = 10, .logprobs = -1, .draft = 3 };
    qsf_turn_state state = { .size = sizeof state };
    answers(&a, 1, BATCHES);
    const qsf_device_ahead *x = &ahead_executor(&one)->ahead;
    CHECK_EQ(qsf_turn_get_state(turn, &state), QSF_OK);
    printf("      %u of %u batches ahead, %u guesses\n", (unsigned)x->n_taken, (unsigned)x->n_flown,
           (unsigned)state.n_guessed);
    CHECK(x->n_taken > 0 && state.n_guessed > 0);
}

/* Samplers that the device does not know; their commands are encoded ahead. */
TEST(other_samplers_compute_no_batch_ahead)
{
    NEEDS_DEVICE;
    static const answer list[] = {
        { .n = 4, .logprobs = -1, .repeat = 1.3f, .window = QSF_CHOICE_LAST + 1 },
        { .n = 9, .logprobs = -1, .callback = true },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(list); i++) {
        answers(&list[i], 1, BATCHES);
        printf("      %.0f us of CPU time from results to submits, %.0f without; %u lists of %u dispatches\n",
               (double)host_ns[1] / 1e3, (double)host_ns[0] / 1e3,
               (unsigned)ahead_executor(&one)->ready.n_taken, (unsigned)ahead_executor(&one)->ready.n_list);
        CHECK_EQ(ahead_executor(&one)->ahead.n_flown, 0);
        CHECK_EQ(ahead_executor(&one)->ready.n_taken, list[i].n - 1 - (PROMPT + list[i].n > QSF_KV_BLOCK));
    }
}

/* Sampling that changes between candidates and whole rows has another list of dispatches. */
TEST(commands_of_another_batch_are_dropped)
{
    NEEDS_DEVICE;
    static const answer few = { .n = 4, .logprobs = -1 }, all = { .n = 4, .logprobs = -1, .callback = true };
    qsf_row rows[2] = { { 1, 5, true }, { 2, 9, true } };
    const float *logits;
    int32_t id = 3;
    answers(&few, 1, COMMANDS);
    answers(&all, 1, COMMANDS);
    answers(&few, 1, COMMANDS);
    const qsf_device_ready *x = &ahead_executor(&one)->ready;
    CHECK(x->n_taken > 0);
    const uint64_t taken = x->n_taken;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(qsf_feed(one.c, 1, &id, 1, &logits), QSF_OK);
        CHECK_EQ(qsf_compute(one.c, rows, 2), QSF_OK);
    }
    CHECK_EQ(x->n_taken, taken);
    for (int s = 1; s < 3; s++) CHECK_EQ(qsf_seq_truncate(one.c, s, 0), QSF_OK);
}

/* The batch after the last token is dropped, and the next answer begins as if it had not been. */
TEST(answers_end_early)
{
    NEEDS_DEVICE;
    const qsf_device_ahead *x;
    answer a = { .n = 6, .logprobs = -1 };
    answers(&a, 1, BATCHES);
    x = &ahead_executor(&one)->ahead;
    const size_t at = strlen(with[0].text) / 2;
    char stop[] = { with[0].text[at], with[0].text[at + 1], 0 };        /* from the middle */
    a.stop = stop;
    answers(&a, 2, BATCHES);
    CHECK_EQ(with[0].end, QSF_TURN_STOP_TEXT);
    CHECK(with[0].n < 6 && x->n_taken < x->n_flown);
    a.stop = NULL;
    a.cancel_at = 3;
    for (int begun = 0; begun < 2; begun++) {
        a.begun = begun;
        answers(&a, 2, BATCHES);
        CHECK_EQ(with[0].end, QSF_TURN_CANCELLED);
        CHECK_EQ(with[0].n, 3);
    }
}

/* ---- several sequences ---- */

enum { TURNS = 3 };

/* Turns of different lengths in common batches, until all have ended. */
static void say_together(bench *b, const answer list[TURNS], said out[TURNS])
{
    qsf_turn *t[TURNS] = { NULL };
    qsf_sampler *s[TURNS];
    uint32_t going = TURNS;
    for (uint32_t i = 0; i < TURNS; i++) {
        qsf_turn_options o;
        qsf_turn_defaults(&o);
        o.max_tokens = list[i].n;
        o.ignore_end = true;
        s[i] = ahead_sampler(b, &list[i]);
        memset(&out[i], 0, sizeof out[i]);
        CHECK_EQ(qsf_turn_new(b->c, (qsf_seq)i, &t[i], &b->error), QSF_OK);
        CHECK_EQ(qsf_turn_begin(t[i], prompt, PROMPT - i, s[i], &o), QSF_OK);
    }
    while (going) {
        qsf_row rows[ROWS];
        size_t n = 0, first = 0;
        for (uint32_t i = 0; i < TURNS; i++) n += qsf_turn_rows(t[i], rows + n, ROWS - n);
        if (n) CHECK_EQ(qsf_compute(b->c, rows, n), QSF_OK);
        for (uint32_t i = 0; i < TURNS; i++) first += qsf_turn_computed(t[i], first);
        going = 0;
        for (uint32_t i = 0; i < TURNS; i++) {
            qsf_turn_piece p = { .size = sizeof p };
            while (!out[i].end && qsf_turn_next(t[i], &p) == QSF_OK) {
                if (p.token >= 0) out[i].ids[out[i].n++] = p.token;
                out[i].end = p.end;
            }
            going += !out[i].end;
        }
    }
    for (uint32_t i = 0; i < TURNS; i++) {
        out[i].length = qsf_seq_length(b->c, (qsf_seq)i);
        qsf_turn_free(t[i]);
        qsf_sampler_free(s[i]);
    }
}

TEST(several_answers_at_once_are_the_same)
{
    NEEDS_DEVICE;
    static const answer list[TURNS] = {
        { .n = 9, .logprobs = -1 }, { .n = 4, .logprobs = -1, .temperature = 0.9f, .min_p = 0.02f },
        { .n = 7, .logprobs = -1 },
    };
    static said out[3][TURNS];
    const device_executor *e = ahead_executor(&one);
    for (ahead_kind k = NOTHING; k <= BATCHES; k++) {
        ahead_set(&one, k);
        for (int i = 0; i < TURNS; i++) CHECK_EQ(qsf_seq_truncate(one.c, i, 0), QSF_OK);
        say_together(&one, list, out[k]);
        CHECK(k == BATCHES ? e->ahead.n_taken >= 2 : e->ahead.n_flown == 0);
        CHECK(k == NOTHING ? e->ready.n_made == 0 : k == BATCHES || e->ready.n_taken >= 2);
        for (int i = 0; i < TURNS; i++) {
            CHECK_EQ(out[k][i].n, list[i].n);
            CHECK(same(&out[0][i], &out[k][i]));
        }
    }
}

/* ---- sessions ---- */

/* What a session says when the CPU continues it. */
static float *session_logits(const memfile_bytes *s)
{
    const tiny_options t = ahead_model();
    const qsf_context_options o = bench_options();
    int32_t ids[MOST + PROMPT];
    const float *logits;
    memfile f;
    bench b;
    size_t n;
    if (!bench_write(&b, &t) || !bench_open(&b) || !bench_context(&b, &o)) exit(1);
    float *out = bench_floats(&b, 1);
    memfile_init(&f, s->bytes, s->len);
    CHECK_EQ(qsf_session_load(b.c, 0, &f.file, ids, QSF_ARRAY_LEN(ids), &n, &b.error), QSF_OK);
    CHECK_EQ(qsf_feed(b.c, 0, prompt, 3, &logits), QSF_OK);
    memcpy(out, logits, b.n_vocab * sizeof *out);
    bench_end(&b);
    return out;
}

TEST(sessions_saved_after_an_answer_are_the_same)
{
    NEEDS_DEVICE;
    const answer a = { .n = 9, .logprobs = -1, .cancel_at = 3 };
    static memfile_bytes saved[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        qsf_turn *t = NULL;
        size_t n;
        ahead_set(&one, ahead ? BATCHES : NOTHING);
        CHECK_EQ(qsf_seq_truncate(one.c, 0, 0), QSF_OK);
        CHECK_EQ(qsf_turn_new(one.c, 0, &t, &one.error), QSF_OK);
        say(&one, t, &a, &with[ahead], 0);
        const int32_t *ids = qsf_turn_tokens(t, &n);
        saved[ahead].len = 0;
        CHECK_EQ(qsf_session_save(one.c, 0, ids, n, memfile_write, &saved[ahead], &one.error), QSF_OK);
        const qsf_device_ahead *x = &ahead_executor(&one)->ahead;
        CHECK(!ahead || x->n_flown > x->n_taken);
        qsf_turn_free(t);
    }
    CHECK_EQ(saved[0].len, saved[1].len);
    float *x = session_logits(&saved[0]), *y = session_logits(&saved[1]);
    CHECK(!memcmp(x, y, 288 * sizeof *x));
    free(x), free(y);
}

/* ---- failures ---- */

enum { SHORT = 3 };

/* An answer of a device that is lost after lost_at tokens (SHORT: not at all), or at a call. */
static uint32_t say_lost(ahead_kind how, uint32_t lost_at, uint32_t fail_at, said *out)
{
    const answer a = { .n = SHORT, .logprobs = -1 };
    qsf_turn *t = NULL;
    bench b;
    if (!ahead_begin(&b, fail_at)) return 0;
    ahead_set(&b, how);
    const uint32_t calls = broken.calls;
    CHECK_EQ(qsf_turn_new(b.c, 0, &t, &b.error), QSF_OK);
    if (!lost_at) broken.lost = true;
    say(&b, t, &a, out, lost_at);
    qsf_turn_free(t);
    ahead_end(&b);
    return calls;
}

/* The answers of a device that is lost after i tokens, without anything ahead. */
static const said *lost_answers(void)
{
    static said right[SHORT + 1];
    for (uint32_t i = 0; i <= SHORT && !right[i].n; i++) (void)say_lost(NOTHING, i, 0, &right[i]);
    return right;
}

static void lose_between_batches(uint32_t each)
{
    const said *right = lost_answers();
    static said got;
    for (uint32_t i = 1; i < SHORT; i++) {
        (void)say_lost(i % 2 ? BATCHES : COMMANDS, i, 0, &got);
        CHECK(same(&right[i], &got));
    }
    turns_wrong = true;         /* the batch is computed again, alone, before the device is given up */
    (void)say_lost(BATCHES, 1, 0, &got);
    CHECK(same(&right[1], &got));
    turns_wrong = false;
    const uint32_t begin = say_lost(BATCHES, SHORT, 0, &got), end = broken.calls;
    printf("      %u calls\n", (unsigned)(end - begin));
    for (uint32_t at = begin + 1; at + 2 < end; at += getenv("QSF_TEST_LONG") ? 1 : each) {
        bool found = false;
        (void)say_lost(BATCHES, SHORT, at, &got);
        for (uint32_t i = 0; i <= SHORT; i++) found |= same(&right[i], &got);
        CHECK(found);
    }
}

TEST(a_device_lost_between_two_batches_changes_no_token)
{
    NEEDS_DEVICE;
    lose_between_batches(97);
}

/* ---- hosts that must not block ---- */

static void must_not_block(bool begins)
{
    static qsf_status (*wait)(void *, qsf_device_id, uint64_t, qsf_error *);
    if (begins) wait = broken.d.wait;
    broken.d.wait = begins ? NULL : wait;
    broken.late = begins;
}

/* They read whole rows of logits, and the tokens of the guess. */
TEST(hosts_that_must_not_block_compute_ahead)
{
    NEEDS_DEVICE;
    static const answer list[] = {
        { .n = 9, .logprobs = 3 },
        { .n = 6, .logprobs = -1, .temperature = 0.3f, .repeat = 1.1f, .frequency = 3, .window = 3 },
    };
    answer early = { .n = 6, .logprobs = -1, .cancel_at = 3 };
    must_not_block(true);
    for (size_t i = 0; i < QSF_ARRAY_LEN(list); i++) {
        answers(&list[i], 1, BATCHES);
        CHECK(!ahead_executor(&one)->few);
        check_ahead(&list[i]);
    }
    for (int begun = 0; begun < 2; begun++) {
        const qsf_device_ahead *x = &ahead_executor(&one)->ahead;
        early.begun = begun;
        answers(&early, 2, BATCHES);
        CHECK_EQ(with[0].end, QSF_TURN_CANCELLED);
        CHECK_EQ(x->n_flown - x->n_taken, begun ? 0 : 2);      /* at most one is wasted each time */
    }
    answers(&(answer){ .n = 4, .logprobs = -1, .callback = true }, 1, BATCHES);
    CHECK_EQ(ahead_executor(&one)->ahead.n_flown, 0);
    CHECK(ahead_executor(&one)->ready.n_taken > 0);
    end_one();
    must_not_block(false);
}

TEST(a_device_lost_on_a_host_that_must_not_block_changes_no_token)
{
    NEEDS_DEVICE;
    must_not_block(true);
    lose_between_batches(211);
    must_not_block(false);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    broken_begin();
    RUN(answers_are_the_same_as_without);
    RUN(guesses_take_turns_with_batches_ahead);
    RUN(other_samplers_compute_no_batch_ahead);
    RUN(commands_of_another_batch_are_dropped);
    RUN(answers_end_early);
    end_turn();
    RUN(several_answers_at_once_are_the_same);
    RUN(sessions_saved_after_an_answer_are_the_same);
    end_one();
    RUN(hosts_that_must_not_block_compute_ahead);
    end_one();
    RUN(a_device_lost_between_two_batches_changes_no_token);
    RUN(a_device_lost_on_a_host_that_must_not_block_changes_no_token);
    broken_end();
    return test_end();
}
