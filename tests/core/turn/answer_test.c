/* Answers by the public interface: which tokens are marks, which are text.
 * SPDX-License-Identifier: MIT */
#include "mem_platform.h"
#include "model/model.h"
#include "small_vocab.h"
#include "test.h"

static const char template_text[] =
    "{% for m in messages %}<|s|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</call>"
    "{% endfor %}<|e|>{% endfor %}{% if add_generation_prompt %}<|s|>assistant\n{% endif %}";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"at\": {\"type\": \"integer\"}}}}}]";

enum { CALL = 256, CALL_END, START, END, OTHER, BROKEN };       /* tokens after the bytes */

static small_vocab vocab;
static qsf_source source;
static qsf_model model = { .source = &source };

static void model_make(void)
{
    qsf_error e = { 0 };
    small_bpe(&vocab, "gpt2");
    vocab.v.n_tokens = CALL;
    add_token(&vocab, "<call>", QSF_TOKEN_CONTROL, 0);
    add_token(&vocab, "</call>", QSF_TOKEN_CONTROL, 0);
    add_token(&vocab, "<|s|>", QSF_TOKEN_CONTROL, 0);
    add_token(&vocab, "<|e|>", QSF_TOKEN_CONTROL, 0);
    add_token(&vocab, "<|other|>", QSF_TOKEN_CONTROL, 0);
    add_token(&vocab, "<\xff>", QSF_TOKEN_CONTROL, 0);
    vocab.v.n_merges = 0;
    vocab.v.bos = vocab.v.eos = END;
    source.vocab = vocab.v;
    source.hp.n_vocab = vocab.v.n_tokens;
    model.platform = qsf_platform_native();
    model.chat_end = -1;
    CHECK_EQ(qsf_tokenizer_new(model.platform, &source.vocab, &model.tokenizer, &e), QSF_OK);
}

/* What a turn gives of these tokens, which are letters and ~ with a digit; the message. */
static const char *message_of(qsf_answer *a, const qsf_turn_options *o, const char *tokens)
{
    qsf_error e;
    const char *text;
    size_t len;
    qsf_answer_reset(a, 1);
    for (const char *p = tokens; *p; p++) {
        const int32_t id = *p == '~' ? CALL + *++p - '0' : (uint8_t)*p;
        const size_t n = qsf_token_shown(&model, id, o->special_in, &text);
        qsf_answer_token(a, id);
        CHECK_EQ(qsf_answer_push(a, text, n, !p[1], &e), QSF_OK);
    }
    CHECK_EQ(qsf_answer_json(a, &text, &len, &e), QSF_OK);
    return text;
}

TEST(control_tokens_are_marks_or_nothing)
{
    static const struct { const char *tokens, *message; } rows[] = {
        { "H\xc3~5\xbci.~5~1", "{\"role\":\"assistant\",\"content\":\"H\u00fci.\"}" },
        { "Hi~4.~1", "{\"role\":\"assistant\",\"content\":\"Hi.\"}" },
        { "Hi<|other|></call>~1~4.", "{\"role\":\"assistant\",\"content\":\"Hi<|other|></call>.\"}" },
        { "~0{\"name\": \"look\", \"arguments\": {\"at\": 5}}~1", "{\"role\":\"assistant\",\"content\":null,"
          "\"tool_calls\":[{\"id\":\"plbPwCHg2\",\"type\":\"function\",\"function\":{\"name\":\"look\","
          "\"arguments\":\"{\\\"at\\\": 5}\"}}]}" },
        { "~0{\"name\": \"lo\xc3~0\xbck", "{\"role\":\"assistant\",\"content\":\"{\\\"name\\\": \\\"lo"
          "\xef\xbf\xbd\xef\xbf\xbdk\"}" },
    };
    qsf_answer *a = NULL;
    qsf_answer_options o;
    qsf_chat_options chat;
    qsf_turn_options turn;
    qsf_error e = { 0 };
    qsf_answer_defaults(&o);
    qsf_chat_defaults(&chat);
    chat.chat_template = template_text;
    chat.tools = tools;
    o.chat = &chat;
    model_make();
    CHECK_EQ(qsf_answer_new(&model, &o, &a, &e), QSF_OK);
    if (!a) printf("    %s\n", e.text);
    if (!a) return;
    qsf_turn_defaults(&turn);
    CHECK_EQ(qsf_answer_turn(a, &turn, &e), QSF_OK);
    CHECK(turn.special && turn.special_in && turn.grammar);
    for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++)
        CHECK_STR(message_of(a, &turn, rows[i].tokens), rows[i].message);
    qsf_turn_defaults(&turn);
    turn.special = true;                                /* all control tokens are wanted */
    CHECK_EQ(qsf_answer_turn(a, &turn, &e), QSF_OK);
    CHECK(!turn.special_in);
    CHECK_STR(message_of(a, &turn, "Hi~5"), "{\"role\":\"assistant\",\"content\":\"Hi<\xef\xbf\xbd>\"}");
    CHECK_STR(message_of(a, &turn, "Hi~4"), "{\"role\":\"assistant\",\"content\":\"Hi<|other|>\"}");
    qsf_answer_free(a);
    qsf_tokenizer_free(model.tokenizer);
}

