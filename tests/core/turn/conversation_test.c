/* Conversations: from messages to events, as the functions that they combine give them.
 * SPDX-License-Identifier: MIT */
#include "turn_scene.h"

static const char template_text[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</call>"
    "{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"strict\": true, \"parameters\": {"
    "\"type\": \"object\", \"properties\": {\"at\": {\"enum\": [15, 25]}}, \"required\": [\"at\"],"
    " \"additionalProperties\": false}}}]";
static const qsf_message hello[] = { { "user", "Hello" }, { "assistant", "Hi" }, { "user", "there" } };
static const char hello_json[] = "[{\"role\": \"user\", \"content\": \"Hello\"}, {\"role\": \"assistant\", "
                                 "\"content\": \"Hi\"}, {\"role\": \"user\", \"content\": \"there\"}]";

enum { LONG_CTX = 2048 };

/* A scene with a longer context, and a conversation. */
typedef struct talk {
    scene s;
    qsf_conversation *c;
} talk;

static qsf_chat_options chat_options(const char *with_tools)
{
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    o.chat_template = template_text;
    o.tools = with_tools;
    return o;
}

static bool talk_begin(talk *t, const qsf_chat_options *chat)
{
    qsf_context_options co = scene_context();
    co.n_ctx = LONG_CTX;
    *t = (talk){ 0 };
    return scene_begin(&t->s) && scene_open(&t->s, &co)
        && bench_ok(&t->s.b, qsf_conversation_new(t->s.b.m, chat, &t->c, &t->s.b.error));
}

static void talk_end(talk *t)
{
    qsf_conversation_free(t->c);
    scene_end(&t->s);
}

/* What events said. */
typedef struct told {
    char   text[TEXT], reasoning[TEXT], name[64], arguments[TEXT], id[64];
    size_t calls, n_tokens, n_logprobs;
    qsf_turn_end end;
} told;

static void add(char *to, size_t cap, const char *text, size_t len)
{
    const size_t n = strlen(to);
    CHECK(n + len < cap);
    if (n + len >= cap) return;
    memcpy(to + n, text, len);
    to[n + len] = 0;
}

static void tell(told *all, const qsf_answer_event *e)
{
    switch (e->type) {
    case QSF_ANSWER_TEXT:
    case QSF_ANSWER_CALL_CUT: add(all->text, TEXT, e->text, e->len); break;
    case QSF_ANSWER_REASONING: add(all->reasoning, TEXT, e->text, e->len); break;
    case QSF_ANSWER_CALL:
        add(all->name, sizeof all->name, e->text, e->len);
        add(all->id, sizeof all->id, e->id, e->id_len);
        break;
    case QSF_ANSWER_ARGUMENTS: add(all->arguments, TEXT, e->text, e->len); break;
    case QSF_ANSWER_CALL_END: all->calls++; break;
    case QSF_ANSWER_CALL_DROPPED: CHECK(false); break;
    }
}

/* Everything of the turn that was begun; the first status that is not QSF_OK. */
static qsf_status listen(talk *t, told *all)
{
    qsf_turn_piece p = { .size = sizeof p };
    qsf_answer_event e = { .size = sizeof e };
    *all = (told){ 0 };
    while (!p.end) {
        const qsf_status st = qsf_conversation_next(t->c, &p);
        if (st == QSF_PENDING) (void)qsf_turn_step(t->s.turn, NULL);
        else if (st) return st;
        else while (!qsf_conversation_event(t->c, &e)) tell(all, &e);
        if (st) continue;
        all->n_tokens += p.token >= 0;
        all->n_logprobs += p.n_logprobs;
    }
    all->end = p.end;
    return QSF_OK;
}

static qsf_status begin(talk *t, const qsf_turn_options *o)
{
    if (!scene_sampler(&t->s, t->s.so.temperature, t->s.so.seed)) return QSF_E_MEMORY;
    return qsf_conversation_begin(t->c, t->s.turn, t->s.sampler, o);
}

TEST(prompts_are_the_tokens_that_encoding_gives)
{
    talk t;
    int32_t ids[LONG_CTX];
    size_t n, n_own;
    const int32_t *own;
    const qsf_chat_options chat = chat_options(NULL);
    if (!talk_begin(&t, &chat)) return;
    const qsf_model *m = t.s.b.m;
    CHECK_EQ(qsf_chat_encode_json(m, hello_json, strlen(hello_json), &chat, ids, LONG_CTX, &n, &t.s.b.error),
             QSF_OK);
    CHECK(n > 20);
    for (int way = 0; way < 2; way++) {
        CHECK_EQ(way ? qsf_conversation_json(t.c, hello_json, strlen(hello_json))
                     : qsf_conversation_messages(t.c, hello, QSF_ARRAY_LEN(hello)), QSF_OK);
        own = qsf_conversation_tokens(t.c, &n_own);
        CHECK(n_own == n && !memcmp(own, ids, n * sizeof *ids));
    }
    CHECK_EQ(qsf_chat_encode(m, template_text, hello, 3, true, ids, LONG_CTX, &n, &t.s.b.error), QSF_OK);
    CHECK(n_own == n && !memcmp(own, ids, n * sizeof *ids));
    const int flags = QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL;
    CHECK_EQ(qsf_tokens_encode(m, "the <s>", 7, flags, ids, LONG_CTX, &n, &t.s.b.error), QSF_OK);
    CHECK_EQ(qsf_conversation_text(t.c, "the <s>", 7), QSF_OK);
    own = qsf_conversation_tokens(t.c, &n_own);
    CHECK(n_own == n && !memcmp(own, ids, n * sizeof *ids));
    CHECK_EQ(qsf_conversation_ids(t.c, t.s.prompt, PROMPT), QSF_OK);
    own = qsf_conversation_tokens(t.c, &n_own);
    CHECK(n_own == PROMPT && own != t.s.prompt && !memcmp(own, t.s.prompt, PROMPT * sizeof *ids));
    talk_end(&t);
}

/* Tools that the template ignores are written for it: more tokens than the messages have bytes. */
TEST(a_prompt_longer_than_the_guess_is_encoded_again)
{
    talk t;
    size_t n, more;
    char many[TEXT] = "[";
    for (int i = 0; i < 20; i++)
        qsf_format(many + strlen(many), sizeof many - strlen(many),
                   "%s{\"type\":\"function\",\"function\":{\"name\":\"a function with a long name %d\"}}",
                   i ? "," : "", i);
    add(many, sizeof many, "]", 1);
    const qsf_chat_options chat = chat_options(many);
    if (!talk_begin(&t, &chat)) return;
    CHECK_EQ(qsf_conversation_messages(t.c, hello, QSF_ARRAY_LEN(hello)), QSF_OK);
    (void)qsf_conversation_tokens(t.c, &n);
    CHECK(n > 1000);
    CHECK_EQ(qsf_conversation_error(t.c)->status, QSF_OK);
    CHECK_EQ(qsf_conversation_json(t.c, hello_json, strlen(hello_json)), QSF_OK);
    (void)qsf_conversation_tokens(t.c, &more);
    CHECK_EQ(more, n);
    talk_end(&t);
}

TEST(an_answer_that_is_not_split_is_its_text)
{
    talk t;
    heard h;
    told all;
    if (!talk_begin(&t, NULL)) return;
    qsf_turn_options o = options(MOST);
    o.logprobs = 1;
    answer(&t.s, t.s.prompt, PROMPT, &o, &h);
    for (int split = 0; split < 2; split++) {
        CHECK_EQ(qsf_conversation_ids(t.c, t.s.prompt, PROMPT), QSF_OK);
        CHECK_EQ(begin(&t, &o), QSF_OK);
        CHECK(qsf_conversation_turn(t.c) == t.s.turn);
        CHECK_EQ(listen(&t, &all), QSF_OK);
        CHECK_STR(all.text, h.text);
        CHECK_EQ(all.end, h.end);
        CHECK_EQ(all.n_tokens, h.n);
        CHECK_EQ(all.n_logprobs, 2 * h.n);
        qsf_answer_options ao;
        qsf_answer_defaults(&ao);
        CHECK(!qsf_conversation_answer(t.c) == !split);
        CHECK_EQ(qsf_conversation_split(t.c, split ? NULL : &ao), QSF_OK);
    }
    qsf_answer_event e = { .size = sizeof e };
    CHECK_EQ(qsf_conversation_event(t.c, &e), QSF_PENDING);
    talk_end(&t);
}

/* A template whose answers end with these bytes, and whose prompts do not have them. */
static bool conversation_with_end(talk *t, const char *end)
{
    char text[512];
    qsf_chat_options chat = chat_options(NULL);
    qsf_format(text, sizeof text, "{%% for m in messages %%}{{ m.content }}{%% if m.role == 'assistant' %%}"
               "{{ '%s' }}{%% endif %%}{%% endfor %%}", end);
    chat.chat_template = text;
    qsf_conversation_free(t->c);
    t->c = NULL;
    return bench_ok(&t->s.b, qsf_conversation_new(t->s.b.m, &chat, &t->c, &t->s.b.error));
}

TEST(the_text_that_ends_an_answer_is_a_stop_string)
{
    talk t;
    told all, h;
    size_t len, n = 0;
    const char *stop, *other = "<never said>";
    char said[8] = "";
    if (!talk_begin(&t, NULL) || !conversation_with_end(&t, "[the end]")) return;
    CHECK_EQ(qsf_conversation_stop(t.c, &stop, &len), QSF_OK);
    CHECK_STR(stop, "[the end]");
    CHECK_EQ(len, 9);
    qsf_turn_options o = options(MOST);
    o.ignore_end = false;
    o.min_tokens = MOST;
    o.stops = &other;
    o.n_stops = 1;
    CHECK_EQ(qsf_conversation_messages(t.c, hello, 1), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(listen(&t, &all), QSF_OK);
    CHECK_EQ(all.end, QSF_TURN_MOST);
    /* A character of the answer, which a template can write. */
    while (n < 5 || strchr("'\\{}%# \t\r\n", all.text[n]) || (all.text[n] & 0xc0) == 0x80) n++;
    for (len = 1; (all.text[n + len] & 0xc0) == 0x80;) len++;
    add(said, sizeof said, all.text + n, len);
    if (!conversation_with_end(&t, said)) return;
    CHECK_EQ(qsf_conversation_messages(t.c, hello, 1), QSF_OK);
    for (int way = 0; way < 4; way++) {
        o.n_stops = way != 1;
        o.ignore_end = way == 2;        /* then the template's string ends nothing, as without messages */
        if (way == 3) CHECK_EQ(qsf_conversation_text(t.c, "Hello", 5), QSF_OK);
        CHECK_EQ(begin(&t, &o), QSF_OK);
        CHECK_EQ(listen(&t, &h), QSF_OK);
        CHECK_EQ(h.end, way < 2 ? QSF_TURN_STOP_TEXT : QSF_TURN_MOST);
        if (way < 2) CHECK_EQ(strlen(h.text), (size_t)(strstr(all.text, said) - all.text));
    }
    talk_end(&t);
}

TEST(without_a_text_that_ends_answers_tokens_do)
{
    talk t;
    told all;
    size_t len;
    const char *stop;
    qsf_chat_options chat = chat_options(NULL);
    chat.chat_template = "{% for m in messages %}{% if m.role == 'assistant' %}"
                         "{{ raise_exception('no answers') }}{% endif %}{{ m.content }}{% endfor %}";
    if (!talk_begin(&t, &chat)) return;
    CHECK(qsf_conversation_stop(t.c, &stop, &len) != QSF_OK);
    CHECK(strstr(qsf_conversation_error(t.c)->text, "no answers") && !*stop && !len);
    const qsf_turn_options o = options(3);
    CHECK_EQ(qsf_conversation_messages(t.c, hello, 1), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(qsf_conversation_error(t.c)->status, QSF_OK);
    CHECK_EQ(listen(&t, &all), QSF_OK);
    CHECK_EQ(all.n_tokens, 3);
    talk_end(&t);
}

TEST(calls_come_as_events_and_have_other_ids_each_time)
{
    talk t;
    told all, again;
    const qsf_chat_options chat = chat_options(tools);
    qsf_answer_options ao;
    qsf_answer_defaults(&ao);
    ao.tool_choice = "required";
    ao.parallel_tool_calls = false;
    if (!talk_begin(&t, &chat)) return;
    CHECK_EQ(qsf_conversation_split(t.c, &ao), QSF_OK);
    qsf_turn_options o = options(200);
    o.ignore_end = false;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(qsf_conversation_messages(t.c, hello, 3), QSF_OK);
        CHECK_EQ(begin(&t, &o), QSF_OK);
        CHECK_EQ(listen(&t, i ? &again : &all), QSF_OK);
    }
    CHECK_EQ(all.calls, 1);
    CHECK_STR(all.name, "look");
    CHECK(strstr(all.arguments, "\"at\"") && (strstr(all.arguments, "15") || strstr(all.arguments, "25")));
    CHECK_STR(again.arguments, all.arguments);
    CHECK(*all.id && *again.id && strcmp(again.id, all.id));
    const char *json;
    size_t len;
    CHECK_EQ(qsf_answer_json(qsf_conversation_answer(t.c), &json, &len, &t.s.b.error), QSF_OK);
    CHECK(strstr(json, "\"name\":\"look\"") != NULL);
    CHECK_EQ(all.end, QSF_TURN_END_TOKEN);
    talk_end(&t);
}

TEST(a_cancelled_answer_ends_with_what_was_held_back)
{
    talk t;
    qsf_turn_piece p = { .size = sizeof p };
    const qsf_turn_options o = options(-1);
    if (!talk_begin(&t, NULL)) return;
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_E_ARGUMENT);
    CHECK_STR(qsf_conversation_error(t.c)->text, "no turn was started");
    CHECK_EQ(qsf_conversation_ids(t.c, t.s.prompt, PROMPT), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_PENDING);      /* nothing waits here for rows */
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_PENDING);
    for (int n = 0; n < 3;) {
        if (qsf_conversation_next(t.c, &p)) (void)qsf_turn_step(t.s.turn, NULL);
        else n++;
    }
    CHECK_EQ(state(&t.s).n_done, PROMPT);
    CHECK_EQ(state(&t.s).n_tokens, 3);
    qsf_turn_cancel(t.s.turn);
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_OK);
    CHECK(p.end == QSF_TURN_CANCELLED && p.token < 0);
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_OK);           /* and again */
    CHECK(p.end == QSF_TURN_CANCELLED && !p.len);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(state(&t.s).n_kept, PROMPT - 1);
    CHECK_EQ(qsf_conversation_split(t.c, NULL), QSF_OK);        /* ends what runs */
    CHECK_EQ(state(&t.s).end, QSF_TURN_CANCELLED);
    CHECK(!qsf_conversation_turn(t.c));
    talk_end(&t);
}

