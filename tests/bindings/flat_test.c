/* The flat interface: handles, results that are copied, options by name, several models at once.
 * SPDX-License-Identifier: MIT */
#include "flat_scene.h"

#include <stdatomic.h>

/* The answer of a new conversation. */
static void answer_alone(uint32_t context, int32_t *ids)
{
    const uint32_t v = qsf_flat_conversation_new(context, NULL), a = begun(v);
    for (int i = 0; i < N; i++) ids[i] = next_token(context, a);
    CHECK_EQ(next_token(context, a), -1);
    CHECK_EQ(number(a, "end"), QSF_TURN_MOST);
    qsf_flat_free(a);
    qsf_flat_free(v);
}

/* ---- handles ---- */

TEST(handles_that_were_freed_stay_invalid)
{
    const uint32_t m = opened(0), c = context_of(m);
    qsf_flat_free(m);
    CHECK_EQ(qsf_flat_status(m), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_model_open(m, path[0], NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_context_new(m), 0);
    CHECK(number(c, "layers") > 0);                     /* the context still has it */
    for (uint32_t i = 0; i < 10000; i++) {              /* places are used again, handles are not */
        const uint32_t other = qsf_flat_model_new(NULL, NULL);
        CHECK(other && other != m);
        qsf_flat_free(other);
    }
    CHECK_EQ(qsf_flat_status(m), QSF_E_ARGUMENT);
    const uint32_t v = qsf_flat_conversation_new(c, NULL), a = begun(v);
    qsf_flat_free(c);
    qsf_flat_free(v);
    CHECK_EQ(qsf_flat_answer_next(a), QSF_PENDING);     /* it keeps all that it needs */
    CHECK_EQ(qsf_flat_answer_step(a) & 255, QSF_PENDING);
    qsf_flat_free(a);
    qsf_flat_free(a);
    qsf_flat_free(0);
    qsf_flat_free(UINT32_MAX);
    CHECK_EQ(qsf_flat_answer_next(a), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_answer_next(0), QSF_E_ARGUMENT);
}

typedef struct reading {
    uint32_t    model;
    const char *text;
    size_t      len;
    int32_t     result;
    atomic_bool begun;
} reading;

static void read_text(void *arg)
{
    reading *r = arg;
    atomic_store(&r->begun, true);
    r->result = qsf_flat_tokens(r->model, r->text, r->len, 0, NULL, 0);
}

/* Sanitizers see what is read after it was freed. */
TEST(a_model_that_is_freed_lasts_until_a_text_is_read)
{
    enum { LEN = 300000 };
    const qsf_platform *os = qsf_platform_native();
    char *words = malloc(LEN);
    memset(words, 'a', LEN);
    for (int i = 0; i < 3; i++) {
        reading r = { .model = opened(0), .text = words, .len = LEN };
        const int32_t n = qsf_flat_tokens(r.model, words, LEN, 0, NULL, 0);
        qsf_thread *thread;
        CHECK_EQ(os->thread_start(os->user, read_text, &r, &thread), QSF_OK);
        while (!atomic_load(&r.begun)) ;
        qsf_flat_free(r.model);
        os->thread_join(os->user, thread);
        CHECK(n > 0 && (r.result == n || r.result == -QSF_E_ARGUMENT));     /* freed before it began */
        CHECK_EQ(qsf_flat_tokens(r.model, words, LEN, 0, NULL, 0), -QSF_E_ARGUMENT);
    }
    free(words);
}

TEST(a_handle_of_another_kind_is_invalid)
{
    const uint32_t m = opened(0), c = context_of(m);
    CHECK_EQ(qsf_flat_answer_new(m, NULL), 0);
    CHECK_EQ(qsf_flat_answer_new(c, NULL), 0);
    CHECK_EQ(qsf_flat_conversation_new(m, NULL), 0);
    CHECK_EQ(qsf_flat_embedding_step(c), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_context_plan(m, NULL), QSF_E_ARGUMENT);
    qsf_flat_free(c);
    qsf_flat_free(m);
}

TEST(places_run_out_with_0)
{
    static uint32_t all[5000];
    size_t n = 0;
    while (n < QSF_ARRAY_LEN(all) && (all[n] = qsf_flat_model_new(NULL, NULL))) n++;
    CHECK(n > 4000 && n < QSF_ARRAY_LEN(all));
    while (n) qsf_flat_free(all[--n]);
    const uint32_t m = opened(0);
    CHECK(m != 0);
    qsf_flat_free(m);
}

/* ---- errors, options, results ---- */

TEST(errors_belong_to_their_handles)
{
    const uint32_t m = qsf_flat_model_new(NULL, NULL), good = opened(0);
    CHECK_EQ(qsf_flat_model_open(m, "no/such/file", NULL), QSF_E_NOT_FOUND);
    CHECK_EQ(qsf_flat_status(m), QSF_E_NOT_FOUND);
    CHECK(strstr(text(m, "error"), "no such file"));
    CHECK_EQ(qsf_flat_status(good), QSF_OK);
    CHECK_STR(text(good, "error"), "");
    CHECK_EQ(qsf_flat_context_new(m), 0);               /* not open */
    CHECK_EQ(qsf_flat_model_open(m, path[0], "i2s-layout\0strange\0"), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_model_open(m, path[0], "vocab-only\0perhaps\0"), QSF_E_ARGUMENT);
    CHECK_STR(text(m, "error"), "vocab-only: invalid value");
    CHECK_EQ(qsf_flat_model_open(m, path[0], "kv-window\0" "3\0"), QSF_E_ARGUMENT);
    CHECK_STR(text(m, "error"), "kv-window: unknown option");
    CHECK_EQ(qsf_flat_model_open(m, path[0], NULL), QSF_OK);
    CHECK_EQ(qsf_flat_model_open(m, path[0], NULL), QSF_E_ARGUMENT);
    const uint32_t c = qsf_flat_context_new(m);
    CHECK_EQ(qsf_flat_context_open(c, "kv-type\0strange\0"), QSF_E_ARGUMENT);
    CHECK(strstr(text(c, "error"), "kv-type"));
    CHECK_EQ(qsf_flat_context_plan(c, "ram-budget\0" "0.001\0"), QSF_E_BUDGET);
    CHECK(number(c, "least-bytes") > 1000);
    CHECK_EQ(qsf_flat_context_plan(c, "ctx-size\0" "64\0"), QSF_OK);
    CHECK_EQ(number(c, "context-length"), 64);
    CHECK_EQ(qsf_flat_conversation_new(c, NULL), 0);          /* only planned */
    CHECK_EQ(qsf_flat_context_open(c, "seqs\0" "1\0"), QSF_OK);
    const uint32_t v = qsf_flat_conversation_new(c, NULL), second = qsf_flat_conversation_new(c, NULL);
    CHECK_EQ(qsf_flat_status(v), QSF_OK);
    CHECK_EQ(qsf_flat_status(second), QSF_E_FULL);
    const uint32_t a = qsf_flat_answer_new(v, "top-k\0many\0");
    CHECK_EQ(qsf_flat_status(a), QSF_E_ARGUMENT);
    CHECK_EQ(begin_ids(v, a, 4), QSF_E_ARGUMENT);
    const uint32_t b = qsf_flat_answer_new(v, NULL), none[] = { 0 };
    CHECK_EQ(qsf_flat_answer_next(b), QSF_E_ARGUMENT);  /* not begun */
    CHECK_EQ(begin_ids(v, b, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_answer_grammar(b, NULL, QSF_GRAMMAR_REGEX, "(", 1), QSF_E_ARGUMENT);
    CHECK(*text(b, "error"));
    CHECK_EQ(qsf_flat_conversation_adapt(v, none, (float[]){ 1 }, 1), QSF_E_ARGUMENT);
    const uint32_t all[] = { a, b, second, v, c, good, m };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) qsf_flat_free(all[i]);
}

TEST(results_are_copied_as_far_as_there_is_room)
{
    const uint32_t m = opened(0);
    int32_t ids[64];
    char out[64] = "????????";
    const int32_t n = qsf_flat_tokens(m, "hello world", 11, 0, ids, 64);
    CHECK(n > 1);
    CHECK_EQ(qsf_flat_tokens(m, "hello world", 11, 0, NULL, 0), n);
    ids[1] = -7;
    CHECK_EQ(qsf_flat_tokens(m, "hello world", 11, 0, ids, 1), n);
    CHECK_EQ(ids[1], -7);
    const int32_t format = qsf_flat_find("format", true);
    CHECK_EQ(qsf_flat_text(m, format, 0, out, 3), 3);   /* cut, and terminated */
    CHECK_STR(out, "QS");
    CHECK_EQ(qsf_flat_text(m, format, 0, out, 4), 3);
    CHECK_STR(out, "QSF");
    CHECK_EQ(qsf_flat_text(m, format, 0, NULL, 0), 3);
    CHECK_EQ(qsf_flat_text(m, qsf_flat_find("isa", true), 0, out, 64), -QSF_E_NOT_FOUND);
    CHECK_EQ(qsf_flat_text(m, 1000, 0, out, 64), -QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_find("nonsense", false), -1);
    CHECK_EQ(qsf_flat_number(m, -1, 0), 0);
    static const char message[] = "[{\"role\":\"user\",\"content\":\"hello\"}]";
    const int32_t chat = qsf_flat_chat_text(m, message, strlen(message), NULL, NULL, 0);
    CHECK_EQ(chat, 5);
    char *whole = malloc((size_t)chat + 1);
    CHECK_EQ(qsf_flat_chat_text(m, message, strlen(message), NULL, whole, (size_t)chat + 1), chat);
    CHECK(strstr(whole, "hello") && strlen(whole) == (size_t)chat);
    free(whole);
    CHECK_EQ(qsf_flat_chat_text(m, "{", 1, NULL, out, 64), -QSF_E_CORRUPT);
    qsf_flat_free(m);
}

TEST(numbers_and_texts_have_names)
{
    const uint32_t m = opened(0), c = context_of(m), v = qsf_flat_conversation_new(c, NULL);
    CHECK_STR(text(v, "version"), QSF_VERSION);
    CHECK_STR(text(v, "architecture"), "llama");
    CHECK(strcmp(text(c, "isa"), "(none)"));
    CHECK_EQ(number(v, "vocabulary"), number(m, "vocabulary"));
    CHECK_EQ(number(v, "context-length"), 128);
    CHECK_EQ(number(v, "threads"), 1);
    CHECK_EQ(number(m, "threads"), 0);                  /* of a context */
    double sum = 0;
    for (uint32_t i = 0; qsf_flat_number(c, QSF_NUMBER_ITEM_BYTES, i) >= 0; i++)
        sum += qsf_flat_number(c, QSF_NUMBER_ITEM_BYTES, i);
    CHECK_EQ(sum, number(c, "plan-bytes"));
    qsf_flat_free(v);
    qsf_flat_free(c);
    qsf_flat_free(m);
}

/* ---- answers ---- */

TEST(two_models_answer_at_once_as_each_does_alone)
{
    uint32_t m[2], c[2], v[2], a[2];
    int32_t alone[2][N];
    for (int i = 0; i < 2; i++) {
        m[i] = opened(i);
        c[i] = context_of(m[i]);
        answer_alone(c[i], alone[i]);
        v[i] = qsf_flat_conversation_new(c[i], NULL);
        a[i] = begun(v[i]);
    }
    CHECK(memcmp(alone[0], alone[1], sizeof alone[0]));
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 2; i++) CHECK_EQ(next_token(c[i], a[i]), alone[i][k]);
    for (int i = 0; i < 2; i++) {
        int32_t ids[32];
        CHECK_EQ(next_token(c[i], a[i]), -1);
        const int32_t held = qsf_flat_conversation_tokens(v[i], ids, 32);
        CHECK(held >= 4 + N - 1 && !memcmp(ids, prompt, sizeof prompt));
        CHECK_EQ(number(v[i], "length"), held);
        qsf_flat_free(m[i]);                            /* in any order */
        qsf_flat_free(v[i]);
        qsf_flat_free(c[i]);
        qsf_flat_free(a[i]);
    }
}

