/* The parts of answers: reasoning, text and calls, however the answer is cut into pieces.
 * SPDX-License-Identifier: MIT */
#include "../cli/answer_parts.h"
#include "test.h"

static char seen[4096];
static size_t n_seen;

static void see(void *user, answer_part part, const char *text, size_t len)
{
    static const char *const open[] = { "R(", "|", "T(", "C(" };
    static answer_part last;
    const bool more = n_seen && part == last && part != ANSWER_CALL && part != ANSWER_REASONED;
    (void)user;
    if (more) n_seen--;
    else n_seen += (size_t)snprintf(seen + n_seen, sizeof seen - n_seen, "%s", open[part]);
    n_seen += (size_t)snprintf(seen + n_seen, sizeof seen - n_seen, "%.*s%s", (int)len, text,
                               part == ANSWER_REASONED ? "" : ")");
    last = part;
}

static const char *parts_by(const char *opened, const char *text, size_t step)
{
    answer_parts p;
    const size_t len = strlen(text);
    n_seen = 0;
    seen[0] = 0;
    answer_parts_begin(&p, opened, see, NULL);
    for (size_t at = 0; at < len; at += step)
        answer_parts_add(&p, text + at, len - at < step ? len - at : step);
    answer_parts_end(&p);
    return seen;
}

static void check_parts(const char *opened, const char *text, const char *expected)
{
    for (size_t step = 1; step <= strlen(text) + 1; step++) CHECK_STR(parts_by(opened, text, step), expected);
}

TEST(answers_have_parts)
{
    check_parts(NULL, "Hello.", "T(Hello.)");
    check_parts(NULL, "", "");
    check_parts(NULL, "<think>\nso\n</think>\n\nHi <think>", "R(\nso\n)|T(Hi <think>)");
    check_parts(NULL, " \n<think>a</think>b", "R(a)|T(b)");
    check_parts(NULL, "<think></think>b", "|T(b)");
    check_parts(NULL, "<think>a</thin", "R(a</thin)");
    check_parts(NULL, "<thin air", "T(<thin air)");
    check_parts(NULL, "<thi", "T(<thi)");
    check_parts(NULL, "[THINK]a</think>[/THINK]b", "R(a</think>)|T(b)");
    check_parts(NULL, "<thinking>a</thinking>b", "R(a)|T(b)");
    check_parts("<think>", "a</think></think>b", "R(a)|T(</think>b)");
    check_parts("<think>", "never ends", "R(never ends)");
    check_parts(NULL, "a <tool_call>{}</tool_call>\n<tool_call>x</tool_call> b <tool",
                "T(a )C({})T(\n)C(x)T( b <tool)");
    check_parts(NULL, "<tool_call>half", "C(half)");
    check_parts(NULL, "<tool_call>half</tool_", "C(half</tool_)");
    check_parts(NULL, "<tool_call></tool_call>", "");
    check_parts("<think>", "a<tool_call></think>  <tool_call>{}</tool_call>", "R(a<tool_call>)|C({})");
}

TEST(blanks_before_an_answer_are_its_own)
{
    char text[100], expected[110];
    for (int n = 0; n <= 60; n++) {
        snprintf(text, sizeof text, "%*s<think>x", n, "");
        snprintf(expected, sizeof expected, "T(%s)", text);
        check_parts(NULL, text, n <= 40 ? "R(x)" : expected);
    }
}

TEST(prompts_open_the_reasoning)
{
    CHECK_STR(answer_opened("user: hi <think>\n", 17), "<think>");
    CHECK_STR(answer_opened("[THINK]", 7), "[THINK]");
    CHECK(!answer_opened("<think>\n</think>\n", 17));
    CHECK(!answer_opened("", 0));
    CHECK(!answer_opened("hink>", 5));
}

static size_t text_at(const char *answer) { return answer_text_at(answer, strlen(answer)); }

TEST(whole_answers_have_a_text)
{
    CHECK_EQ(text_at("Hello"), 0);
    CHECK_EQ(text_at("<think>a</think>\n\nHello"), 18);
    CHECK_EQ(text_at("<think>a"), 8);
    CHECK_EQ(text_at("a <think>b</think>"), 0);
    CHECK_EQ(text_at(""), 0);
}

static void check_call(const char *text, const char *name, const char *arguments)
{
    answer_call c;
    char got[64];
    CHECK(answer_call_read(text, strlen(text), &c));
    snprintf(got, sizeof got, "%.*s", (int)c.n_arguments, c.arguments);
    CHECK_STR(c.name, name);
    CHECK_STR(got, arguments);
}

TEST(calls_have_a_name_and_arguments)
{
    answer_call c;
    check_call("\n{\"name\": \"a\\u00e9\", \"arguments\": {\"x\": [\"}\\\"\", {}]}}\n", "a\xc3\xa9",
               "{\"x\": [\"}\\\"\", {}]}");
    check_call("{\"parameters\": {}, \"name\": \"b\"}", "b", "{}");
    check_call("{\"name\": \"c\", \"arguments\": 5}", "c", "{}");
    CHECK(!answer_call_read("{\"arguments\": {}}", 17, &c));
    CHECK(!answer_call_read("<function=f>", 12, &c));
    CHECK(!answer_call_read("", 0, &c));
    CHECK(!answer_call_read("[]", 2, &c));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(answers_have_parts);
    RUN(blanks_before_an_answer_are_its_own);
    RUN(prompts_open_the_reasoning);
    RUN(whole_answers_have_a_text);
    RUN(calls_have_a_name_and_arguments);
    return test_end();
}
