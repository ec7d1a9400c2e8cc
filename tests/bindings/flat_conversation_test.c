/* Conversations of the flat interface: from messages to events as the library goes, in any order of
 * calls.
 * SPDX-License-Identifier: MIT */
#include "flat_scene.h"

#define TEMPLATE \
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>" \
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</call>" \
    "{% endfor %}[end]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
#define TOOLS \
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"parameters\": {\"type\": \"object\", " \
    "\"properties\": {\"at\": {\"enum\": [15, 25]}}, \"required\": [\"at\"], \"additionalProperties\": " \
    "false}}}]"
static const char with_tools[] = "chat-template\0" TEMPLATE "\0tools\0" TOOLS "\0";
static const char hello[] = "[{\"role\": \"user\", \"content\": \"Hello\"}]";
static const char greedy[] = "temperature\0" "0\0max-tokens\0" "200\0";

static uint32_t long_context(uint32_t model)
{
    const uint32_t c = qsf_flat_context_new(model);
    CHECK_EQ(qsf_flat_context_open(c, "ctx-size\0" "600\0seqs\0" "2\0threads\0" "1\0batch-size\0" "64\0"),
             QSF_OK);
    return c;
}
static int32_t set_hello(uint32_t conversation)
{
    return qsf_flat_conversation_json(conversation, hello, strlen(hello));
}

/* What events said. */
typedef struct told {
    char    text[512], call[64], id[64], arguments[128];
    int32_t calls, end;
} told;

static void add(char *to, size_t cap, const char *more)
{
    CHECK(strlen(to) + strlen(more) < cap);
    if (strlen(to) + strlen(more) < cap) strcat(to, more);
}

static told listen(uint32_t context, uint32_t answer)
{
    told all = { .end = -1 };
    for (bool more = true; more;) {
        more = next_token(context, answer) >= 0;
        for (int32_t type; (type = qsf_flat_answer_event(answer)) != 0;) {
            const char *said = text(answer, "event");
            if (type == QSF_ANSWER_TEXT) add(all.text, sizeof all.text, said);
            if (type == QSF_ANSWER_ARGUMENTS) add(all.arguments, sizeof all.arguments, said);
            if (type == QSF_ANSWER_CALL) add(all.call, sizeof all.call, said);
            if (type == QSF_ANSWER_CALL) add(all.id, sizeof all.id, text(answer, "event-id"));
            all.calls += type == QSF_ANSWER_CALL_END;
        }
    }
    all.end = (int32_t)number(answer, "end");
    return all;
}

TEST(prompts_are_the_tokens_of_the_library)
{
    const uint32_t m = opened(0), c = long_context(m);
    const uint32_t v = qsf_flat_conversation_new(c, "chat-template\0" TEMPLATE "\0");
    int32_t ids[512], own[512];
    size_t n;
    qsf_error error;
    qsf_chat_options o;
    qsf_chat_defaults(&o);
    o.chat_template = TEMPLATE;
    CHECK_EQ(qsf_flat_conversation_prompt(v, own, 512), 0);
    CHECK_EQ(qsf_chat_encode_json(qsf_flat_model(v), hello, strlen(hello), &o, ids, 512, &n, &error), QSF_OK);
    CHECK_EQ(set_hello(v), QSF_OK);
    CHECK_EQ(qsf_flat_conversation_prompt(v, NULL, 0), (int32_t)n);
    own[2] = -7;
    CHECK_EQ(qsf_flat_conversation_prompt(v, own, 2), (int32_t)n);      /* as far as there is room */
    CHECK_EQ(own[2], -7);
    CHECK_EQ(qsf_flat_conversation_prompt(v, own, 512), (int32_t)n);
    CHECK(n > 10 && !memcmp(ids, own, n * sizeof *ids));
    CHECK_EQ(qsf_flat_conversation_text(v, "the <s>", 7), QSF_OK);
    const int32_t flags = QSF_TOK_ADD_SPECIAL | QSF_TOK_PARSE_SPECIAL;
    const int32_t plain = qsf_flat_tokens(m, "the <s>", 7, flags, ids, 512);
    CHECK_EQ(qsf_flat_conversation_prompt(v, own, 512), plain);
    CHECK(plain > 0 && !memcmp(ids, own, (size_t)plain * sizeof *ids));
    CHECK_EQ(qsf_flat_conversation_ids(v, prompt, 4), QSF_OK);
    CHECK(qsf_flat_conversation_prompt(v, own, 512) == 4 && !memcmp(prompt, own, sizeof prompt));
    CHECK_EQ(qsf_flat_conversation_json(v, "{", 1), QSF_E_CORRUPT);
    CHECK_EQ(qsf_flat_status(v), QSF_E_CORRUPT);
    CHECK_EQ(qsf_flat_conversation_prompt(v, own, 512), 0);             /* none is left */
    const uint32_t bad = qsf_flat_conversation_new(c, "template\0" "x\0");
    CHECK_EQ(qsf_flat_status(bad), QSF_E_ARGUMENT);
    CHECK_STR(text(bad, "error"), "template: unknown option");
    CHECK_EQ(set_hello(bad), QSF_E_ARGUMENT);
    const uint32_t other = qsf_flat_conversation_new(c, NULL);          /* bad has no sequence */
    CHECK_EQ(qsf_flat_status(other), QSF_OK);
    free_all((uint32_t[]){ bad, other, v, c, m }, 5);
}