TEST(conversations_of_a_context_take_turns_and_leave_at_any_time)
{
    const uint32_t m = opened(0), c = context_of(m);
    int32_t alone[N];
    answer_alone(c, alone);
    const uint32_t v[2] = { qsf_flat_conversation_new(c, NULL), qsf_flat_conversation_new(c, NULL) };
    const uint32_t a[2] = { begun(v[0]), begun(v[1]) };
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++) CHECK_EQ(next_token(c, a[i]), alone[k]);
    /* A batch of the first one is unfinished: the second can wait, or leave. */
    CHECK_EQ(qsf_flat_answer_next(a[0]), QSF_PENDING);
    CHECK_EQ(qsf_flat_answer_step(a[0]) & 255, QSF_PENDING);
    CHECK_EQ(qsf_flat_answer_next(a[1]), QSF_PENDING);
    CHECK_EQ(qsf_flat_answer_step(a[1]), QSF_E_ARGUMENT);
    CHECK(strstr(text(a[1], "error"), "unfinished batch"));
    const uint32_t e = qsf_flat_embedding_new(c, NULL);
    const size_t four = 4;
    CHECK_EQ(qsf_flat_embedding_begin(e, prompt, &four, 1), QSF_E_ARGUMENT);
    qsf_flat_free(a[1]);
    qsf_flat_free(v[1]);
    for (int k = 3; k < N; k++) CHECK_EQ(next_token(c, a[0]), alone[k]);
    /* Cancelled in the middle of a batch: the conversation continues. */
    const uint32_t b = begun(v[0]);
    CHECK_EQ(qsf_flat_answer_next(a[0]), QSF_E_ARGUMENT);       /* another one has begun */
    CHECK_EQ(next_token(c, b), alone[0]);
    CHECK_EQ(qsf_flat_answer_next(b), QSF_PENDING);
    (void)qsf_flat_answer_step(b);
    qsf_flat_cancel(b);
    CHECK_EQ(qsf_flat_answer_next(b), QSF_OK);
    CHECK_EQ(number(b, "end"), QSF_TURN_CANCELLED);
    const uint32_t last = begun(v[0]);
    for (int k = 0; k < N; k++) CHECK_EQ(next_token(c, last), alone[k]);
    const uint32_t all[] = { e, last, b, a[0], v[0], c, m };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) qsf_flat_free(all[i]);
}