/* The generation prompt of this template begins reasoning; other prompts do not. */
TEST(an_answer_that_is_continued_begins_as_text)
{
    static const char source_text[] =
        "{% for m in messages %}<|s|>{{ m.role }}\n{% if m.reasoning_content %}<think>"
        "{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}<|e|>{% endfor %}"
        "{% if add_generation_prompt %}<|s|>assistant\n<think>{% endif %}";
    static const struct { bool continues, generate; const char *tokens, *message; } rows[] = {
        { false, true, "Hm</think>Hi",
          "{\"role\":\"assistant\",\"content\":\"Hi\",\"reasoning_content\":\"Hm\"}" },
        { true, true, "Hi", "{\"role\":\"assistant\",\"content\":\"Hi\"}" },
        { true, false, "Hi", "{\"role\":\"assistant\",\"content\":\"Hi\"}" },
        { false, false, "Hi", "{\"role\":\"assistant\",\"content\":\"Hi\"}" },
        { true, false, "<think>Hm</think>Hi",
          "{\"role\":\"assistant\",\"content\":\"Hi\",\"reasoning_content\":\"Hm\"}" },
    };
    qsf_answer_options o;
    qsf_chat_options chat;
    qsf_turn_options turn;
    qsf_error e = { 0 };
    model_make();
    for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++) {
        qsf_answer *a = NULL;
        qsf_answer_defaults(&o);
        qsf_chat_defaults(&chat);
        qsf_turn_defaults(&turn);
        chat.chat_template = source_text;
        chat.continue_final_message = rows[i].continues;
        chat.add_generation_prompt = rows[i].generate;
        o.chat = &chat;
        CHECK_EQ(qsf_answer_new(&model, &o, &a, &e), QSF_OK);
        if (!a) continue;
        CHECK_EQ(qsf_answer_turn(a, &turn, &e), QSF_OK);
        CHECK_EQ(turn.in_reasoning, i == 0);
        CHECK_STR(turn.reasoning_end, "</think>");
        CHECK_STR(message_of(a, &turn, rows[i].tokens), rows[i].message);
        qsf_answer_free(a);
    }
    qsf_tokenizer_free(model.tokenizer);
}

/* An answer with a call that is none, whole and cut ones; its last status. */
static qsf_status answer_all(void)
{
    static const char text[] = "<call>{\"name\": 5}</call>```json\n{\"name\": \"look\", \"arguments\": {}}"
        "\n```\n<call>{\"name\": \"look\", \"arguments\": {\"at\": ";
    qsf_answer *a = NULL;
    qsf_answer_options o;
    qsf_chat_options chat;
    qsf_turn_options turn;
    qsf_error e = { 0 };
    const char *json;
    size_t len;
    qsf_answer_defaults(&o);
    qsf_chat_defaults(&chat);
    qsf_turn_defaults(&turn);
    chat.chat_template = template_text;
    chat.tools = tools;
    o.chat = &chat;
    qsf_status st = qsf_answer_new(&model, &o, &a, &e);
    if (!st) st = qsf_answer_turn(a, &turn, &e);
    for (size_t i = 0; !st && text[i]; i++) {
        qsf_answer_event event = { .size = sizeof event };
        qsf_answer_token(a, i == 50 ? CALL_END : (uint8_t)text[i]);
        st = qsf_answer_push(a, text + i, 1, !text[i + 1], &e);
        while (!st && !qsf_answer_next(a, &event)) { }
    }
    if (!st) st = qsf_answer_json(a, &json, &len, &e);
    if (!st) CHECK(strstr(json, "\"unfinished\":true") != NULL);
    qsf_answer_free(a);
    return st;
}

TEST(answers_survive_without_memory)
{
    mem_host h;
    model_make();
    mem_host_init(&h);
    model.platform = &h.p;
    for (long n = 1; n < 10000; n += 1 + n / 60) {
        h.calls = 0;
        h.fail_at = n;
        const qsf_status st = answer_all();
        CHECK_EQ(st, h.calls < n ? QSF_OK : QSF_E_MEMORY);
        CHECK_EQ(h.live, 0);
        if (h.calls < n) break;
    }
    mem_host_done(&h);
    model.platform = qsf_platform_native();
    qsf_tokenizer_free(model.tokenizer);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(control_tokens_are_marks_or_nothing);
    RUN(an_answer_that_is_continued_begins_as_text);
    RUN(answers_survive_without_memory);
    return test_end();
}
