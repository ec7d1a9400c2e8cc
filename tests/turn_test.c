/* Turns: what they give, what they keep, where they end, alone and together.
 * SPDX-License-Identifier: MIT */
#include "engine_bench.h"

enum { PROMPT = 20, MOST = 24, N_CTX = 64, TEXT = 4096 };

/* What a turn gave. */
typedef struct heard {
    int32_t ids[2 * N_CTX];
    size_t  n, len, pieces;
    char    text[TEXT];
    bool    cut;
    qsf_turn_end end;
} heard;

typedef struct scene {
    bench        b;
    qsf_turn    *turn;
    qsf_sampler *sampler;
    qsf_sampler_options so;
    int32_t      prompt[N_CTX];
} scene;

static qsf_context_options scene_context(void)
{
    qsf_context_options co = bench_options();
    co.n_ctx = N_CTX;
    co.n_batch = 16;
    co.n_logits = 16;
    return co;
}

static bool scene_sampler(scene *s, float temperature, uint64_t seed)
{
    qsf_sampler_free(s->sampler);
    s->sampler = NULL;
    qsf_sampler_defaults(&s->so);
    s->so.temperature = temperature;
    s->so.repeat_penalty = 1.2f;
    s->so.seed = seed;
    return bench_ok(&s->b, qsf_sampler_new(s->b.m, &s->so, &s->sampler, &s->b.error));
}

/* A new context, with a turn of its sequence 0. */
static bool scene_open(scene *s, const qsf_context_options *co)
{
    qsf_turn_free(s->turn);
    s->turn = NULL;
    return bench_context(&s->b, co) && bench_ok(&s->b, qsf_turn_new(s->b.c, 0, &s->turn, &s->b.error));
}

static bool scene_begin(scene *s)
{
    const tiny_options o = tiny_defaults();
    const qsf_context_options co = scene_context();
    *s = (scene){ 0 };
    if (!bench_write(&s->b, &o) || !bench_open(&s->b) || !scene_open(s, &co)) return false;
    bench_tokens(s->prompt, N_CTX, 256, 7);
    return scene_sampler(s, 1, 5);
}

static void scene_end(scene *s)
{
    qsf_turn_free(s->turn);
    qsf_sampler_free(s->sampler);
    bench_end(&s->b);
}

static qsf_turn_options options(int64_t most)
{
    qsf_turn_options o;
    qsf_turn_defaults(&o);
    o.max_tokens = most;
    o.ignore_end = true;
    return o;
}

static void hear(heard *h, const qsf_turn_piece *p)
{
    CHECK_EQ(p->token < 0, p->end != QSF_TURN_GOES_ON);
    CHECK(p->text[p->len] == 0 && h->len + p->len < TEXT);
    if (p->token >= 0) h->ids[h->n++] = p->token;
    memcpy(h->text + h->len, p->text, p->len);
    h->text[h->len += p->len] = 0;
    h->end = p->end;
    h->cut = p->cut;
    h->pieces++;
}

/* Pieces until the turn wants rows or has ended; true: it has ended. */
static bool pieces(qsf_turn *t, heard *h)
{
    qsf_turn_piece p = { .size = sizeof p };
    while (!p.end) {
        const qsf_status st = qsf_turn_next(t, &p);
        if (st == QSF_PENDING) return false;
        CHECK_EQ(st, QSF_OK);
        if (st) return true;
        hear(h, &p);
    }
    return true;
}

/* A whole turn, with a fresh sampler of the same seed. */
static void answer(scene *s, const int32_t *ids, size_t n, const qsf_turn_options *o, heard *h)
{
    memset(h, 0, sizeof *h);
    if (!scene_sampler(s, s->so.temperature, s->so.seed)) return;
    CHECK_EQ(qsf_turn_begin(s->turn, ids, n, s->sampler, o), QSF_OK);
    while (!pieces(s->turn, h)) (void)qsf_turn_step(s->turn, NULL);
}

static void check_same(const heard *a, const heard *b)
{
    CHECK_EQ(a->n, b->n);
    CHECK(!memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
    CHECK_STR(a->text, b->text);
    CHECK_EQ(a->end, b->end);
}

static qsf_turn_state state(const scene *s)
{
    qsf_turn_state t = { .size = sizeof t };
    qsf_turn_get_state(s->turn, &t);
    return t;
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
    const qsf_turn_options o = options(100);                /* far behind n_ctx: the list of tokens grows */
    answer(&s, s.prompt, 2 * PROMPT, &o, &first);
    CHECK(first.n == 100 && first.end == QSF_TURN_MOST);
    answer(&s, s.prompt, 2 * PROMPT, &o, &again);
    CHECK_EQ(state(&s).n_kept, 0);
    check_same(&again, &first);
    scene_end(&s);
}

/* The place in the text where the i-th token's text is whole. */
static size_t text_after(const scene *s, const heard *h, size_t i)
{
    char text[TEXT];
    size_t len = 0;
    qsf_utf8_tail tail = { 0 };
    for (size_t k = 0; k <= i; k++) {
        const char *piece;
        const size_t n = qsf_token_piece(s->b.m, h->ids[k], false, &piece);
        len += qsf_utf8_push(&tail, piece, n, text + len);
    }
    return len;
}

TEST(a_stop_text_ends_the_answer_wherever_tokens_part_it)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(MOST);
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (size_t from = 0; from < all.len; from++) {
        for (size_t len = 1; len <= 7 && from + len <= all.len; len += 3) {
            const char *stop = all.text + from;
            size_t place = 0;
            while (memcmp(all.text + place, stop, len)) place++;    /* it may be there before */
            o.stops = &stop;
            o.stop_lengths = &len;
            o.n_stops = 1;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
            CHECK(h.len == place && !memcmp(h.text, all.text, place));
            CHECK(!h.cut && h.n <= all.n && !memcmp(h.ids, all.ids, h.n * sizeof *h.ids));
            CHECK(text_after(&s, &all, h.n - 1) >= place + len);    /* no token more than it took */
            if (h.n > 1) CHECK(text_after(&s, &all, h.n - 2) < place + len);
        }
    }
    scene_end(&s);
}