TEST(answers_have_stops_grammars_and_log_probabilities)
{
    const uint32_t m = opened(0), c = context_of(m), v = qsf_flat_conversation_new(c, NULL);
    const uint32_t a = qsf_flat_answer_new(v, "temperature\0" "0\0max-tokens\0" "20\0logprobs\0" "2\0");
    int32_t ids[8];
    float values[8];
    CHECK_EQ(qsf_flat_answer_ban(a, "zz", 2), QSF_OK);
    CHECK_EQ(qsf_flat_answer_bias(a, 1, -1), QSF_OK);
    CHECK_EQ(qsf_flat_answer_bias(a, -1, -1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_answer_breaker(a, "", 0), QSF_OK);
    CHECK_EQ(qsf_flat_answer_stop(a, "zy", 2), QSF_OK);
    CHECK_EQ(qsf_flat_answer_stop(a, "yz", 2), QSF_OK);
    CHECK_EQ(qsf_flat_conversation_split(v, "tool-choice\0none\0", QSF_GRAMMAR_CHOICES, "[\"ab\"]", 6),
             QSF_OK);
    CHECK_EQ(begin_ids(v, a, 4), QSF_OK);
    char all[64] = "";
    for (bool more = true; more;) {
        more = next_token(c, a) >= 0;
        CHECK_EQ(qsf_flat_answer_logprobs(a, ids, values, 8), 0);       /* the grammar leaves no choice */
        for (int32_t type; (type = qsf_flat_answer_event(a)) != 0;) {
            CHECK_EQ(type, QSF_ANSWER_TEXT);
            strcat(all, text(a, "event"));
        }
    }
    CHECK_STR(all, "ab");
    CHECK(strstr(text(a, "message"), "\"content\":\"ab\"") || strstr(text(a, "message"),
                                                                     "\"content\": \"ab\""));
    CHECK_STR(text(v, "loosened"), "");
    CHECK_EQ(number(a, "end"), QSF_TURN_END_TOKEN);
    CHECK_EQ(qsf_flat_conversation_chat(v, NULL), QSF_OK);      /* not split any more */
    CHECK_EQ(qsf_flat_answer_next(a), QSF_E_ARGUMENT);
    const uint32_t free_one = qsf_flat_answer_new(v, "temperature\0" "0\0logprobs\0" "2\0");
    CHECK_EQ(begin_ids(v, free_one, 4), QSF_OK);
    const int32_t token = next_token(c, free_one);
    CHECK_EQ(qsf_flat_answer_logprobs(free_one, ids, values, 8), 3);    /* the token, then the best two */
    CHECK(ids[0] == token && ids[1] == token && ids[2] != token);
    CHECK(values[0] <= 0 && values[0] == values[1] && values[2] <= values[1]);
    qsf_flat_free(free_one);
    qsf_flat_free(a);
    qsf_flat_free(v);
    qsf_flat_free(c);
    qsf_flat_free(m);
}

/* ---- embeddings, sessions ---- */

TEST(embeddings_by_steps_are_those_of_the_library)
{
    const uint32_t m = opened(0), c = context_of(m), v = qsf_flat_conversation_new(c, NULL), a = begun(v);
    const int32_t ids[] = { 1, 5, 9, 13, 2, 6, 10 };
    const size_t lens[] = { 4, 3 };
    const uint32_t bad = qsf_flat_embedding_new(c, "pooling\0strange\0");
    CHECK_EQ(qsf_flat_status(bad), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_embedding_begin(bad, ids, lens, 2), QSF_E_ARGUMENT);
    (void)next_token(c, a);
    const uint32_t e = qsf_flat_embedding_new(c, "pooling\0mean\0");
    CHECK_EQ(qsf_flat_embedding_step(e), QSF_E_ARGUMENT);
    const uint32_t width = (uint32_t)number(e, "width");
    CHECK_EQ(width, number(m, "embedding"));
    float *whole = malloc(2 * width * sizeof *whole), *steps = malloc(2 * width * sizeof *steps);
    CHECK_EQ(qsf_flat_embedding_begin(e, ids, lens, 2), QSF_OK);
    CHECK_EQ(stepped(c, qsf_flat_embedding_step, e), QSF_OK);
    CHECK_EQ(qsf_flat_embedding_values(e, NULL, 0), 2 * width);
    CHECK_EQ(qsf_flat_embedding_values(e, steps, 2 * width), 2 * width);
    CHECK_EQ(qsf_flat_answer_next(a), QSF_OK);          /* has ended */
    CHECK_EQ(number(a, "end"), QSF_TURN_CANCELLED);
    CHECK_EQ(number(v, "length"), 0);
    /* Cancelled, and begun again. */
    CHECK_EQ(qsf_flat_embedding_begin(e, ids, lens, 2), QSF_OK);
    CHECK_EQ(qsf_flat_embedding_step(e) & 255, QSF_PENDING);
    CHECK_EQ(begin_ids(v, a, 4), QSF_E_ARGUMENT);
    qsf_flat_cancel(e);
    CHECK_EQ(begin_ids(v, a, 4), QSF_OK);
    CHECK(next_token(c, a) >= 0);
    CHECK_EQ(qsf_flat_embedding_begin(e, ids, &lens[1], 0), QSF_OK);
    CHECK_EQ(qsf_flat_embedding_begin(e, (int32_t[]){ -1, 0, 0 }, &lens[1], 1), QSF_E_ARGUMENT);
    CHECK(strstr(text(e, "error"), "token"));
    qsf_model *model = qsf_flat_model(e);
    qsf_context *own;
    qsf_error error;
    qsf_context_options o;
    qsf_context_defaults(&o);
    o.n_ctx = 128;
    CHECK_EQ(qsf_context_new(model, &o, &own, &error), QSF_OK);
    qsf_embed_options mean = { .size = sizeof mean, .pooling = QSF_POOL_MEAN };
    CHECK_EQ(qsf_embed_texts(own, ids, lens, 2, &mean, whole), QSF_OK);
    CHECK(!memcmp(whole, steps, 2 * width * sizeof *whole));
    qsf_context_free(own);
    free(whole);
    free(steps);
    const uint32_t all[] = { bad, m, c, v, a, e };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) qsf_flat_free(all[i]);
    CHECK(!qsf_flat_model(e));
}

