/* Turns: what they give, what they keep, where they end, alone and together.
 * SPDX-License-Identifier: MIT */
#include "turn_scene.h"

static void check_same(const heard *a, const heard *b)
{
    CHECK_EQ(a->n, b->n);
    CHECK(!memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
    CHECK_STR(a->text, b->text);
    CHECK_EQ(a->end, b->end);
}

TEST(a_turn_gives_what_feeding_and_picking_gives)
{
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    for (int way = 0; way < 3; way++) {
        const qsf_turn_options o = options(MOST);
        char text[TEXT];
        size_t len = 0;
        const float *logits;
        qsf_utf8_tail tail = { 0 };
        if (!scene_sampler(&s, way ? 1.5f : 0, 2 + (uint64_t)way)) return;
        for (int i = 0; i < PROMPT; i++) qsf_sampler_accept(s.sampler, s.prompt[i]);
        CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
        CHECK_EQ(qsf_feed(s.b.c, 0, s.prompt, PROMPT, &logits), QSF_OK);
        int32_t ids[MOST];
        for (int i = 0; i < MOST; i++) {
            const char *piece;
            ids[i] = qsf_sampler_pick(s.sampler, logits);
            qsf_sampler_accept(s.sampler, ids[i]);
            const size_t n = qsf_token_piece(s.b.m, ids[i], false, &piece);
            len += qsf_utf8_push(&tail, piece, n, text + len);
            CHECK_EQ(qsf_feed(s.b.c, 0, &ids[i], 1, &logits), QSF_OK);
        }
        CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_EQ(h.n, MOST);
        CHECK(!memcmp(h.ids, ids, sizeof ids));
        CHECK(h.len == len && !memcmp(h.text, text, len));
        CHECK_EQ(h.cut, tail.len > 0);
        CHECK_EQ(h.end, QSF_TURN_MOST);
        CHECK_EQ(qsf_seq_length(s.b.c, 0), PROMPT + MOST - 1);   /* not the last one */
    }
    scene_end(&s);
}

TEST(what_a_prompt_has_in_common_with_the_sequence_is_kept)
{
    scene s;
    heard first, again;
    if (!scene_begin(&s)) return;
    const qsf_turn_options o = options(6);
    answer(&s, s.prompt, PROMPT, &o, &first);
    CHECK(state(&s).n_prompt == PROMPT && state(&s).n_done == PROMPT);
    CHECK(state(&s).n_kept == 0 && state(&s).n_tokens == 6);

    answer(&s, s.prompt, PROMPT, &o, &again);               /* the same: one token's logits are needed */
    CHECK_EQ(state(&s).n_kept, PROMPT - 1);
    check_same(&again, &first);

    int32_t longer[N_CTX];                                  /* the answer is part of the next prompt */
    memcpy(longer, s.prompt, PROMPT * sizeof *longer);
    memcpy(longer + PROMPT, first.ids, 6 * sizeof *longer);
    longer[PROMPT + 6] = 'x';
    answer(&s, longer, PROMPT + 7, &o, &first);
    CHECK_EQ(state(&s).n_kept, PROMPT + 5);
    size_t n;
    const int32_t *ids = qsf_turn_tokens(s.turn, &n);
    CHECK(n == PROMPT + 12 && n == qsf_seq_length(s.b.c, 0));
    CHECK(!memcmp(ids, longer, (PROMPT + 7) * sizeof *ids));
    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);        /* made shorter by the caller */
    answer(&s, longer, PROMPT + 7, &o, &again);
    CHECK_EQ(state(&s).n_kept, 0);
    check_same(&again, &first);
    longer[3] ^= 1;                                         /* another one early on */
    answer(&s, longer, PROMPT + 7, &o, &again);
    CHECK_EQ(state(&s).n_kept, 3);

    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);        /* fed by the caller */
    CHECK_EQ(qsf_feed(s.b.c, 0, s.prompt, 12, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_hold(s.turn, s.prompt, 12), QSF_OK);
    answer(&s, s.prompt, PROMPT, &o, &again);
    CHECK_EQ(state(&s).n_kept, 12);
    scene_end(&s);
}

TEST(a_window_that_has_dropped_the_prefix_begins_anew)
{
    scene s;
    heard first, again;
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.kv_window = 32;
    if (!scene_open(&s, &co)) return;
    const qsf_turn_options o = options(100);                /* far beyond n_ctx: the list of tokens grows */
    answer(&s, s.prompt, 2 * PROMPT, &o, &first);
    CHECK(first.n == 100 && first.end == QSF_TURN_MOST);
    answer(&s, s.prompt, 2 * PROMPT, &o, &again);
    CHECK_EQ(state(&s).n_kept, 0);
    check_same(&again, &first);
    scene_end(&s);
}