TEST(what_only_begins_as_a_stop_text_is_given_in_the_end)
{
    scene s;
    heard all, h;
    char never[TEXT + 8];
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(MOST);
    answer(&s, s.prompt, PROMPT, &o, &all);
    for (size_t n = 1; n <= 9; n += 4) {
        qsf_format(never, sizeof never, "%s<never>", all.text + all.len - n);
        const char *stops[] = { "", never, "not there either" };
        o.stops = stops;
        o.n_stops = 3;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_STR(h.text, all.text);
        CHECK_EQ(h.end, QSF_TURN_MOST);
        CHECK_EQ(h.pieces, MOST + 1);
    }
    /* Of several the one that comes first, also where a longer one has begun before it. */
    char late[TEXT];
    qsf_format(late, sizeof late, "%.9s<never>", all.text + 2);
    const char *two[] = { late, all.text + 6, all.text + 4 };
    const size_t lengths[] = { strlen(late), 3, 4 };
    o.stops = two;
    o.stop_lengths = lengths;
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
    CHECK(h.len <= 6 && !memcmp(h.text, all.text, h.len));
    scene_end(&s);
}

TEST(every_piece_is_whole_characters)
{
    scene s;
    if (!scene_begin(&s)) return;
    int cut = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        heard h;
        qsf_turn_piece p = { .size = sizeof p };
        const qsf_turn_options o = options(MOST);
        if (!scene_sampler(&s, 3, seed)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        memset(&h, 0, sizeof h);
        while (!p.end) {
            if (qsf_turn_next(s.turn, &p)) {
                (void)qsf_turn_step(s.turn, NULL);
                continue;
            }
            qsf_utf8_tail tail = { 0 };
            char whole[64];
            CHECK_EQ(qsf_utf8_push(&tail, p.text, p.len, whole), p.len);
            CHECK(tail.len == 0 && !memcmp(whole, p.text, p.len));
            cut += p.cut;
        }
    }
    CHECK(cut > 0);                     /* bytes at random end inside a character now and then */
    scene_end(&s);
}

TEST(an_end_token_ends_the_answer_unless_it_is_ignored)
{
    scene s;
    heard h, all;
    bool ended = false;
    if (!scene_begin(&s)) return;
    for (uint64_t seed = 1; seed < 200 && !ended; seed++) {
        qsf_turn_options o = options(40);
        if (!scene_sampler(&s, 2, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &all);
        o.ignore_end = false;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK(h.n <= all.n && !memcmp(h.ids, all.ids, h.n * sizeof *h.ids));
        ended = h.end == QSF_TURN_END_TOKEN;
        CHECK_EQ(ended, h.n < all.n);
        if (ended) CHECK(qsf_token_is_end(s.b.m, all.ids[h.n]));
        else CHECK_EQ(h.end, QSF_TURN_MOST);
    }
    CHECK(ended);
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

TEST(a_full_context_ends_the_answer_and_is_no_failure)
{
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    for (uint32_t draft = 0; draft <= QSF_DRAFT_MOST; draft += QSF_DRAFT_MOST) {
        qsf_turn_options o = options(-1);
        o.draft = draft;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_EQ(h.end, QSF_TURN_FULL);
        CHECK_EQ(h.n, N_CTX - PROMPT + 1);
        CHECK_EQ(qsf_turn_error(s.turn)->status, QSF_E_FULL);
        CHECK(strstr(qsf_turn_error(s.turn)->text, "64 positions") != NULL);
        CHECK_EQ(qsf_seq_length(s.b.c, 0), N_CTX);
    }
    int32_t longer[N_CTX + 1] = { 0 };
    qsf_stats before, after;
    qsf_context_get_stats(s.b.c, &before);
    memcpy(longer, s.prompt, 12 * sizeof *longer);
    CHECK_EQ(qsf_turn_begin(s.turn, longer, N_CTX + 1, s.sampler, NULL), QSF_E_FULL);
    CHECK_STR(qsf_turn_error(s.turn)->text, "the prompt has 65 tokens, the context 64 positions");
    CHECK_EQ(qsf_turn_step(s.turn, NULL), QSF_OK);          /* nothing is under way */
    qsf_context_get_stats(s.b.c, &after);
    CHECK(after.tokens_prompt == before.tokens_prompt && after.tokens_generated == before.tokens_generated);
    CHECK_EQ(state(&s).n_kept, 12);                         /* and what both begin with stays */
    const qsf_turn_options o = options(3);
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK(state(&s).n_kept == 12 && h.end == QSF_TURN_MOST);
    scene_end(&s);
}

TEST(cancelling_between_steps_leaves_what_is_computed)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_turn_options o = options(8);
    o.draft = 3;
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
    qsf_plan plan;
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
        for (int i = 0; i < TURNS; i++) {
            if (want[i]) first += qsf_turn_computed(turns[i], first);
            if (!h[i].end) (void)pieces(turns[i], &h[i]);
        }
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
    RUN(a_stop_text_ends_the_answer_wherever_tokens_part_it);
    RUN(what_only_begins_as_a_stop_text_is_given_in_the_end);
    RUN(every_piece_is_whole_characters);
    RUN(an_end_token_ends_the_answer_unless_it_is_ignored);
    RUN(no_token_computes_the_prompt_alone);
    RUN(a_full_context_ends_the_answer_and_is_no_failure);
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