TEST(calls_of_qsf_h_use_a_conversation_s_sequence)
{
    const uint32_t m = opened(0), c = qsf_flat_context_new(m);
    CHECK(!qsf_flat_context(c) && !qsf_flat_context(0) && !qsf_flat_context(m));
    CHECK_EQ(qsf_flat_context_open(c, "ctx-size\0" "128\0"), QSF_OK);
    const uint32_t v = qsf_flat_conversation_new(c, NULL), other = qsf_flat_conversation_new(c, NULL);
    const qsf_seq s = qsf_flat_conversation_sequence(v);
    qsf_context *context = qsf_flat_context(v);
    CHECK(context && context == qsf_flat_context(c) && s >= 0);
    CHECK(s != qsf_flat_conversation_sequence(other));
    CHECK_EQ(qsf_flat_conversation_sequence(c), -1);
    const qsf_row rows[2] = { { s, 5, false }, { s, 6, true } };
    CHECK_EQ(qsf_compute(context, rows, 2), QSF_OK);
    CHECK(qsf_logits(context, 0));
    CHECK_EQ(qsf_seq_length(context, s), 2);
    CHECK_EQ(qsf_flat_conversation_leave(v), QSF_OK);   /* empties it */
    CHECK_EQ(qsf_seq_length(context, s), 0);
    CHECK_EQ(qsf_flat_conversation_sequence(v), -1);
    const uint32_t all[] = { m, c, v, other };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) qsf_flat_free(all[i]);
}