TEST(errors_have_a_text_and_leave_no_prompt)
{
    talk t;
    size_t n;
    qsf_answer_options ao;
    qsf_turn_piece p = { .size = 3 };
    const char *stop;
    qsf_chat_options chat = chat_options("not JSON");
    if (!talk_begin(&t, &chat)) return;
    const qsf_turn_options o = options(MOST);
    const qsf_error *e = qsf_conversation_error(t.c);
    qsf_answer_defaults(&ao);
    CHECK_EQ(qsf_conversation_split(t.c, &ao), QSF_E_CORRUPT);
    CHECK(strstr(e->text, "tools") && !qsf_conversation_answer(t.c));
    CHECK_EQ(qsf_conversation_messages(t.c, hello, 3), QSF_E_CORRUPT);
    (void)qsf_conversation_tokens(t.c, &n);
    CHECK_EQ(n, 0);
    CHECK_EQ(begin(&t, &o), QSF_E_ARGUMENT);
    CHECK(strstr(e->text, "the prompt is empty") != NULL);
    qsf_conversation_free(t.c);
    chat = chat_options(NULL);
    chat.chat_template = "no-such-template";
    CHECK_EQ(qsf_conversation_new(t.s.b.m, &chat, &t.c, &t.s.b.error), QSF_OK);
    e = qsf_conversation_error(t.c);
    CHECK_EQ(qsf_conversation_stop(t.c, &stop, &n), QSF_E_NOT_FOUND);
    CHECK_STR(stop, "");
    CHECK_EQ(qsf_conversation_json(t.c, hello_json, strlen(hello_json)), QSF_E_NOT_FOUND);
    CHECK(strstr(e->text, "no-such-template") != NULL);
    qsf_conversation_free(t.c);
    CHECK_EQ(qsf_conversation_new(t.s.b.m, NULL, &t.c, &t.s.b.error), QSF_OK);
    e = qsf_conversation_error(t.c);
    CHECK_EQ(qsf_conversation_messages(t.c, hello, SIZE_MAX / 2), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_conversation_json(t.c, "[", 1), QSF_E_CORRUPT);
    int32_t *ids = calloc(LONG_CTX + 1, sizeof *ids);
    CHECK_EQ(qsf_conversation_ids(t.c, ids, LONG_CTX + 1), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_E_FULL);
    CHECK_STR(e->text, "the prompt has 2049 tokens, the context 2048 positions");
    CHECK_EQ(qsf_conversation_ids(t.c, ids, 9), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_E_ARGUMENT);   /* a struct of no version */
    free(ids);
    qsf_conversation_free(NULL);
    talk_end(&t);
}