/* The template ends what the assistant says with [end], which the grammar makes the model say. */
TEST(the_text_of_the_template_ends_an_answer)
{
    const uint32_t m = opened(0), c = long_context(m);
    const uint32_t v = qsf_flat_conversation_new(c, "chat-template\0" TEMPLATE "\0");
    for (int way = 0; way < 2; way++) {
        const uint32_t a = qsf_flat_answer_new(v, greedy);
        CHECK_EQ(qsf_flat_answer_grammar(a, NULL, QSF_GRAMMAR_CHOICES, "[\"ab[end]cd\"]", 13), QSF_OK);
        CHECK_EQ(way ? qsf_flat_conversation_text(v, "Hello", 5) : set_hello(v), QSF_OK);
        CHECK_EQ(qsf_flat_answer_begin(a), QSF_OK);
        CHECK_EQ(number(a, "prompt"), qsf_flat_conversation_prompt(v, NULL, 0));
        const told all = listen(c, a);
        CHECK_STR(all.text, way ? "ab[end]cd" : "ab");
        CHECK_EQ(all.end, way ? QSF_TURN_END_TOKEN : QSF_TURN_STOP_TEXT);
        CHECK_STR(text(a, "message"), "(none)");                /* it is not split */
        qsf_flat_free(a);
    }
    free_all((uint32_t[]){ v, c, m }, 3);
}

TEST(calls_are_events_and_have_other_ids_each_time)
{
    const uint32_t m = opened(0), c = long_context(m), v = qsf_flat_conversation_new(c, with_tools);
    told all[2];
    static const char one[] = "tool-choice\0required\0parallel-tool-calls\0false\0";
    CHECK_EQ(qsf_flat_conversation_split(v, one, 0, NULL, 0), QSF_OK);
    CHECK_STR(text(v, "loosened"), "");
    for (int i = 0; i < 2; i++) {
        const uint32_t a = qsf_flat_answer_new(v, greedy);
        CHECK_EQ(set_hello(v), QSF_OK);
        CHECK_EQ(qsf_flat_answer_begin(a), QSF_OK);
        all[i] = listen(c, a);
        CHECK_EQ(all[i].calls, 1);
        CHECK_STR(all[i].call, "look");
        CHECK(strstr(all[i].arguments, "15") || strstr(all[i].arguments, "25"));
        CHECK(strstr(text(a, "message"), "\"name\":\"look\"") != NULL);
        qsf_flat_free(a);
    }
    CHECK(*all[0].id && *all[1].id && strcmp(all[0].id, all[1].id));
    CHECK_STR(all[1].arguments, all[0].arguments);
    CHECK_EQ(qsf_flat_conversation_split(v, "tool-choice\0nothing\0", 0, NULL, 0), QSF_E_ARGUMENT);
    CHECK(*text(v, "error"));
    CHECK_STR(text(v, "loosened"), "(none)");                   /* answers are then not split */
    CHECK_EQ(qsf_flat_conversation_chat(v, "tools\0{\0"), QSF_OK);
    CHECK(qsf_flat_conversation_split(v, NULL, 0, NULL, 0) != QSF_OK);
    free_all((uint32_t[]){ v, c, m }, 3);
}