static uint8_t session[1 << 20];
static size_t session_len;
static qsf_status put(void *user, const void *bytes, size_t len)
{
    (void)user;
    if (len > sizeof session - session_len) return QSF_E_IO;
    memcpy(session + session_len, bytes, len);
    session_len += len;
    return QSF_OK;
}
static qsf_status get(void *user, uint64_t at, void *dst, size_t len)
{
    (void)user;
    if (at > session_len || len > session_len - at) return QSF_E_IO;
    memcpy(dst, session + at, len);
    return QSF_OK;
}
TEST(sessions_go_to_another_conversation)
{
    const uint32_t m = opened(0), c = context_of(m), v = qsf_flat_conversation_new(c, NULL), a = begun(v);
    int32_t ids[2][32];
    (void)next_token(c, a);
    (void)next_token(c, a);
    session_len = 0;
    CHECK_EQ(qsf_flat_session_save(v, put, NULL), QSF_OK);
    CHECK_EQ(session_len, number(v, "session-bytes"));
    const uint32_t w = qsf_flat_conversation_new(c, NULL);
    CHECK_EQ(qsf_flat_session_load(w, session_len - 1, get, NULL), QSF_E_CORRUPT);
    CHECK(*text(w, "error"));
    CHECK_EQ(qsf_flat_session_load(w, session_len, get, NULL), QSF_OK);
    const int32_t n = qsf_flat_conversation_tokens(v, ids[0], 32);
    CHECK(n >= 5 && n == qsf_flat_conversation_tokens(w, ids[1], 32));
    CHECK(!memcmp(ids[0], ids[1], (size_t)n * sizeof *ids[0]));
    const uint32_t all[] = { a, v, w, c, m };
    for (size_t i = 0; i < QSF_ARRAY_LEN(all); i++) qsf_flat_free(all[i]);
}