/* What a scheduler does, which computes rows by itself. */
TEST(rows_may_be_computed_by_others)
{
    talk t;
    told alone;
    heard h;
    qsf_row rows[16];
    qsf_turn_piece p = { .size = sizeof p };
    qsf_answer_event e = { .size = sizeof e };
    if (!talk_begin(&t, NULL)) return;
    const qsf_turn_options o = options(MOST);
    CHECK_EQ(qsf_conversation_ids(t.c, t.s.prompt, PROMPT), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(listen(&t, &alone), QSF_OK);
    float *copy = calloc(16 * t.s.b.n_vocab, sizeof *copy);
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        CHECK_EQ(begin(&t, &o), QSF_OK);
        qsf_turn *turn = qsf_conversation_turn(t.c);
        h = (heard){ 0 };
        for (p.end = QSF_TURN_GOES_ON; !p.end;) {
            if (qsf_conversation_next(t.c, &p) == QSF_OK) {
                while (!qsf_conversation_event(t.c, &e)) add(h.text, TEXT, e.text, e.len);
                continue;
            }
            const size_t n = qsf_turn_rows(turn, rows, 16);
            CHECK_EQ(qsf_compute(t.s.b.c, rows, n), QSF_OK);
            if (rows[n - 1].logits) memcpy(copy, qsf_logits(t.s.b.c, 0), t.s.b.n_vocab * sizeof *copy);
            CHECK_EQ(elsewhere ? qsf_turn_computed_elsewhere(turn, copy) : qsf_turn_computed(turn, 0),
                     rows[n - 1].logits);
        }
        CHECK_STR(h.text, alone.text);
        CHECK_EQ(p.end, alone.end);
    }
    free(copy);
    talk_end(&t);
}

