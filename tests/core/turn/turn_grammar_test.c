/* Turns under a grammar: what comes fits it, forced text needs no asking, and nothing else changes.
 * SPDX-License-Identifier: MIT */
#include "make_tiny_clusters.h"
#include "grammar/grammar_own.h"
#include "turn_scene.h"

/* ~: letters and spaces, as many as come; #: a digit; |: or. */
static qsf_gnode pattern_node(qsf_grammar_builder *b, const char *pattern)
{
    static const uint32_t letters[][2] = { { 'a', 'z' }, { ' ', ' ' } }, digits[][2] = { { '0', '9' } };
    qsf_gnode choices[4], parts[64];
    size_t n_choices = 0, n = 0;
    for (const char *p = pattern;; p++) {
        if (!*p || *p == '|') {
            choices[n_choices++] = qsf_g_sequence(b, parts, n);
            n = 0;
            if (!*p) return qsf_g_choice(b, choices, n_choices);
        } else if (*p == '~') {
            parts[n++] = qsf_g_repeat(b, qsf_g_class(b, letters, 2, false), 0, QSF_G_NO_MOST);
        } else {
            parts[n++] = *p == '#' ? qsf_g_class(b, digits, 1, false) : qsf_g_bytes(b, p, 1);
        }
    }
}

static qsf_grammar *grammar_of(const scene *s, const char *pattern)
{
    qsf_grammar_builder *b = NULL;
    qsf_grammar *g = NULL;
    qsf_error e = { 0 };
    CHECK_EQ(qsf_grammar_begin(&s->b.h.m.p, &b, &e), QSF_OK);
    CHECK_EQ(qsf_grammar_finish(b, pattern_node(b, pattern), &g, &e), QSF_OK);
    return g;
}
static void grammar_drop(qsf_grammar *g) { qsf_grammar_drop(g); }

static const char RECORD[] = "{\"name\": \"~\", \"age\": ##}";

/* Whether text is a record, or (whole: false) the beginning of one. */
static bool is_record(const char *text, bool whole)
{
    for (const char *p = RECORD; *p; p++) {
        if (!*text) return !whole;
        if (*p == '~') while ((*text >= 'a' && *text <= 'z') || *text == ' ') text++;
        else if (*p == '#' ? *text < '0' || *text > '9' : *text != *p) return !*text && !whole;
        else text++;
    }
    return !*text;
}

static void check_same(const heard *a, const heard *b)
{
    CHECK_EQ(a->n, b->n);
    CHECK(!memcmp(a->ids, b->ids, a->n * sizeof *a->ids));
    CHECK_STR(a->text, b->text);
    CHECK_EQ(a->end, b->end);
}

/* A whole turn whose sampler likes to end texts in quotes. */
static void answer_quoted(scene *s, const qsf_turn_options *o, heard *h)
{
    memset(h, 0, sizeof *h);
    if (!scene_sampler(s, s->so.temperature, s->so.seed)) return;
    CHECK_EQ(qsf_sampler_bias(s->sampler, '"', 6, NULL), QSF_OK);
    CHECK_EQ(qsf_turn_begin(s->turn, s->prompt, PROMPT, s->sampler, o), QSF_OK);
    while (!pieces(s->turn, h)) (void)qsf_turn_step(s->turn, NULL);
}

static size_t wrong_guess(void *user, const int32_t *ids, size_t n, int32_t *out, size_t cap)
{
    (void)user, (void)ids;
    for (size_t i = 0; i < cap; i++) out[i] = (int32_t)((n * 7 + i * 5) % 288);
    return cap;
}