TEST(options_and_prompts_of_the_next_answer_leave_the_tokens)
{
    const uint32_t m = opened(0), c = long_context(m), v = qsf_flat_conversation_new(c, NULL);
    const uint32_t a = begun(v);
    const int32_t first = next_token(c, a);
    CHECK(*text(a, "piece") || number(a, "token") >= 0);
    CHECK_EQ(set_hello(v), QSF_OK);                     /* of the next answer: this one continues */
    CHECK(next_token(c, a) >= 0);
    const double held = number(v, "length");
    CHECK(held >= 4);
    CHECK_EQ(qsf_flat_conversation_chat(v, "now\0soon\0"), QSF_E_ARGUMENT);
    CHECK(next_token(c, a) >= 0);                       /* nothing has changed */
    CHECK_EQ(qsf_flat_conversation_chat(v, with_tools), QSF_OK);
    CHECK_EQ(qsf_flat_answer_next(a), QSF_E_ARGUMENT);
    CHECK(strstr(text(a, "error"), "has changed"));
    CHECK_EQ(qsf_flat_answer_event(a), 0);
    CHECK_STR(text(a, "piece"), "");
    CHECK_STR(text(a, "event"), "(none)");
    CHECK(number(v, "length") >= held);
    CHECK_EQ(qsf_flat_answer_begin(a), QSF_E_ARGUMENT); /* it has lost its prompt */
    CHECK(strstr(text(a, "error"), "the prompt is empty"));
    const uint32_t b = begun(v);
    CHECK(number(v, "kept") >= 3);
    CHECK_EQ(next_token(c, b), first);
    free_all((uint32_t[]){ a, b, v, c, m }, 5);
}

TEST(events_that_were_not_taken_are_lost)
{
    const uint32_t m = opened(0), c = long_context(m), v = qsf_flat_conversation_new(c, NULL);
    uint32_t a = qsf_flat_answer_new(v, greedy);
    CHECK_EQ(qsf_flat_answer_event(a), 0);
    CHECK_EQ(qsf_flat_answer_grammar(a, NULL, QSF_GRAMMAR_CHOICES, "[\"ab\"]", 6), QSF_OK);
    for (int way = 0; way < 4; way++) {
        CHECK_EQ(begin_ids(v, a, 4), QSF_OK);
        CHECK_EQ(qsf_flat_answer_event(a), 0);
        CHECK(next_token(c, a) >= 0 && *text(a, "piece"));
        if (way == 0) CHECK_EQ(qsf_flat_answer_event(a), QSF_ANSWER_TEXT);
        if (way == 0) CHECK_STR(text(a, "event"), text(a, "piece"));
        if (way == 1) (void)qsf_flat_answer_step(a);
        if (way == 2) qsf_flat_cancel(a);
        if (way == 3) CHECK_EQ(qsf_flat_answer_begin(a), QSF_OK);
        CHECK_EQ(qsf_flat_answer_event(a), 0);
    }
    free_all((uint32_t[]){ a, v, c, m }, 4);
}