/* The pieces of a turn as another thread may keep them. */
typedef struct kept { qsf_turn_piece p; char text[64]; } kept;
enum { KEPT = 300 };

/* Runs a turn without a conversation. */
static size_t run_apart(talk *t, const int32_t *ids, size_t n, const qsf_turn_options *o, kept *out)
{
    size_t n_pieces = 0;
    qsf_turn_piece p = { .size = sizeof p };
    if (!scene_sampler(&t->s, t->s.so.temperature, t->s.so.seed)) return 0;
    CHECK_EQ(qsf_turn_begin(t->s.turn, ids, n, t->s.sampler, o), QSF_OK);
    while (!p.end && n_pieces < KEPT) {
        if (qsf_turn_next(t->s.turn, &p) == QSF_PENDING) {
            (void)qsf_turn_step(t->s.turn, NULL);
            continue;
        }
        kept *k = &out[n_pieces++];
        k->p = (qsf_turn_piece){ .size = sizeof k->p, .token = p.token, .end = p.end, .len = p.len };
        CHECK(p.len < sizeof k->text);
        if (p.len >= sizeof k->text) break;
        memcpy(k->text, p.text, p.len + 1);
    }
    CHECK(p.end != QSF_TURN_GOES_ON);
    return n_pieces;
}

/* What the pieces say in a conversation that has no turn. */
static void listen_apart(qsf_conversation *c, kept *pieces, size_t n, told *all)
{
    qsf_answer_event e = { .size = sizeof e };
    *all = (told){ 0 };
    for (size_t i = 0; i < n; i++) {
        pieces[i].p.text = pieces[i].text;
        CHECK_EQ(qsf_conversation_push(c, &pieces[i].p), QSF_OK);
        while (!qsf_conversation_event(c, &e)) tell(all, &e);
        all->n_tokens += pieces[i].p.token >= 0;
        all->end = pieces[i].p.end;
    }
}