TEST(an_answer_is_of_the_grammar)
{
    scene s;
    heard plain, h;
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 4 * N_CTX;
    if (!scene_open(&s, &co)) return;
    int whole = 0;
    for (int round = 0; round < 40; round++) {
        qsf_grammar *g = grammar_of(&s, RECORD);
        qsf_turn_options o = options(110);
        o.grammar = g;
        o.ignore_end = round & 1;
        if (!scene_sampler(&s, round % 4 ? 1.5f : 0, 2 + (uint64_t)round)) return;
        answer_quoted(&s, &o, &plain);
        CHECK(plain.end == QSF_TURN_END_TOKEN || plain.end == QSF_TURN_MOST);
        CHECK(is_record(plain.text, plain.end == QSF_TURN_END_TOKEN));
        CHECK(state(&s).n_forced > 5 && state(&s).n_tokens == plain.n);
        whole += plain.end == QSF_TURN_END_TOKEN;
        o.draft = 4;                                        /* guesses change no token */
        o.draft_fixed = true;
        for (int way = 0; way < 2; way++) {
            o.guess = way ? wrong_guess : NULL;
            answer_quoted(&s, &o, &h);
            check_same(&h, &plain);
        }
        grammar_drop(g);
    }
    if (whole <= 20) printf("      %d\n", whole);
    CHECK(whole > 20);
    scene_end(&s);
}

