/* GBNF and lists of choices: what they say, where they are refused, and what ends in a message.
 * SPDX-License-Identifier: MIT */
#include "grammar_case.h"
#include "test.h"
#include "text/choices.h"

TEST(gbnf_is_refused_at_its_place)
{
    static const struct { const char *text, *why; } bad[] = {
        { "", "no rule \"root\"" }, { "root = \"a\"", "line 1, column 6" },
        { "root ::= \"a", "column 10: this text has no end" }, { "root ::= a", "rule a is used" },
        { "root ::= [a", "no end" }, { "root ::= \"\\q\"", "escape" }, { "root ::= (\"a\"", "no \")\"" },
        { "root ::= \"a\")", "column 13" }, { "root ::= *", "repeated" },
        { "root ::= \"a\"{2,1}", "at least more" }, { "root ::= \"a\"{x}", "number" },
        { "root ::= \"\\x4\"", "hexadecimal" }, { "root ::= \"a\"{99999999999}", "too large" },
        { "root ::= <think>", "<token> is not supported" }, { "root ::= root", "no text fits" },
        { "root ::= \"a\" root", "no text fits" }, { "root ::= []", "without characters" },
        { "x ::= \"a\"\n root ::= x\n| \"b\"", "line 3, column 1" },
        { "root ::= \"\\U00110000\"", "no such character" },
    };
    qsf_error err;
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        qsf_grammar *g = gbnf(bad[i].text, &err);
        if (g || !strstr(err.text, bad[i].why)) {
            test_fail(__FILE__, __LINE__, bad[i].text);
            printf("      %s\n", g ? "is taken" : err.text);
        }
        qsf_grammar_drop(g);
    }
}

static bool takes(const char *rules, const char *text)
{
    qsf_error err;
    qsf_grammar *g = gbnf(rules, &err);
    const bool fits = g && qsf_grammar_accepts(g, text, strlen(text), NULL);
    if (!g) test_fail(__FILE__, __LINE__, err.text);
    qsf_grammar_drop(g);
    return fits;
}

TEST(gbnf_has_what_llama_cpp_reads)
{
    CHECK(takes("# words\nroot ::= w-1 | # or\n  \"x\" (\n\"y\" |\n\t[^a-c\\]\\-]\n )+\nw-1 ::=\n"
                " \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\"",
                "A\xc3\xa9\xf0\x9f\x98\x80\t\"\\"));
    CHECK(takes("root ::= [a-] [-z] .{2} \"b\"{1,}", "-z\n\xc3\xa9" "bbb"));
    CHECK(takes("root ::= \"ab\"{2} \"c\"{0,1} [x-z]{1,}", "ababxyz") && !takes("root ::= \"ab\"{2}", "ab"));
    CHECK(takes("root ::= (\"a\" | )+ \"b\"", "aab") && takes("root ::= ((\"a\"?)* \"b\"?)*", "abba"));
    CHECK(takes("root ::= e\ne ::= e \"-\" e | n e? | n\nn ::= [0-9]", "1-2-34"));
    CHECK(takes("a ::= b \"x\" | \"y\"\nb ::= a? a \"z\"\nroot ::= a", "yyzx"));
}