/* One conversation prepares the turn, another one with its grammar is given the pieces. */
TEST(the_halves_give_what_the_whole_gives)
{
    talk t;
    told whole, one, other;
    static kept pieces[KEPT];
    qsf_conversation *second = NULL;
    const qsf_chat_options chat = chat_options(tools);
    qsf_answer_options ao;
    qsf_turn_options o = options(200), out;
    size_t n;
    qsf_answer_defaults(&ao);
    qsf_turn_defaults(&out);
    ao.tool_choice = "required";
    ao.parallel_tool_calls = false;
    o.ignore_end = false;
    if (!talk_begin(&t, &chat)) return;
    CHECK_EQ(qsf_conversation_split(t.c, &ao), QSF_OK);
    CHECK_EQ(qsf_conversation_messages(t.c, hello, 3), QSF_OK);
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(listen(&t, &whole), QSF_OK);
    CHECK_EQ(whole.calls, 1);
    CHECK_EQ(qsf_conversation_split(t.c, &ao), QSF_OK);
    CHECK_EQ(qsf_conversation_prepare(t.c, &o, &out), QSF_OK);
    CHECK(!qsf_conversation_turn(t.c));
    CHECK_EQ(out.max_tokens, o.max_tokens);
    CHECK(out.grammar && out.special && out.special_in && strstr(out.special_in, "<call>"));
    CHECK_EQ(out.n_stops, 1);
    CHECK(out.stop_lengths && out.stop_lengths[0] == 5 && !memcmp(out.stops[0], "[end]", 5));
    const int32_t *ids = qsf_conversation_tokens(t.c, &n);
    const size_t n_pieces = run_apart(&t, ids, n, &out, pieces);
    listen_apart(t.c, pieces, n_pieces, &one);
    CHECK_EQ(qsf_conversation_new(t.s.b.m, &chat, &second, &t.s.b.error), QSF_OK);
    ao.like = qsf_conversation_answer(t.c);
    CHECK_EQ(qsf_conversation_split(second, &ao), QSF_OK);
    listen_apart(second, pieces, n_pieces, &other);
    for (int i = 0; i < 2; i++) {
        const told *is = i ? &other : &one;
        CHECK_STR(is->text, whole.text);
        CHECK_STR(is->name, whole.name);
        CHECK_STR(is->arguments, whole.arguments);
        CHECK_STR(is->id, whole.id);
        CHECK_EQ(is->calls, whole.calls);
        CHECK_EQ(is->n_tokens, whole.n_tokens);
        CHECK_EQ(is->end, whole.end);
    }
    const qsf_grammar *first = out.grammar;
    CHECK_EQ(qsf_conversation_prepare(second, &o, &out), QSF_OK);
    CHECK(out.grammar == first);
    qsf_conversation_free(second);
    talk_end(&t);
}