TEST(no_token_computes_the_prompt_alone)
{
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    const qsf_turn_options o = options(0);
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK(h.n == 0 && h.pieces == 1 && h.end == QSF_TURN_MOST && qsf_seq_length(s.b.c, 0) == PROMPT);
    CHECK(qsf_logits(s.b.c, 0) != NULL);
    scene_end(&s);
}

TEST(cancelling_between_steps_leaves_what_is_computed)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(8);
    o.draft = 3;
    o.draft_fixed = true;
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (int steps = 0; steps < 40; steps++) {
        int left = steps;
        bool over = false;
        CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
        memset(&h, 0, sizeof h);
        if (!scene_sampler(&s, s.so.temperature, s.so.seed)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        while (!(over = pieces(s.turn, &h)) && left--) (void)qsf_turn_step(s.turn, NULL);
        qsf_turn_cancel(s.turn);
        if (!over) CHECK(pieces(s.turn, &h) && h.end == QSF_TURN_CANCELLED);
        CHECK_EQ(state(&s).end, over ? QSF_TURN_MOST : QSF_TURN_CANCELLED);
        CHECK(h.n <= all.n && !memcmp(h.ids, all.ids, h.n * sizeof *h.ids));
        size_t n;
        const int32_t *ids = qsf_turn_tokens(s.turn, &n);
        CHECK_EQ(n, qsf_seq_length(s.b.c, 0));              /* no guess, and no unfinished batch */
        CHECK(!memcmp(ids, s.prompt, QSF_MIN(n, PROMPT) * sizeof *ids));
        if (n > PROMPT) CHECK(!memcmp(ids + PROMPT, all.ids, (n - PROMPT) * sizeof *ids));
        answer(&s, s.prompt, PROMPT, &o, &h);
        check_same(&h, &all);
    }
    scene_end(&s);
}

/* Guesses from a list of the right tokens, every third of them wrong. */
typedef struct oracle { const int32_t *ids; size_t n, asked; } oracle;

static size_t oracle_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    oracle *w = user;
    size_t found = 0;
    CHECK(!memcmp(ids, w->ids, QSF_MIN(n, w->n) * sizeof *ids));
    w->asked++;
    for (; found < cap && n + found < w->n; found++) out[found] = w->ids[n + found] ^ ((n + found) % 3 == 0);
    return found;
}

TEST(guesses_change_no_token)
{
    scene s;
    heard plain, h;
    if (!scene_begin(&s)) return;
    for (int i = 0; i < PROMPT; i++) s.prompt[i] = "abcde"[i % 5];
    for (int way = 0; way < 4; way++) {
        if (!scene_sampler(&s, way % 2 ? 1 : 0, 3 + (uint64_t)way)) return;
        qsf_turn_options o = options(way < 2 ? MOST : -1);
        answer(&s, s.prompt, PROMPT, &o, &plain);
        int32_t ids[2 * N_CTX];
        memcpy(ids, s.prompt, PROMPT * sizeof *ids);
        memcpy(ids + PROMPT, plain.ids, plain.n * sizeof *ids);
        for (uint32_t draft = 1; draft <= QSF_DRAFT_MOST; draft += 2) {
            oracle w = { ids, PROMPT + plain.n, 0 };
            const uint64_t right = state(&s).n_right, made = state(&s).n_guessed;
            o.draft = draft;
            o.draft_fixed = true;
            o.guess = oracle_guess;
            o.guess_user = &w;
            answer(&s, s.prompt, PROMPT, &o, &h);
            check_same(&h, &plain);
            CHECK(w.asked > 0 && state(&s).n_right > right);
            CHECK(state(&s).n_guessed - made > state(&s).n_right - right);
            CHECK_EQ(qsf_seq_length(s.b.c, 0), QSF_MIN(PROMPT + plain.n - 1, N_CTX));
            o.guess = NULL;                                 /* what stood there before */
            answer(&s, s.prompt, PROMPT, &o, &h);
            check_same(&h, &plain);
        }
    }
    scene_end(&s);
}

/* Six layers in a budget that holds few of them. */
static bool scene_streams(scene *s, bool may_wait)
{
    tiny_options o = tiny_defaults();
    qsf_context_options co = scene_context();
    qsf_plan plan = { .size = sizeof plan };
    o.hp.n_layers = 6;
    o.hp.n_embd = 128;
    o.hp.n_ff = 192;
    *s = (scene){ 0 };
    if (!bench_write(&s->b, &o)) return false;
    if (!may_wait) engine_host_never_wait(&s->b.h);
    s->b.h.polls = 3;
    if (!bench_open(&s->b)) return false;
    co.ram_budget = 1;
    (void)qsf_context_plan(s->b.m, &co, &plan, NULL);
    co.ram_budget = plan.least + 100000;
    if (!scene_open(s, &co)) return false;
    qsf_context_get_plan(s->b.c, &plan);
    CHECK(!plan.resident);
    bench_tokens(s->prompt, N_CTX, 256, 7);
    return scene_sampler(s, 1, 5);
}

