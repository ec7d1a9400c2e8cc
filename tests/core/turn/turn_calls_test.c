/* Turns whose answers begin with a call without the form's marks: its arguments fit the schema, and
 * nothing else is held to it.
 * SPDX-License-Identifier: MIT */
#include "turn_scene.h"

static const char template[] =
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% for m in messages %}<{{ m.role }}>"
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n"
    "</tool_call>{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"city\": {\"enum\": [\"Rome\", \"Oslo\"]}}, \"required\": [\"city\"]}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"ask\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}}}]";

/* Makes the model begin its answer with a string. */
typedef struct begins { const scene *s; const char *text; } begins;
static void begin_with(void *user, float *logits, size_t n)
{
    begins *b = user;
    qsf_turn_state st = { .size = sizeof st };
    qsf_turn_get_state(b->s->turn, &st);
    if (st.n_tokens >= strlen(b->text)) return;
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        const size_t len = qsf_token_piece(b->s->b.m, (int32_t)i, true, &piece);
        if (len == 1 && *piece == b->text[st.n_tokens]) logits[i] += 1e6f;
    }
}

/* The message of an answer that begins with this text; the caller frees it. */
static char *message_of(scene *s, const char *text, uint64_t seed, bool parallel)
{
    qsf_chat_options chat;
    qsf_answer_options ao;
    qsf_answer *a;
    begins b = { s, text };
    const char *json;
    size_t len;
    heard h;
    qsf_chat_defaults(&chat);
    chat.chat_template = template;
    chat.tools = tools;
    qsf_answer_defaults(&ao);
    ao.chat = &chat;
    ao.parallel_tool_calls = parallel;
    CHECK_EQ(qsf_answer_new(s->b.m, &ao, &a, &s->b.error), QSF_OK);
    qsf_turn_options o = options(120);
    CHECK_EQ(qsf_answer_turn(a, &o, &s->b.error), QSF_OK);
    if (!scene_sampler(s, 3, seed)) return NULL;
    qsf_sampler_callback(s->sampler, begin_with, &b);
    memset(&h, 0, sizeof h);
    CHECK_EQ(qsf_turn_begin(s->turn, s->prompt, PROMPT, s->sampler, &o), QSF_OK);
    while (!pieces(s->turn, &h)) (void)qsf_turn_step(s->turn, NULL);
    CHECK(h.n >= strlen(text));
    CHECK_EQ(qsf_answer_push(a, h.text, h.len, true, &s->b.error), QSF_OK);
    CHECK_EQ(qsf_answer_json(a, &json, &len, &s->b.error), QSF_OK);
    char *copy = malloc(len + 1);
    memcpy(copy, json, len + 1);
    qsf_answer_free(a);
    return copy;
}

/* Whether the message has a call of this tool with one of two arguments, blanks aside. */
static bool has_call(const char *message, const char *one, const char *other)
{
    char plain[TEXT];
    size_t n = 0;
    for (const char *p = message; *p && n < sizeof plain - 1; p++)
        if (p[0] == '\\' && p[1] && strchr("nrt", p[1])) p++;
        else if (*p != ' ' && *p != '\\') plain[n++] = *p;
    plain[n] = 0;
    return strstr(plain, one) || (other && strstr(plain, other));
}

TEST(arguments_of_a_call_without_marks_fit_its_schema)
{
    static const char *const heads[] = {
        "{\"name\": \"look\", \"arguments\": {", "{\"name\":\"look\",\"arguments\":{",
        "```json\n{\"name\": \"look\", \"arguments\": {",
    };
    scene s;
    qsf_context_options co = scene_context();
    co.n_ctx = 512;
    if (!scene_begin(&s) || !scene_open(&s, &co)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(heads); i++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            char *message = message_of(&s, heads[i], seed, seed % 2);
            const bool found = message && has_call(message, "\"arguments\":\"{\"city\":\"Rome\"}",
                                                   "\"arguments\":\"{\"city\":\"Oslo\"}");
            if (!found) printf("      %s\n", message);
            CHECK(found);
            free(message);
        }
    scene_end(&s);
}

TEST(text_is_not_held_to_a_schema)
{
    static const char *const texts[] = {
        "x {\"name\": \"look\", \"arguments\": {!!", "{\"name\": \"look\", \"description\": \"!!",
        "{\"name\": \"other\", \"arguments\": {!!", "{\"look\": {\"arguments\": {!!", "[{!!", "\n{\"a\": !!",
    };
    scene s;
    qsf_context_options co = scene_context();
    co.n_ctx = 512;
    if (!scene_begin(&s) || !scene_open(&s, &co)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++) {
        char *message = message_of(&s, texts[i], i + 1, true);
        const bool free_text = message && strstr(message, "!!") && !strstr(message, "tool_calls");
        if (!free_text) printf("      %s\n", message);
        CHECK(free_text);
        free(message);
    }
    scene_end(&s);
}

/* After the call any text may follow, and no less is read of it. */
TEST(text_may_follow_a_call_without_marks)
{
    static const char text[] = "{\"name\": \"ask\", \"arguments\": {\"n\": 12}}\n\nThat was it!!";
    scene s;
    qsf_context_options co = scene_context();
    co.n_ctx = 512;
    if (!scene_begin(&s) || !scene_open(&s, &co)) return;
    char *message = message_of(&s, text, 1, true);
    CHECK(message && strstr(message, "\"content\":\"That was it!!") && has_call(message, "{\"n\":12}", NULL));
    free(message);
    scene_end(&s);
}

TEST(a_single_call_without_marks_ends_the_answer)
{
    static const char *const texts[] = { "{\"name\": \"ask\", \"arguments\": {\"n\": 12}}",
                                         "```json\n{\"name\": \"ask\", \"arguments\": {\"n\": 12}}" };
    scene s;
    qsf_context_options co = scene_context();
    co.n_ctx = 512;
    if (!scene_begin(&s) || !scene_open(&s, &co)) return;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            char *message = message_of(&s, texts[i], seed, false);
            const bool ends = message && has_call(message, "{\"n\":12}", NULL)
                && strstr(message, "\"content\":null");
            if (!ends) printf("      %s\n", message);
            CHECK(ends);
            free(message);
        }
    scene_end(&s);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(arguments_of_a_call_without_marks_fit_its_schema);
    RUN(text_is_not_held_to_a_schema);
    RUN(text_may_follow_a_call_without_marks);
    RUN(a_single_call_without_marks_ends_the_answer);
    return test_end();
}