/* Without splitting, and with tokens that were encoded elsewhere. */
TEST(a_prompt_encoded_elsewhere_ends_as_messages_do)
{
    talk t;
    told all;
    qsf_turn_piece p = { .size = sizeof p, .text = "Hi", .len = 2 };
    qsf_turn_options o = options(3), out;
    qsf_answer_event e = { .size = sizeof e };
    const qsf_chat_options chat = chat_options(NULL);
    static kept pieces[2] = { { { .size = sizeof p, .len = 2 }, "Hi" },
                              { { .size = sizeof p, .token = -1, .end = QSF_TURN_MOST, .len = 1 }, "!" } };
    if (!talk_begin(&t, &chat)) return;
    qsf_turn_defaults(&out);
    for (int way = 0; way < 3; way++) {
        o.ignore_end = way == 2;
        CHECK_EQ(way ? qsf_conversation_encoded(t.c, t.s.prompt, PROMPT)
                     : qsf_conversation_ids(t.c, t.s.prompt, PROMPT), QSF_OK);
        CHECK_EQ(qsf_conversation_prepare(t.c, &o, &out), QSF_OK);
        CHECK_EQ(out.n_stops, way == 1);
        CHECK(!out.grammar && !out.special);
        listen_apart(t.c, pieces, 2, &all);
        CHECK_STR(all.text, "Hi!");
        CHECK_EQ(qsf_conversation_push(t.c, &p), QSF_OK);       /* after the end */
        CHECK_EQ(qsf_conversation_event(t.c, &e), QSF_PENDING);
    }
    p.size = out.size = 3;
    CHECK_EQ(qsf_conversation_push(t.c, &p), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_conversation_prepare(t.c, &o, &out), QSF_E_ARGUMENT);
    p.size = sizeof p;
    CHECK_EQ(qsf_conversation_next(t.c, &p), QSF_E_ARGUMENT);
    CHECK_STR(qsf_conversation_error(t.c)->text, "no turn was started");
    CHECK_EQ(begin(&t, &o), QSF_OK);
    CHECK_EQ(qsf_conversation_push(t.c, &pieces[0].p), QSF_E_ARGUMENT);
    CHECK_EQ(listen(&t, &all), QSF_OK);
    CHECK_EQ(all.n_tokens, 3);
    talk_end(&t);
}