static int lines_logged;
static void logged(void *user, qsf_log_level level, const char *line)
{
    (void)level;
    lines_logged += user == &lines_logged && *line;
}
TEST(warnings_of_a_plan_are_kept_and_logged)
{
    const uint32_t m = qsf_flat_model_new(logged, &lines_logged);
    CHECK_EQ(qsf_flat_model_open(m, path[0], NULL), QSF_OK);
    const uint32_t c = qsf_flat_context_new(m);
    char options[64] = "ctx-size\0" "2000\0ram-budget\0";
    CHECK_EQ(qsf_flat_context_plan(c, "ctx-size\0" "2000\0"), QSF_OK);
    CHECK_STR(text(c, "warnings"), "");
    CHECK_EQ(qsf_flat_context_plan(c, "ctx-size\0" "2000\0ram-budget\0" "0.001\0"), QSF_E_BUDGET);
    snprintf(options + 25, 32, "%.6f", number(c, "least-bytes") / 1e6 + 0.001);
    CHECK_EQ(qsf_flat_context_plan(c, options), QSF_OK);
    CHECK(qsf_flat_text(c, QSF_TEXT_REDUCTION, 0, NULL, 0) > 0);
    CHECK(strstr(text(c, "warnings"), "to stay within"));
    CHECK(lines_logged > 0);
    qsf_flat_free(c);
    qsf_flat_free(m);
}