TEST(forced_text_is_the_tokens_that_the_tokenizer_makes)
{
    static const char *const texts[] = { "the end and the other one in here", "x", "and", "  in\n\nthe  er",
                                         "\xc3\xa9t\xc3\xa9 theinand", "the the the the" };
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) {
        int32_t ids[64];
        size_t n;
        qsf_grammar *g = grammar_of(&s, texts[i]);
        qsf_turn_options o = options(-1);
        o.grammar = g;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK_STR(h.text, texts[i]);
        CHECK_EQ(h.end, QSF_TURN_END_TOKEN);
        CHECK_EQ(qsf_tokens_encode(s.b.m, texts[i], strlen(texts[i]), 0, ids, 64, &n, NULL), QSF_OK);
        CHECK_EQ(h.n, n);
        CHECK(!memcmp(h.ids, ids, n * sizeof *ids));
        CHECK_EQ(state(&s).n_forced, n);
        CHECK_EQ(qsf_seq_length(s.b.c, 0), PROMPT);         /* the model was not asked at all */
        if (n > 2) {                                        /* limits count forced tokens */
            o.max_tokens = (int64_t)n - 1;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK(h.n == n - 1 && h.end == QSF_TURN_MOST && !memcmp(h.ids, ids, h.n * sizeof *ids));
        }
        grammar_drop(g);
    }
    /* Before a fork, forced tokens are those that the tokenizer gives whatever text follows. */
    qsf_grammar *g = grammar_of(&s, "in the ender|in the hander");
    qsf_turn_options o = options(-1);
    o.grammar = g;
    for (uint64_t seed = 1; seed < 9; seed++) {
        int32_t ids[64];
        size_t n;
        if (!scene_sampler(&s, 2, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK(!strcmp(h.text, "in the ender") || !strcmp(h.text, "in the hander"));
        CHECK_EQ(qsf_tokens_encode(s.b.m, "in the ", 7, 0, ids, 64, &n, NULL), QSF_OK);
        CHECK(h.n > n && !memcmp(h.ids, ids, (n - 1) * sizeof *ids));
        CHECK(state(&s).n_forced > n && state(&s).n_forced < h.n);
    }
    grammar_drop(g);
    const char *stop = "the";                               /* stop strings match in forced text */
    g = grammar_of(&s, "in the end");
    o.grammar = g;
    o.stops = &stop;
    o.n_stops = 1;
    answer(&s, s.prompt, PROMPT, &o, &h);
    CHECK_STR(h.text, "in ");
    CHECK_EQ(h.end, QSF_TURN_STOP_TEXT);
    grammar_drop(g);
    scene_end(&s);
}

/* SentencePiece puts a space before its input: forced text at the beginning allows for that. */
TEST(every_kind_of_vocabulary_has_grammars)
{
    scene s = { 0 };
    heard h;
    tiny_options to = tiny_defaults();
    const qsf_context_options co = scene_context();
    to.vocab = QSF_VOCAB_SPM;
    if (!bench_write(&s.b, &to) || !bench_open(&s.b) || !scene_open(&s, &co)) return;
    bench_tokens(s.prompt, N_CTX, 29, 7);
    qsf_turn_options o = options(30);
    qsf_grammar *g = o.grammar = grammar_of(&s, "theendof|thehand");
    for (uint64_t seed = 1; seed < 6; seed++) {
        if (!scene_sampler(&s, 1, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &h);
        CHECK(!strcmp(h.text, "theendof") || !strcmp(h.text, "thehand"));
        CHECK_EQ(h.end, QSF_TURN_END_TOKEN);
    }
    grammar_drop(g);
    scene_end(&s);
}

TEST(a_grammar_may_begin_later)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 4 * N_CTX;
    if (!scene_open(&s, &co)) return;
    for (uint64_t seed = 1; seed < 12; seed++) {
        char call[2] = { 0 }, from[8];
        const char *const after[] = { call, "never in there" };
        qsf_turn_options o = options(40);
        if (!scene_sampler(&s, 1, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &all);
        size_t k = 4;
        const char *piece;
        for (; k < 20; k++)
            if (qsf_token_piece(s.b.m, all.ids[k], true, &piece) == 1 && (unsigned char)*piece < 128) break;
        if (k == 20) continue;
        call[0] = *piece;
        o.grammar_after = after;
        for (int with = 0; with < 2; with++) {
            snprintf(from, sizeof from, "%s##,#", with ? call : "");
            if (with && strchr("~#|", *call)) continue;
            qsf_grammar *g = grammar_of(&s, from);
            o.grammar = g;
            o.grammar_with = with;
            o.n_grammar_after = with ? 1 : 2;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK_EQ(h.end, QSF_TURN_END_TOKEN);
            const char *at = strchr(h.text, *call);
            CHECK(at && at[1] >= '0' && at[1] <= '9' && at[2] >= '0' && at[2] <= '9' && at[3] == ',');
            CHECK(at && at[4] >= '0' && at[4] <= '9' && !at[5]);
            if (at) CHECK(!memcmp(h.text, all.text, (size_t)(at - h.text)));
            grammar_drop(g);
        }
        qsf_grammar *g = grammar_of(&s, "..");                 /* has no text that begins with the call */
        if (*call == '.') continue;
        o.grammar = g;
        o.grammar_with = true;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_E_ARGUMENT);
        CHECK(strstr(qsf_turn_error(s.turn)->text, "begin with") != NULL);
        grammar_drop(g);
    }
    scene_end(&s);
}

TEST(an_approximate_head_computes_what_the_grammar_lets_through)
{
    enum { LARGE = 5003 };
    heard want = { .n = 0 }, h;
    for (int mode = QSF_HEAD_EXACT; mode <= QSF_HEAD_CLUSTERS; mode++)
        for (uint32_t threads = 1; threads <= 2; threads++) {
            scene s = { 0 };
            tiny_options to = tiny_defaults();
            tiny_clusters clusters;
            qsf_context_options co = scene_context();
            to.hp.n_vocab = LARGE;
            to.hp.tied = true;
            if (!tiny_clusters_make(&clusters, LARGE, to.hp.n_embd, 0.5f)) return;
            to.clusters = &clusters.k;
            if (!bench_write(&s.b, &to) || !bench_open(&s.b)) return;
            co.n_ctx = 4 * N_CTX;
            co.head = (qsf_head_mode)mode;
            co.n_threads = threads;
            if (!scene_open(&s, &co)) return;
            bench_tokens(s.prompt, N_CTX, 256, 7);
            qsf_grammar *g = grammar_of(&s, RECORD);
            qsf_turn_options o = options(60);
            o.grammar = g;
            o.draft = 3;
            o.draft_fixed = true;
            if (!scene_sampler(&s, 0, 1)) return;
            answer(&s, s.prompt, PROMPT, &o, &h);
            CHECK(is_record(h.text, h.end == QSF_TURN_END_TOKEN));
            if (mode == QSF_HEAD_EXACT) want = h;
            else check_same(&h, &want);
            grammar_drop(g);
            scene_end(&s);
            tiny_clusters_free(&clusters);
        }
}

TEST(turns_under_grammars_share_batches)
{
    enum { TURNS = 3 };
    scene s;
    heard plain[TURNS], h[TURNS];
    qsf_turn *turns[TURNS] = { NULL };
    qsf_sampler *samplers[TURNS] = { NULL };
    qsf_grammar *grammars[TURNS];
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 4 * N_CTX;
    co.n_seqs = TURNS;
    if (!scene_open(&s, &co)) return;
    qsf_turn_options o = options(40);
    for (int i = 0; i < TURNS; i++) {
        s.so.seed = 30 + (uint64_t)i;
        grammars[i] = i == 1 ? NULL : i ? grammars[0] : grammar_of(&s, RECORD);    /* they share it */
        o.grammar = grammars[i];
        answer(&s, s.prompt + i, PROMPT, &o, &plain[i]);
    }
    CHECK_EQ(qsf_seq_truncate(s.b.c, 0, 0), QSF_OK);
    memset(h, 0, sizeof h);
    grammars[0]->keep_memory = 0;               /* tables are made anew under both turns' feet */
    for (int i = 0; i < TURNS; i++) {
        s.so.seed = 30 + (uint64_t)i;
        o.grammar = grammars[i];
        CHECK_EQ(qsf_sampler_new(s.b.m, &s.so, &samplers[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_new(s.b.c, i, &turns[i], &s.b.error), QSF_OK);
        CHECK_EQ(qsf_turn_begin(turns[i], s.prompt + i, PROMPT, samplers[i], &o), QSF_OK);
    }
    for (int batches = 0; batches < 200; batches++) {
        qsf_row rows[16];
        size_t want[TURNS], n = 0, first = 0;
        for (int i = 0; i < TURNS; i++) n += want[i] = qsf_turn_rows(turns[i], rows + n, i ? 4 : 8);
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
    grammar_drop(grammars[0]);
    scene_end(&s);
}

TEST(a_grammar_takes_no_more_memory_than_it_may)
{
    scene s;
    uint64_t memory = 0;
    if (!scene_begin(&s)) return;
    for (int i = 0; i < 3; i++) {
        static const char rules[] = "root ::= ([a-f]{40,90} | [b-g]{40,90}){40,90}";
        qsf_grammar_options o;
        qsf_grammar *g;
        qsf_error e = { 0 };
        qsf_grammar_defaults(&o);
        o.most_memory = i == 1 ? memory / 2 : i ? 2 * memory : 0;
        CHECK_EQ(qsf_grammar_new(s.b.m, QSF_GRAMMAR_GBNF, rules, sizeof rules - 1, &o, &g, &e),
                 i == 1 ? QSF_E_BUDGET : QSF_OK);
        if (g) memory = qsf_grammar_memory(g);
        qsf_grammar_free(g);
    }
    CHECK_EQ(qsf_grammar_prepare(s.b.m, NULL), QSF_OK);
    scene_end(&s);
}

/* Reasoning that the prompt has begun is not matched by the caller's grammar. */
TEST(a_grammar_begins_behind_reasoning_that_the_prompt_began)
{
    static const char *const begun[] = { "<|assistant|><think>", "<|assistant|>" };
    char text[600];
    scene s;
    if (!scene_begin(&s)) return;
    for (int i = 0; i < 2; i++) {
        qsf_chat_options chat;
        qsf_answer_options ao;
        qsf_answer *a;
        snprintf(text, sizeof text, "{%% for m in messages %%}<|{{ m.role }}|>{%% if m.reasoning_content %%}"
                 "<think>{{ m.reasoning_content }}</think>{%% endif %%}{{ m.content }}<|end|>{%% endfor %%}"
                 "{%% if add_generation_prompt %%}%s{%% endif %%}", begun[i]);
        qsf_chat_defaults(&chat);
        chat.chat_template = text;
        qsf_answer_defaults(&ao);
        ao.chat = &chat;
        CHECK_EQ(qsf_answer_new(s.b.m, &ao, &a, &s.b.error), QSF_OK);
        qsf_turn_options o = options(8);
        o.grammar = grammar_of(&s, RECORD);
        CHECK_EQ(qsf_answer_turn(a, &o, &s.b.error), QSF_OK);
        CHECK_EQ(o.n_grammar_after, !i);
        CHECK(!o.grammar_with);
        if (!i && o.n_grammar_after) CHECK_STR(o.grammar_after[0], "</think>");
        qsf_answer_free(a);
        grammar_drop(o.grammar);
    }
    scene_end(&s);
}

TEST(log_probabilities_are_the_models_own)
{
    scene s;
    if (!scene_begin(&s)) return;
    for (int with = 0; with < 2; with++) {
        qsf_grammar *g = with ? grammar_of(&s, RECORD) : NULL;
        qsf_turn_options o = options(20);
        o.logprobs = 5;
        o.grammar = g;
        int asked = 0;
        if (!scene_sampler(&s, 1.5f, 3)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        for (qsf_turn_piece p = { .size = sizeof p }; !p.end;) {
            const size_t forced = state(&s).n_forced;
            if (qsf_turn_next(s.turn, &p) == QSF_PENDING) {
                (void)qsf_turn_step(s.turn, NULL);
                continue;
            }
            if (p.end) break;
            CHECK_EQ(p.n_logprobs, state(&s).n_forced > forced ? 0 : 6);
            if (!p.n_logprobs) continue;
            asked++;
            CHECK_EQ(p.logprobs[0].token, p.token);
            const float *x = NULL;                  /* logits are there until the next batch */
            for (size_t row = 0; row < 16 && qsf_logits(s.b.c, row); row++) x = qsf_logits(s.b.c, row);
            double sum = 0;
            for (uint32_t i = 0; i < s.b.n_vocab; i++) sum += exp((double)x[i]);
            for (size_t i = 0; i < 6; i++) {
                CHECK_NEAR(p.logprobs[i].logprob, (double)x[p.logprobs[i].token] - log(sum), 1e-4);
                if (i > 1) CHECK(p.logprobs[i - 1].logprob >= p.logprobs[i].logprob);
            }
            int better = 0;
            for (uint32_t i = 0; i < s.b.n_vocab; i++) better += x[i] > x[p.logprobs[5].token];
            CHECK(better <= 4);
        }
        CHECK(asked > (with ? 2 : 10));
        grammar_drop(g);
    }
    scene_end(&s);
}

TEST(end_tokens_wait_for_min_tokens)
{
    scene s;
    heard h;
    if (!scene_begin(&s)) return;
    const int32_t eos = qsf_token_eos(s.b.m);
    for (int way = 0; way < 4; way++) {
        qsf_turn_options o = options(20);
        o.ignore_end = false;
        o.min_tokens = way % 2 ? 7 : 0;
        qsf_grammar *g = way < 2 ? NULL : grammar_of(&s, "~");
        o.grammar = g;
        memset(&h, 0, sizeof h);
        if (!scene_sampler(&s, 1, 5)) return;
        CHECK_EQ(qsf_sampler_bias(s.sampler, eos, 1000, NULL), QSF_OK);
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        while (!pieces(s.turn, &h)) (void)qsf_turn_step(s.turn, NULL);
        CHECK_EQ(h.n, (size_t)o.min_tokens);
        CHECK_EQ(h.end, QSF_TURN_END_TOKEN);
        grammar_drop(g);
    }
    scene_end(&s);
}

TEST(a_banned_text_does_not_come)
{
    scene s;
    heard all, h;
    if (!scene_begin(&s)) return;
    for (uint64_t seed = 1; seed < 10; seed++) {
        const qsf_turn_options o = options(MOST);
        if (!scene_sampler(&s, 1, seed)) return;
        answer(&s, s.prompt, PROMPT, &o, &all);
        const char *piece[2];
        size_t k = 2, n[2] = { 0 };
        for (; k + 1 < all.n; k++) {                        /* two tokens with texts */
            for (size_t i = 0; i < 2; i++) n[i] = qsf_token_piece(s.b.m, all.ids[k + i], false, &piece[i]);
            if (n[0] && n[1] && (unsigned char)piece[0][0] < 128 && (unsigned char)piece[1][0] < 128) break;
        }
        if (k + 1 == all.n) continue;
        char text[32];
        memcpy(text, piece[0], n[0]);
        memcpy(text + n[0], piece[1], n[1]);
        text[n[0] + n[1]] = 0;
        if (strlen(text) != n[0] + n[1]) continue;
        const char *before = strstr(all.text, text);
        memset(&h, 0, sizeof h);
        if (!scene_sampler(&s, 1, seed)) return;
        CHECK_EQ(qsf_sampler_ban(s.sampler, text, strlen(text), NULL), QSF_OK);
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        while (!pieces(s.turn, &h)) (void)qsf_turn_step(s.turn, NULL);
        CHECK_EQ(h.n, MOST);
        CHECK(before && !strstr(h.text, text));
        CHECK(h.ids[0] == all.ids[0] && memcmp(h.ids, all.ids, sizeof(int32_t) * MOST));
    }
    CHECK_EQ(qsf_sampler_ban(s.sampler, "", 0, NULL), QSF_E_ARGUMENT);
    scene_end(&s);
}

TEST(without_memory_the_next_grammar_works)
{
    scene s;
    heard plain, h;
    if (!scene_begin(&s)) return;
    qsf_context_options co = scene_context();
    co.n_ctx = 4 * N_CTX;
    if (!scene_open(&s, &co)) return;
    const char *after = "\x01 no text that comes";
    qsf_grammar *g = grammar_of(&s, RECORD);
    qsf_turn_options o = options(12);
    o.grammar = g;
    o.logprobs = 2;
    answer(&s, s.prompt, PROMPT, &o, &plain);
    qsf_status st = QSF_E_MEMORY;
    for (long at = 1; st; at++) {
        qsf_turn_free(s.turn);
        s.turn = NULL;
        s.b.h.m.calls = 0;
        s.b.h.m.fail_at = at;
        o.grammar_after = at % 2 ? &after : NULL;
        o.n_grammar_after = at % 2;
        st = qsf_turn_new(s.b.c, 0, &s.turn, &s.b.error);
        if (!st) st = qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o);
        CHECK(!st || st == QSF_E_MEMORY);
        s.b.h.m.fail_at = 0;
        o.grammar_after = NULL;
        o.n_grammar_after = 0;
        if (s.turn) {
            answer(&s, s.prompt, PROMPT, &o, &h);
            check_same(&h, &plain);
        }
    }
    for (long at = 1; at < 30; at += 3) {                   /* while forced text is cut into tokens */
        memset(&h, 0, sizeof h);
        if (!scene_sampler(&s, s.so.temperature, s.so.seed)) return;
        CHECK_EQ(qsf_turn_begin(s.turn, s.prompt, PROMPT, s.sampler, &o), QSF_OK);
        s.b.h.m.calls = 0;
        s.b.h.m.fail_at = at;
        while (!pieces(s.turn, &h)) (void)qsf_turn_step(s.turn, NULL);
        s.b.h.m.fail_at = 0;
        CHECK(h.end == QSF_TURN_FAILED ? qsf_turn_error(s.turn)->status == QSF_E_MEMORY : h.n == plain.n);
        CHECK(!memcmp(h.ids, plain.ids, h.n * sizeof *h.ids));
    }
    grammar_drop(g);
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(an_answer_is_of_the_grammar);
    RUN(forced_text_is_the_tokens_that_the_tokenizer_makes);
    RUN(every_kind_of_vocabulary_has_grammars);
    RUN(a_grammar_may_begin_later);
    RUN(an_approximate_head_computes_what_the_grammar_lets_through);
    RUN(turns_under_grammars_share_batches);
    RUN(a_grammar_takes_no_more_memory_than_it_may);
    RUN(a_grammar_begins_behind_reasoning_that_the_prompt_began);
    RUN(log_probabilities_are_the_models_own);
    RUN(end_tokens_wait_for_min_tokens);
    RUN(a_banned_text_does_not_come);
    RUN(without_memory_the_next_grammar_works);
    return test_end();
}