TEST(grammars_that_blow_up_end_in_a_message)
{
    enum { DEEP = 20000 };
    static char text[24 * DEEP + 64];
    qsf_error err;
    size_t n = (size_t)snprintf(text, sizeof text, "root ::= ");
    for (int i = 0; i < DEEP; i++) text[n++] = '(';         /* nothing recurses */
    text[n++] = '.';
    for (int i = 0; i < DEEP; i++) n += (size_t)snprintf(text + n, 3, ")%c", "?*+ "[i % 4]);
    text[n] = 0;
    qsf_grammar *g = gbnf(text, &err);
    CHECK(g != NULL);
    qsf_grammar_drop(g);
    n = 0;                                      /* each rule is two of the next: 2^40 characters */
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, i ? "r%d ::= r%d r%d\n" : "root ::= r%d\n",
                              i ? i : 1, i + 1, i + 1);
    snprintf(text + n, sizeof text - n, "r40 ::= \"a\"\n");
    CHECK(!takes(text, "aaaaaaaaaaaa"));
    n = (size_t)snprintf(text, sizeof text, "root ::= ");   /* a chain of rules, the last one first */
    for (int i = 0; i < DEEP; i++) n += (size_t)snprintf(text + n, sizeof text - n, "r%d\nr%d ::= ", i, i);
    snprintf(text + n, sizeof text - n, "\"a\"\n");
    CHECK(takes(text, "a"));
    CHECK(takes("root ::= ((.{0,900}){0,900}){0,900} (.{0,900} \"a\"{3,900}){2,900}", "aaaaaaaaaaaa"));
    n = (size_t)snprintf(text, sizeof text, "root ::= r0\n");       /* rules that begin with each other */
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "r%d ::= r%d \"x\" | \"y\"\n", i, (i + 1) % 40);
    g = gbnf(text, &err);
    CHECK(!g && err.status == QSF_E_BUDGET && strstr(err.text, "32 rules"));
}

/* The part n times, then what follows n times: ever more ways in which "aaa..." fits. */
static void check_ways(const char *part, const char *follow, size_t n)
{
    static char rules[1 << 16], text[2048];
    qsf_error err;
    size_t len = (size_t)snprintf(rules, sizeof rules, "root ::= ");
    for (size_t i = 0; i < 2 * n; i++)
        len += (size_t)snprintf(rules + len, sizeof rules - len, "%s ", i < n ? part : follow);
    memset(text, 'a', sizeof text);
    qsf_grammar *g = gbnf(rules, &err);
    CHECK(g && !qsf_grammar_accepts(g, text, sizeof text, NULL));
    CHECK(g && g->status == QSF_E_BUDGET && strstr(g->err.text, "ways at once"));
    qsf_grammar_drop(g);
}

TEST(texts_that_fit_in_many_ways_end_in_a_message)
{
    check_ways("\"a\"?", "\"a\"", 2000);
    check_ways("\"a\"?", "", 2000);
    check_ways(".*", "\"a\"", 2000);
    check_ways("(\"a\" | \"aa\" \"c\"*)*", "[ab]", 1000);
}

TEST(long_texts_may_take_more_effort_than_one_token)
{
    enum { PARTS = 80, TIMES = 60 };
    char rules[PARTS * 5 + 64], text[TIMES * (PARTS + 1) + 1];
    size_t len = (size_t)snprintf(rules, sizeof rules, "root ::= (");
    for (int i = 0; i < PARTS; i++) len += (size_t)snprintf(rules + len, sizeof rules - len, "\"a\"? ");
    snprintf(rules + len, sizeof rules - len, "\"b\"){%d}", TIMES);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 1; i <= TIMES; i++) text[i * (PARTS + 1) - 1] = 'b';
    CHECK(takes(rules, text));
}

static bool chooses(const char *list, const char *text)
{
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_error err;
    CHECK_EQ(qsf_grammar_begin(qsf_platform_native(), &b, &err), QSF_OK);
    qsf_grammar_finish(b, qsf_choices_nodes(b, list, strlen(list)), &g, &err);
    const bool fits = g && qsf_grammar_accepts(g, text, strlen(text), NULL);
    qsf_grammar_drop(g);
    return fits;
}

TEST(choices_are_lines_or_a_list)
{
    CHECK(chooses("yes\nno\r\n\nmay be", "no") && chooses("yes\nno\r\n\nmay be", "may be"));
    CHECK(chooses("[\"a\\nb\", \"c\"]", "a\nb") && !chooses("yes\nno", "y") && !chooses("[\"a\", 1]", "a"));
    CHECK(!chooses("\n", "") && !chooses("[]", ""));
}

int main(int argc, char **argv)
{
    test_begin(argc, argv);
    RUN(gbnf_is_refused_at_its_place);
    RUN(gbnf_has_what_llama_cpp_reads);
    RUN(grammars_that_blow_up_end_in_a_message);
    RUN(texts_that_fit_in_many_ways_end_in_a_message);
    RUN(long_texts_may_take_more_effort_than_one_token);
    RUN(choices_are_lines_or_a_list);
    return test_end();
}