TEST(a_plan_changes_nothing_of_an_open_context)
{
    const uint32_t m = qsf_flat_model_new(NULL, NULL);
    CHECK_EQ(qsf_flat_model_open(m, path[0], NULL), QSF_OK);
    const uint32_t c = qsf_flat_context_new(m), other = qsf_flat_context_new(m);
    char options[64] = "ctx-size\0" "2000\0ram-budget\0", before[4096];
    CHECK_EQ(qsf_flat_context_plan(c, "ctx-size\0" "2000\0ram-budget\0" "0.001\0"), QSF_E_BUDGET);
    snprintf(options + 25, 32, "%.6f", number(c, "least-bytes") / 1e6 + 0.001);
    CHECK_EQ(qsf_flat_context_open(c, options), QSF_OK);
    snprintf(before, sizeof before, "%s", text(c, "warnings"));
    CHECK(strstr(before, "to stay within"));
    const double bytes = number(c, "plan-bytes");
    CHECK_EQ(qsf_flat_context_plan(c, "ctx-size\0" "64\0"), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_context_plan(other, "ctx-size\0" "64\0"), QSF_OK);
    CHECK_STR(text(other, "warnings"), "");
    CHECK_STR(text(c, "warnings"), before);
    CHECK_EQ(qsf_flat_context_plan(other, options), QSF_OK);
    CHECK_STR(text(other, "warnings"), before);
    CHECK_STR(text(c, "warnings"), before);
    CHECK_EQ(number(c, "plan-bytes"), bytes);
    qsf_flat_free(other);
    CHECK_STR(text(m, "warnings"), before);
    qsf_flat_free(c);
    qsf_flat_free(m);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    scene_files();
    RUN(handles_that_were_freed_stay_invalid);
    RUN(a_model_that_is_freed_lasts_until_a_text_is_read);
    RUN(a_handle_of_another_kind_is_invalid);
    RUN(places_run_out_with_0);
    RUN(errors_belong_to_their_handles);
    RUN(results_are_copied_as_far_as_there_is_room);
    RUN(numbers_and_texts_have_names);
    RUN(two_models_answer_at_once_as_each_does_alone);
    RUN(conversations_of_a_context_take_turns_and_leave_at_any_time);
    RUN(answers_have_stops_grammars_and_log_probabilities);
    RUN(embeddings_by_steps_are_those_of_the_library);
    RUN(calls_of_qsf_h_use_a_conversation_s_sequence);
    RUN(sessions_go_to_another_conversation);
    RUN(warnings_of_a_plan_are_kept_and_logged);
    RUN(a_plan_changes_nothing_of_an_open_context);
    scene_files_done();
    return test_end();
}