TEST(a_host_that_never_blocks_hears_of_missing_bytes)
{
    scene s;
    heard plain, h;
    const qsf_turn_options o = options(8);
    if (!scene_streams(&s, true)) return;
    answer(&s, s.prompt, PROMPT, &o, &plain);
    scene_end(&s);
    if (!scene_streams(&s, false)) return;
    size_t waited = 0;
    memset(&h, 0, sizeof h);
    CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
    while (!pieces(s.turn, &h)) {
        bool waiting;
        CHECK((qsf_turn_step(s.turn, &waiting) == QSF_PENDING) >= waiting);
        waited += waiting;
    }
    CHECK(waited > 10);
    check_same(&h, &plain);
    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);        /* asked to block, it says that it cannot */
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK(h.end == QSF_TURN_FAILED && qsf_turn_error(s.turn)->status == QSF_E_UNSUPPORTED);
    scene_end(&s);
}

TEST(a_turn_that_failed_says_why_and_the_next_one_works)
{
    scene s;
    heard plain, h;
    const qsf_turn_options o = options(8);
    if (!scene_streams(&s, true)) return;
    answer(&s, s.prompt, PROMPT, &o, &plain);
    for (int steps = 1; steps < 60; steps += 7) {
        CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
        memset(&h, 0, sizeof h);
        if (!scene_sampler(&s, s.so.temperature, s.so.seed)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        for (int left = steps; !pieces(s.turn, &h); left--) {
            s.b.h.doomed = left <= 0;
            (void)qsf_turn_step(s.turn, NULL);
        }
        s.b.h.doomed = false;
        CHECK_EQ(h.end, QSF_TURN_FAILED);
        CHECK(qsf_turn_error(s.turn)->status == QSF_E_IO && qsf_turn_error(s.turn)->text[0]);
        answer(&s, s.prompt, PROMPT, &o, &h);
        check_same(&h, &plain);
    }
    scene_end(&s);
}

TEST(turns_of_several_sequences_share_batches)
{
    enum { TURNS = 3 };
    scene s;
    heard plain[TURNS], h[TURNS];
    qsf_turn *turns[TURNS] = { NULL };
    qsf_sampler *samplers[TURNS] = { NULL };
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 3 * N_CTX;
    co.n_seqs = TURNS;
    co.n_logits = TURNS * 4;
    if (!scene_open(&s, &co)) return;
    const int32_t *prompts[TURNS] = { s.prompt, s.prompt + 5, s.prompt + 11 };
    const size_t lengths[TURNS] = { 37, 3, 12 };
    qsf_turn_options o = options(MOST);
    for (int i = 0; i < TURNS; i++) {
        s.so.seed = 20 + (uint64_t)i;
        answer(&s, prompts[i], lengths[i], &o, &plain[i]);
    }
    o.draft = 3;
    o.draft_fixed = true;
    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
    memset(h, 0, sizeof h);
    for (int i = 0; i < TURNS; i++) {
        s.so.seed = 20 + (uint64_t)i;
        CHECK_EQ(qsf_sampler_new(s.b.m, &s.so, &samplers[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_new(s.b.c, i, &turns[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_begin(turns[i], prompts[i], lengths[i], samplers[i], &o), QSF_OK);
    }
    for (int batches = 0; batches < 200; batches++) {
        qsf_row rows[16], less[2];
        size_t want[TURNS], n = 0, first = 0;
        for (int i = 0; i < TURNS; i++) {
            CHECK(qsf_turn_rows(turns[i], less, 2) <= 2);               /* asking changes nothing */
            n += want[i] = qsf_turn_rows(turns[i], rows + n, i ? 4 : 8);
        }
        if (!n) break;
        CHECK_EQ(qsf_compute(s.b.c, rows, n), QSF_OK);
        for (int i = 0; i < TURNS; i++) if (want[i]) first += qsf_turn_computed(turns[i], first);
        if (batches % 3) qsf_turns_pick(turns, TURNS);                  /* does not change the tokens */
        for (int i = 0; i < TURNS; i++) if (!h[i].end) (void)pieces(turns[i], &h[i]);
    }
    for (int i = 0; i < TURNS; i++) {
        check_same(&h[i], &plain[i]);
        qsf_turn_free(turns[i]);
        qsf_sampler_free(samplers[i]);
    }
    scene_end(&s);
}

TEST(two_turns_alone_take_turns_piece_by_piece)
{
    scene s;
    heard plain[2], h[2];
    qsf_turn *turns[2] = { NULL };
    qsf_sampler *samplers[2] = { NULL };
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 2 * N_CTX;
    if (!scene_open(&s, &co)) return;
    const qsf_turn_options o = options(MOST);
    for (int i = 0; i < 2; i++) answer(&s, s.prompt + i, PROMPT, &o, &plain[i]);
    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
    memset(h, 0, sizeof h);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(qsf_sampler_new(s.b.m, &s.so, &samplers[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_new(s.b.c, i, &turns[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_begin(turns[i], s.prompt + i, PROMPT, samplers[i], &o), QSF_OK);
    }
    while (!h[0].end || !h[1].end)
        for (int i = 0; i < 2; i++) {
            if (h[i].end || pieces(turns[i], &h[i])) continue;
            while (qsf_turn_step(turns[i], NULL) == QSF_PENDING) ;
            (void)pieces(turns[i], &h[i]);
        }
    for (int i = 0; i < 2; i++) {
        check_same(&h[i], &plain[i]);
        qsf_turn_free(turns[i]);
        qsf_sampler_free(samplers[i]);
    }
    scene_end(&s);
}

TEST(what_is_no_turn_is_an_error)
{
    scene s;
    qsf_turn_piece p = { .size = sizeof p };
    if (!scene_begin(&s)) return;
    CHECK_EQ(qsf_turn_next(s.turn, &p), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_turn_step(s.turn, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_rows(s.turn, NULL, 0), 0);
    qsf_turn_cancel(s.turn);
    CHECK_EQ(state(&s).end, QSF_TURN_GOES_ON);
    CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, 0, s.sampler, NULL), QSF_E_ARGUMENT);
    CHECK(strstr(qsf_turn_error(s.turn)->text, "prompt is empty") != NULL);
    const int32_t bad = 288;
    CHECK_EQ(qsf_turn_begin(s.turn, &bad, 1, s.sampler, NULL), QSF_E_ARGUMENT);
    qsf_turn_options o = options(1);
    o.draft = QSF_DRAFT_MOST + 1;
    o.draft_fixed = true;
    CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, 1, s.sampler, &o), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, 1, s.sampler, NULL), QSF_OK);
    p.size = 0;
    CHECK_EQ(qsf_turn_next(s.turn, &p), QSF_E_ARGUMENT);
    qsf_turn *other;
    CHECK_EQ(qsf_turn_new(s.b.c, 99, &other, &s.b.error), QSF_OK);
    CHECK_EQ(qsf_turn_begin(other, s.prompt, 1, s.sampler, NULL), QSF_E_ARGUMENT);
    CHECK(strstr(qsf_turn_error(other)->text, "sequence 99") != NULL);
    qsf_turn_free(other);
    qsf_turn_free(NULL);
    scene_end(&s);
}

TEST(without_memory_nothing_is_lost)
{
    scene s;
    heard plain, h;
    if (!scene_begin(&s)) return;
    const char *stop = "a text that does not come, longer than any token";
    qsf_turn_options o = options(8);
    o.stops = &stop;
    o.n_stops = 1;
    answer(&s, s.prompt, PROMPT, &o, &plain);
    qsf_status st = QSF_E_MEMORY;
    for (long at = 1; st; at++) {
        qsf_turn_free(s.turn);
        s.turn = NULL;
        s.b.h.m.calls = 0;
        s.b.h.m.fail_at = at;
        st = qsf_turn_new(s.b.c, 0, &s.turn, &s.b.error);
        CHECK(!st || (st == QSF_E_MEMORY && !s.turn));
        if (!st) st = qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o);
        CHECK(!st || st == QSF_E_MEMORY);
        s.b.h.m.fail_at = 0;
        if (s.turn) {
            answer(&s, s.prompt, PROMPT, &o, &h);
            check_same(&h, &plain);
        }
    }
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(a_turn_gives_what_feeding_and_picking_gives);
    RUN(what_a_prompt_has_in_common_with_the_sequence_is_kept);
    RUN(a_window_that_has_dropped_the_prefix_begins_anew);
    RUN(no_token_computes_the_prompt_alone);
    RUN(cancelling_between_steps_leaves_what_is_computed);
    RUN(guesses_change_no_token);
    RUN(a_host_that_never_blocks_hears_of_missing_bytes);
    RUN(a_turn_that_failed_says_why_and_the_next_one_works);
    RUN(turns_of_several_sequences_share_batches);
    RUN(two_turns_alone_take_turns_piece_by_piece);
    RUN(what_is_no_turn_is_an_error);
    RUN(without_memory_nothing_is_lost);
    return test_end();
}