/* From a new conversation to the end of an answer with a call; the status of what failed. */
static qsf_status all_of_it(talk *t, told *all)
{
    const qsf_chat_options chat = chat_options(tools);
    const qsf_turn_options o = options(60);
    qsf_answer_options ao;
    qsf_answer_defaults(&ao);
    ao.tool_choice = "required";
    qsf_status st = qsf_conversation_new(t->s.b.m, &chat, &t->c, &t->s.b.error);
    if (!st) st = qsf_conversation_messages(t->c, hello, 3);
    if (!st) st = qsf_conversation_split(t->c, &ao);
    if (!st) st = qsf_conversation_json(t->c, hello_json, strlen(hello_json));
    if (!st) st = qsf_conversation_begin(t->c, t->s.turn, t->s.sampler, &o);
    if (!st) st = listen(t, all);
    if (!st && all->end == QSF_TURN_FAILED) st = qsf_conversation_error(t->c)->status;
    if (t->c && st) CHECK_EQ(qsf_conversation_error(t->c)->status, st);
    qsf_conversation_free(t->c);
    t->c = NULL;
    return st;
}

TEST(any_allocation_may_fail)
{
    talk t;
    told right, all;
    if (!talk_begin(&t, NULL)) return;
    qsf_conversation_free(t.c);
    t.c = NULL;
    if (!scene_sampler(&t.s, 1, 5)) return;
    CHECK_EQ(all_of_it(&t, &right), QSF_OK);
    CHECK_EQ(right.calls, 1);
    const long live = t.s.b.h.m.live;
    for (long n = 1; n < 100000 && !test_failed; n += 1 + n / 60) {
        if (!scene_sampler(&t.s, 1, 5)) return;
        t.s.b.h.m.calls = 0;
        t.s.b.h.m.fail_at = n;
        const qsf_status st = all_of_it(&t, &all);
        t.s.b.h.m.fail_at = 0;
        const bool over = t.s.b.h.m.calls < n;
        CHECK_EQ(st, over ? QSF_OK : QSF_E_MEMORY);
        CHECK(t.s.b.h.m.live <= live + 3);      /* the turn keeps its lists */
        if (over) break;
    }
    if (!scene_sampler(&t.s, 1, 5)) return;
    CHECK_EQ(all_of_it(&t, &all), QSF_OK);
    CHECK_STR(all.arguments, right.arguments);
    talk_end(&t);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(prompts_are_the_tokens_that_encoding_gives);
    RUN(a_prompt_longer_than_the_guess_is_encoded_again);
    RUN(an_answer_that_is_not_split_is_its_text);
    RUN(the_text_that_ends_an_answer_is_a_stop_string);
    RUN(without_a_text_that_ends_answers_tokens_do);
    RUN(calls_come_as_events_and_have_other_ids_each_time);
    RUN(a_cancelled_answer_ends_with_what_was_held_back);
    RUN(errors_have_a_text_and_leave_no_prompt);
    RUN(rows_may_be_computed_by_others);
    RUN(the_halves_give_what_the_whole_gives);
    RUN(a_prompt_encoded_elsewhere_ends_as_messages_do);
    RUN(any_allocation_may_fail);
    return test_end();
}