/* Dead handles, another conversation's batch, and answers that cannot begin. */
TEST(calls_at_the_wrong_time_are_errors)
{
    const uint32_t m = opened(0), c = long_context(m);
    const uint32_t v = qsf_flat_conversation_new(c, NULL), w = qsf_flat_conversation_new(c, NULL);
    const uint32_t a = begun(v), b = begun(w), late = qsf_flat_answer_new(v, greedy);
    const int32_t first = next_token(c, a);
    CHECK_EQ(next_token(c, b), first);
    CHECK_EQ(qsf_flat_answer_next(b), QSF_PENDING);
    CHECK_EQ(qsf_flat_answer_step(b) & 255, QSF_PENDING);       /* w has an unfinished batch */
    CHECK_EQ(qsf_flat_answer_begin(late), QSF_E_ARGUMENT);
    CHECK(strstr(text(late, "error"), "unfinished batch"));
    CHECK_EQ(qsf_flat_conversation_split(v, NULL, 0, NULL, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_chat(v, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_ids(v, prompt, 4), QSF_OK);
    CHECK_EQ(qsf_flat_answer_next(late), QSF_E_ARGUMENT);
    int32_t after[2];
    after[0] = next_token(c, b);
    after[1] = next_token(c, a);                                /* v's answer was not disturbed */
    CHECK(after[0] >= 0 && after[1] == after[0]);
    CHECK_EQ(qsf_flat_conversation_split(v, NULL, 0, NULL, 0), QSF_OK);
    CHECK_EQ(qsf_flat_answer_next(a), QSF_E_ARGUMENT);
    qsf_flat_free(v);
    CHECK_EQ(set_hello(v), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_text(v, "x", 1), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_ids(v, prompt, 4), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_prompt(v, NULL, 0), -QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_tokens(v, NULL, 0), -QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_chat(v, NULL), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_conversation_split(v, NULL, 0, NULL, 0), QSF_E_ARGUMENT);
    CHECK_EQ(qsf_flat_answer_new(v, NULL), 0);
    CHECK_EQ(qsf_flat_conversation_chat(a, NULL), QSF_E_ARGUMENT);      /* of another kind */
    CHECK_EQ(qsf_flat_conversation_new(m, NULL), 0);
    CHECK_EQ(qsf_flat_answer_begin(late), QSF_OK);      /* what it needs of v stays: the prompt, too */
    free_all((uint32_t[]){ m, c, w, late, a, b }, 6);
    CHECK_EQ(qsf_flat_answer_begin(late), QSF_E_ARGUMENT);
}

/* Pieces are chosen from what the last batch left in the context. */
TEST(pieces_of_a_batch_are_read_before_another_answer_steps)
{
    const uint32_t m = opened(0), c = long_context(m);
    const uint32_t v = qsf_flat_conversation_new(c, NULL), w = qsf_flat_conversation_new(c, NULL);
    const uint32_t a = begun(v), b = begun(w);
    const int32_t first = next_token(c, a), second = next_token(c, a);
    CHECK_EQ(qsf_flat_answer_next(b), QSF_PENDING);
    CHECK_EQ(stepped(c, qsf_flat_answer_step, b), QSF_OK);      /* b's first token is not chosen yet */
    CHECK_EQ(qsf_flat_answer_next(a), QSF_PENDING);
    CHECK_EQ(qsf_flat_answer_step(a), QSF_E_ARGUMENT);
    CHECK(strstr(text(a, "error"), "has pieces"));
    CHECK_EQ(next_token(c, b), first);
    CHECK(next_token(c, a) >= 0);
    CHECK_EQ(next_token(c, b), second);
    CHECK_EQ(qsf_flat_answer_next(b), QSF_PENDING);
    CHECK_EQ(stepped(c, qsf_flat_answer_step, b), QSF_OK);
    qsf_flat_cancel(b);                                         /* or it is cancelled */
    CHECK(next_token(c, a) >= 0);
    CHECK_EQ(qsf_flat_answer_stop(a, "x", 1), QSF_E_ARGUMENT);  /* a turn uses them */
    CHECK_EQ(qsf_flat_answer_grammar(a, NULL, QSF_GRAMMAR_CHOICES, "[\"ab\"]", 6), QSF_E_ARGUMENT);
    CHECK_STR(text(a, "error"), "the answer has begun");
    CHECK_EQ(qsf_flat_answer_stop(b, "x", 1), QSF_OK);
    free_all((uint32_t[]){ a, b, v, w, c, m }, 6);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    scene_files();
    RUN(prompts_are_the_tokens_of_the_library);
    RUN(the_text_of_the_template_ends_an_answer);
    RUN(calls_are_events_and_have_other_ids_each_time);
    RUN(options_and_prompts_of_the_next_answer_leave_the_tokens);
    RUN(events_that_were_not_taken_are_lost);
    RUN(calls_at_the_wrong_time_are_errors);
    RUN(pieces_of_a_batch_are_read_before_another_answer_steps);
    scene_files_done();
    return test_end();
}
