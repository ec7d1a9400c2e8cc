/* GBNF and lists of choices: what they say, where they are refused, and what ends in a message.
 * SPDX-License-Identifier: MIT */
#include "grammar_case.h"
#include "test.h"
#include "grammar/choices.h"
#include "grammar/lark.h"
#include "grammar/regex.h"

TEST(gbnf_is_refused_at_its_place)
{
    static const struct { const char *text, *why; } bad[] = {
        { "", "rule \"root\" is missing" }, { "root = \"a\"", "line 1, column 6" },
        { "root ::= \"a", "column 10: this string is not closed" }, { "root ::= a", "rule a is used" },
        { "root ::= [a", "not closed" }, { "root ::= \"\\q\"", "escape" }, { "root ::= (\"a\"", "no \")\"" },
        { "root ::= \"a\")", "column 13" }, { "root ::= *", "nothing to repeat" },
        { "root ::= \"a\"{2,1}", "minimum is larger" }, { "root ::= \"a\"{x}", "number" },
        { "root ::= \"\\x4\"", "hexadecimal" }, { "root ::= \"a\"{99999999999}", "too large" },
        { "root ::= <think>", "<token> is not supported" }, { "root ::= root", "no string fits" },
        { "root ::= \"a\" root", "no string fits" }, { "root ::= []", "an empty class" },
        { "x ::= \"a\"\n root ::= x\n| \"b\"", "line 3, column 1" },
        { "root ::= \"\\U00110000\"", "not a character" },
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

static qsf_grammar *lark(const char *text, uint32_t flags, qsf_error *err)
{
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    *err = (qsf_error){ 0 };
    if (!qsf_grammar_begin(qsf_platform_native(), &b, err))
        qsf_grammar_finish(b, qsf_lark_nodes(b, text, strlen(text), flags), &g, err);
    return g;
}

TEST(lark_is_refused_at_its_place)
{
    static const struct { const char *text, *why; } bad[] = {
        { "", "rule \"start\" is missing" }, { "start = \"a\"", "line 1, column 7: \":\" is missing" },
        { "start: \"a", "column 8: this string is not closed" }, { "start: a", "a is used and not defined" },
        { "start: INT", "is an %import common missing?" }, { "start: /a", "pattern is not closed" },
        { "start: (\"a\"", "bracket is not closed" }, { "start: \"a\")", "column 11: expected a part" },
        { "start: *", "nothing to repeat" }, { "start: \"a\"~2..1", "minimum is larger" },
        { "start: \"a\"~x", "a number is missing" }, { "start: \"ab\"..\"c\"", "two single characters" },
        { "start: \"b\"..\"a\"", "ends before it begins" }, { "start: \"\\x4\"", "not a character" },
        { "start: a{\"b\"}", "templates are not supported" }, { "a{x}: x", "templates are not supported" },
        { "%declare A", "supported are %import and %ignore" }, { "%import python.NAME", "only common" },
        { "%import common.NAME", "no terminal of this name" },
        { "A: b\nb: \"x\"\nstart: A", "consist of terminals" },
        { "start: \"a\"\nstart: \"b\"", "line 2, column 11: this name was defined before" },
        { "start: start", "no string fits" }, { "start: /a/x", "flag of a pattern" },
        { "start: /(?>a)/", "atomic groups" }, { "start: \"a\" ->", "a name is missing" },
        { "\nstart: \"a\" \"b\" }", "line 2, column 16" },
    };
    qsf_error err;
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        qsf_grammar *g = lark(bad[i].text, 0, &err);
        if (g || !strstr(err.text, bad[i].why)) {
            test_fail(__FILE__, __LINE__, bad[i].text);
            printf("      %s\n", g ? "is taken" : err.text);
        }
        qsf_grammar_drop(g);
    }
}

static bool lark_takes_all(const char *rules, uint32_t flags, const char *const *texts)
{
    qsf_error err;
    qsf_grammar *g = lark(rules, flags, &err);
    bool all = g != NULL;
    if (!g) test_fail(__FILE__, __LINE__, err.text);
    for (size_t i = 0; g && texts[i]; i++) {
        const bool fits = qsf_grammar_accepts(g, texts[i] + 1, strlen(texts[i] + 1), NULL);
        if (fits == (texts[i][0] == '+')) continue;
        test_fail(__FILE__, __LINE__, texts[i]);
        all = false;
    }
    qsf_grammar_drop(g);
    return all;
}
#define LARK(rules, ...) CHECK(lark_takes_all(rules, 0, (const char *const[]){ __VA_ARGS__, NULL }))

TEST(lark_has_its_common_subset)
{
    LARK("?start: sum\n?sum: product\n    | sum \"+\" product -> add\n?product: atom | product \"*\" atom\n"
         "atom: NUMBER -> number | \"(\" sum \")\"\n%import common.NUMBER\n%import common.WS_INLINE\n"
         "%ignore WS_INLINE\n", "+1+2*(3 + 4.5e1)", "+ 1 ", "-1+", "-(1");
    LARK("// a comment\nstart: \"select\"i NAME [\"where\"i NAME]  # another\nNAME.2: (\"a\"..\"z\")~1..3\n"
         "%ignore /\\s+/\n", "+SELECT abc", "+select a WHERE b", "-select abcd", "-select");
    LARK("%import common (INT, CNAME -> ID)\n!start: ID \"=\" INT (\",\" INT)* \";\"?\n", "+a_1=1,22;",
         "+b=3", "-1=1", "-a=1,");
    LARK("start: /[A-F]+/i \"\\n\"+ \"\\\\\" \"\\u00e9\" \"\\d\"\n", "+aB\n\n\\\xc3\xa9\\d",
         "-G\n\\\xc3\xa9\\d");
    LARK("start: (\"a\"\n  | \"b\")* c\nc:\n  | \"c\"\n", "+abc", "+", "-ca");
    LARK("%llguidance {}\nstart: STRING COMMENT\nSTRING: ESCAPED_STRING\nCOMMENT: C_COMMENT\n"
         "%import common.ESCAPED_STRING\n%import common.C_COMMENT\n", "+\"a\\\"b\"/* * / **/",
         "-\"a\"b\"/**/");
    CHECK(lark_takes_all("start: \"a\\n\" /[\"x]/ \"q\"i", QSF_REGEX_JSON,
                         (const char *const[]){ "+a\\n\\\"Q", "+a\\nxq", "-a\n\"q", NULL }));
    CHECK(qsf_lark_is("start: a", 8) && qsf_lark_is("%import x", 9) && qsf_lark_is("# x\n?a : b", 10));
    CHECK(!qsf_lark_is("root ::= a", 10) && !qsf_lark_is("", 0) && !qsf_lark_is("root = a", 8));
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
    RUN(lark_is_refused_at_its_place);
    RUN(lark_has_its_common_subset);
    RUN(gbnf_has_what_llama_cpp_reads);
    RUN(grammars_that_blow_up_end_in_a_message);
    RUN(texts_that_fit_in_many_ways_end_in_a_message);
    RUN(long_texts_may_take_more_effort_than_one_token);
    RUN(choices_are_lines_or_a_list);
    return test_end();
}
