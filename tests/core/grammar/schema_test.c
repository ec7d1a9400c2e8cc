/* Regular expressions and JSON Schema as grammars: which texts fit, and what is refused.
 * SPDX-License-Identifier: MIT */
#include "test.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>

/* The grammar of a pattern (flags >= 0) or of a schema; on a failure *err has the error's text. */
static qsf_status make(const char *text, int flags, uint32_t blanks, qsf_grammar **out, qsf_error *err)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_schema_options o = { .size = sizeof o, .blanks = blanks };
    qsf_grammar_builder *b;
    qsf_json j = { 0 };
    qsf_gnode root;
    *out = NULL;
    *err = (qsf_error){ 0 };
    qsf_status st = flags < 0 ? qsf_json_read(p, text, strlen(text), "test", &j, err) : QSF_OK;
    if (st || (st = qsf_grammar_begin(p, &b, err))) return st;
    root = flags >= 0 ? qsf_regex_nodes(p, b, text, strlen(text), (uint32_t)flags, "--regex")
                      : qsf_schema_nodes(p, b, j.nodes, &o);
    qsf_json_drop(&j);
    return qsf_grammar_finish(b, root, out, err);
}

/* texts[0] is the pattern or schema; the others begin with + where they fit, with - elsewhere. */
static void check_texts(const char *const *texts, int flags, uint32_t blanks, int line)
{
    qsf_grammar *g;
    qsf_matcher *m = NULL;
    qsf_error err;
    char what[600];
    if (make(texts[0], flags, blanks, &g, &err) ||
        qsf_matcher_new(qsf_platform_native(), g, NULL, &m, &err)) {
        qsf_format(what, sizeof what, "%s: %s", texts[0], err.text);
        test_fail(__FILE__, line, what);
    }
    for (size_t i = 1; m && texts[i]; i++) {
        const size_t n = strlen(texts[i] + 1);
        qsf_matcher_reset(m);
        const bool fits = qsf_matcher_bytes(m, texts[i] + 1, n) == n && qsf_matcher_whole(m);
        if (fits == (texts[i][0] == '+')) continue;
        qsf_format(what, sizeof what, "%s: %s", texts[0], texts[i]);
        test_fail(__FILE__, line, what);
    }
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}
#define PATTERN(...) check_texts((const char *const[]){ __VA_ARGS__, NULL }, 0, 0, __LINE__)
#define SEARCH(...)  check_texts((const char *const[]){ __VA_ARGS__, NULL }, QSF_REGEX_SEARCH, 0, __LINE__)
#define SCHEMA(...)  check_texts((const char *const[]){ __VA_ARGS__, NULL }, -1, 0, __LINE__)

static void check_refused(const char *text, int flags, qsf_status want, const char *word, int line)
{
    qsf_grammar *g;
    qsf_error err;
    char what[600];
    const qsf_status st = make(text, flags, 0, &g, &err);
    qsf_grammar_drop(g);
    if (st == want && strstr(err.text, word)) return;
    qsf_format(what, sizeof what, "%s: %d, %s", text, (int)st, err.text);
    test_fail(__FILE__, line, what);
}
#define NO_PATTERN(text, word) check_refused(text, 0, QSF_E_ARGUMENT, word, __LINE__)
#define NO_SCHEMA(text, word)  check_refused(text, -1, QSF_E_ARGUMENT, word, __LINE__)

/* ---- patterns ---- */

TEST(patterns_have_what_their_dialects_share)
{
    PATTERN("(foo|ba[rz])+\\d{2,3}", "+foo12", "+bazfoo123", "-foo1", "-foo1234", "-12", "- foo12");
    PATTERN("a*?b+?c??", "+b", "+aabbc", "-ac");
    PATTERN("a{2}b{1,}c{0,2}{", "+aab{", "+aabbcc{", "-ab{", "-aabccc{");
    PATTERN("[^a-c\\d]", "+d", "+\xc3\xa9", "-a", "-5", "-");
    PATTERN("[\\w.-]+@\\S+", "+a-b.c@d", "-a b@d", "-a@d e");
    PATTERN("[]x]|[^]", "+x", "+]", "+\n");
    PATTERN("\\u00e9\\x41\\t\\/\\u{1F600}\\cA\\.", "+\xc3\xa9""A\t/\xf0\x9f\x98\x80\x01.", "-A");
    PATTERN("(?:a|)(?<name>b|)(?P<n>c)", "+abc", "+bc", "+c", "-ab");
    PATTERN("\\p{Lu}\\P{L}\\pN", "+A-1", "+\xc3\x89 2", "-a-1", "-AB1");
    PATTERN(".", "+\xe4\xb8\xad", "-\n", "-ab");
    PATTERN("", "+", "-a");
    PATTERN("x{,3}", "+x{,3}", "-x");
}

TEST(anchors_are_places)
{
    PATTERN("^ab$", "+ab", "-b");
    SEARCH("b", "+abc", "+b", "-ac");
    SEARCH("^b", "+bc", "-abc");
    SEARCH("b$|^c", "+ab", "+cd", "-bc");
    SEARCH("(^|,)foo(,|$)", "+foo", "+a,foo", "+foo,b", "-afoo", "-foob");
    SEARCH("^a*$", "+", "+aa", "-ab");
    SEARCH("(^a)?b", "+ab", "+cb", "-a");
    PATTERN("(a|$)$", "+a", "+", "-b");
    PATTERN("^^(^|b)c$$", "+c", "+bc", "-b");
    PATTERN("(^a|b){0}c", "+c", "-ac", "-bc");
}

/* Patterns as written by zod, pydantic and password forms. */
TEST(lookaround_word_edges_and_flags_are_kept)
{
    PATTERN("^(?=.*[A-Z])(?=.*\\d).{8,}$", "+abcdefG1", "-abcdefgh", "-abcdefG", "-aG1");
    PATTERN("(?!\\.)(?!.*\\.\\.)([A-Z0-9_'+\\-\\.]*)[A-Z0-9_+-]@([A-Z0-9][A-Z0-9\\-]*\\.)+[A-Z]{2,}",
            "+A.B@X-Y.COM", "-A..B@X.COM", "-.A@X.COM", "-A.@X.COM");
    PATTERN("P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+S)?)?)", "+P1Y2D",
            "+PT5S", "+P3W", "-P", "-PT", "-P1Y3W");
    PATTERN("(?=.{1,5}\\.?$)[a-z]+(\\.[a-z]+)*\\.?", "+ab.cd", "+abcde.", "-abcdef", "-ab.cde");
    PATTERN("a(?=b)b", "+ab");
    SEARCH("a(?!b)", "+ca", "+abac", "-cab");
    SEARCH("(?<!a)b", "+b", "+cb", "-ab", "+abb");
    SEARCH("(?<=foo)bar", "+foobar", "-bar", "-fobar");
    SEARCH("bar(?<!xbar)$", "+ybar", "+bar", "-xbar", "-bary");
    SEARCH("\\bfoo\\b", "+foo", "+a foo.", "-afoo", "-food");
    SEARCH("\\Bfoo", "+afoo", "-foo", "-a foo");
    PATTERN("(\\b\\w+\\b ?){2,3}", "+ab cd", "+a b c", "-ab", "-a b c d");
    PATTERN("(?:(?!end)[a-z])*end", "+end", "+aend", "-aendend", "-e");
    PATTERN("(?i)select|\\u00e9[b-d]", "+SELECT", "+sElEcT", "+\u00c9C", "-selec");
    PATTERN("(?i:a)b(?-i:c)", "+Abc", "-ABc", "-abC");
    PATTERN("a.b(?s:.)c", "+a-b\nc", "-a\nb-c");
    SEARCH("(?m)^a$", "+b\na\nc", "+a", "-ba", "-ab\nc");
    SCHEMA("{\"type\":\"string\",\"pattern\":\"^(?!\\\\n)(?=.*\\\\.).{2,3}$\"}", "+\"a.\"", "+\".ab\"",
           "-\"ab\"", "-\".abc\"");
}

TEST(properties_are_categories_scripts_and_emoji)
{
    PATTERN("\\p{Script=Greek}\\p{Latin}\\p{sc=Han}", "+\xce\xb1" "a\xe4\xb8\xad", "-aaa");
    PATTERN("^\\p{Lu}\\p{Uppercase_Letter}\\p{gc=Nd}\\p{digit}$", "+AB12", "-aB12", "-AB\xc2\xb2" "2");
    PATTERN("(\\p{Extended_Pictographic}|\\p{Emoji_Component})+", "+\xf0\x9f\x98\x80\xe2\x80\x8d", "-a");
    PATTERN("\\P{Cyrillic}[^\\P{Cyrillic}]", "+a\xd0\xb6", "-\xd0\xb6\xd0\xb6", "-aa");
    PATTERN("\\p{ASCII}\\p{White_Space}\\p{Any}", "+a\xc2\x85\xc3\xa9", "-\xc3\xa9 a");
}

TEST(what_no_automaton_keeps_is_refused_by_name)
{
    NO_PATTERN("a(?<=ba)b", "a lookbehind of more than one character is only supported at the ends");
    NO_PATTERN("(?:a?(?=b))*b", "may be empty");
    NO_PATTERN("(?>a)b", "atomic groups");
    NO_PATTERN("(?P=a)", "atomic groups, conditions and backreferences are not supported");
    NO_PATTERN("(a)\\1", "backreference");
    NO_PATTERN("(?x)a", "only the flags i, m and s");
    NO_PATTERN("\\p{Runic}", "an unknown property");
    NO_PATTERN("\\p{gc=Greek}", "an unknown property");
    NO_PATTERN("\\p", "an unknown property");
    NO_PATTERN("\\p{", "an unknown property");
    NO_PATTERN("(a", "\")\" is missing");
    NO_PATTERN("a)", "is unmatched");
    NO_PATTERN("[a", "class is not closed");
    NO_PATTERN("*a", "nothing to repeat");
    NO_PATTERN("a**", "two quantifiers");
    NO_PATTERN("a{3,2}", "less than its minimum");
    NO_PATTERN("[z-a]", "ends before");
    NO_PATTERN("(a^b)", "no text");
    NO_PATTERN("a\\", "backslash");
    NO_PATTERN("\\q", "an unknown escape");
}

/* ---- values ---- */

TEST(types_and_values)
{
    SCHEMA("true", "+1", "+\"a\"", "+[1,{\"a\":[]}]", "+-1.5e-3", "+null", "-", "-nul", "-[1,]", "-01",
           "- 1");
    SCHEMA("{\"type\":\"integer\"}", "+0", "+-12", "-1.0", "-1.00", "-1.5", "-01", "-\"1\"");
    SCHEMA("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}", "+1", "-1.0");
    SCHEMA("{\"type\":[\"null\",\"boolean\"]}", "+null", "+true", "+false", "-0");
    SCHEMA("{\"enum\":[1,\"a\\n\",[1],{\"b\":null}]}", "+1", "-1.0", "+\"a\\n\"", "+[1]", "+{\"b\":null}",
           "-1.00", "-[2]", "-{}", "-\"a\"");
    SCHEMA("{\"enum\":[1,2,\"a\",true],\"const\":2}", "+2", "-1", "-\"a\"");
    SCHEMA("{\"not\":{\"enum\":[1,\"a\",null]},\"type\":[\"integer\",\"string\",\"null\"]}", "+2", "-1",
           "-1.0", "+\"b\"", "-\"a\"", "-null");
    SCHEMA("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "+1.5", "-1", "-1.0", "-1.00");
    NO_SCHEMA("false", "no value fits");
    NO_SCHEMA("{\"type\":\"text\"}", "#/type: this is not a type");
    NO_SCHEMA("{\"enum\":[1],\"type\":\"string\"}", "no value fits");
    NO_SCHEMA("[]", "a schema must be");
}

TEST(numbers_stay_in_their_bounds)
{
    SCHEMA("{\"minimum\":3,\"maximum\":120,\"type\":\"integer\"}", "+3", "+20", "+99", "+120", "-2", "-121",
           "-1000", "--5", "-03", "-3.0", "-3.5");
    SCHEMA("{\"minimum\":-12.5,\"exclusiveMaximum\":0.25,\"type\":\"number\"}", "+-12.5", "+-12.49", "-- 1",
           "--12.51", "+0.2499", "-0.25", "-0.250", "+0", "+-0.0", "-1", "--13", "-1e3");
    SCHEMA("{\"exclusiveMinimum\":0,\"type\":\"number\"}", "-0", "-0.0", "+0.001", "+1e-7", "+5E+3", "--1",
           "+10.5");
    SCHEMA("{\"minimum\":0,\"exclusiveMinimum\":true,\"type\":\"integer\"}", "-0", "+1", "--1");
    SCHEMA("{\"type\":\"integer\",\"exclusiveMinimum\":0.5,\"maximum\":10.9}", "+1", "+10", "-0", "-11");
    SCHEMA("{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10,\"maximum\":1000}", "+14", "+994", "-7",
           "-15", "-1001");
    SCHEMA("{\"type\":\"integer\",\"multipleOf\":300}", "+0", "+300", "+-600", "-30", "-100", "+900",
           "-900.0", "-900.00");
    SCHEMA("{\"type\":\"number\",\"multipleOf\":0.05}", "+0.05", "+1", "+3.15", "+0.1500", "-0.01", "-1.02",
           "-3.155");
    SCHEMA("{\"type\":\"number\",\"multipleOf\":2.5}", "+0", "+2.5", "+5", "+10.0", "-2", "-0.5");
    SCHEMA("{\"not\":{\"minimum\":5},\"type\":\"number\"}", "+4.9", "-5", "+-7");
    SCHEMA("{\"enum\":[1,5,10],\"minimum\":3,\"multipleOf\":5}", "+5", "+10", "-1");
    NO_SCHEMA("{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value fits");
    NO_SCHEMA("{\"multipleOf\":0}", "#/multipleOf");
    NO_SCHEMA("{\"multipleOf\":1234567}", "#/multipleOf: multiples of");
}

TEST(texts_have_lengths_patterns_and_formats)
{
    SCHEMA("{\"type\":\"string\"}", "+\"\"", "+\"\\u00e9\\ud83d\\ude00\\/\\n\"", "+\"\xc3\xa9\"",
           "-\"\\ud83d\"", "-\"\n\"", "-\"\\x\"", "-\"a");
    SCHEMA("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "-\"a\"", "+\"ab\"",
           "+\"\\n\xe4\xb8\xad\\u0041\"", "-\"abcd\"", "+\"\\ud83d\\ude00b\"");
    SCHEMA("{\"type\":\"string\",\"pattern\":\"^[a-z\\\"]+$\",\"maxLength\":3}", "+\"abc\"", "+\"a\\\"b\"",
           "-\"abcd\"", "-\"A\"", "-\"\"");
    SCHEMA("{\"type\":\"string\",\"pattern\":\"b/c\"}", "+\"ab/cd\"", "+\"b\\/c\"", "+\"\\n\xc3\xa9 b/c\"",
           "-\"bc\"");
    SCHEMA("{\"type\":\"string\",\"not\":{\"pattern\":\"^x\"},\"minLength\":1}", "+\"ax\"", "-\"xa\"",
           "-\"\"");
    SCHEMA("{\"enum\":[\"a\",\"bb\",\"ccc\"],\"minLength\":2,\"pattern\":\"[abd]\"}", "+\"bb\"", "-\"a\"",
           "-\"ccc\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"date\"}", "+\"2024-02-29\"", "-\"2023-02-29\"",
           "+\"1999-12-31\"", "-\"1999-04-31\"", "-\"99-01-01\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"date-time\"}", "+\"2024-01-01T10:00:00Z\"",
           "+\"2024-01-01t23:59:60.5Z\"", "+\"2024-01-01T10:00:00.123+02:00\"", "-\"2024-01-01 10:00:00Z\"",
           "-\"2024-01-01T10:00:00\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"ipv6\"}", "+\"::1\"", "+\"1::\"", "+\"::\"",
           "+\"1:2:3:4:5:6:7:8\"", "+\"::ffff:1.2.3.4\"", "-\"1:2:3:4:5:6:7\"", "-\"::1::\"", "-\"12345::\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"email\"}", "+\"a.b@c.de\"", "-\"a@\"", "-\"a..b@c\"",
           "+\"\\\"a b\\\"@c\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"uri\"}", "+\"https://a.b/c?d=e#f\"", "+\"urn:x\"", "-\"a/b\"",
           "-\"http://a b\"", "+\"http://[::1]:80/\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"uri-reference\"}", "+\"a/b\"", "+\"#x\"", "+\"\"", "-\"a b\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"uuid\"}", "+\"123e4567-e89b-12d3-a456-426614174000\"",
           "-\"123e4567\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"duration\"}", "+\"P1Y2M3DT4H5M6S\"", "+\"PT5M\"", "-\"P\"",
           "-\"P1S\"");
    SCHEMA("{\"type\":\"string\",\"format\":\"json-pointer\"}", "+\"/a~1b/0\"", "+\"\"", "-\"a\"",
           "-\"/~2\"");
    SCHEMA("{\"type\":\"integer\",\"format\":\"int32\"}", "+1");
    NO_SCHEMA("{\"properties\":{\"a/b\":{\"format\":\"colour\"}}}", "format: unknown format");
    NO_SCHEMA("{\"pattern\":\"a(?<=ba)b\"}", "lookbehind");
    SCHEMA("{\"properties\":{\"a\":{\"type\":\"string\","
           "\"x-grammar\":\"start: N (\\\"\\\\\\\"\\\" start)?\\nN: /[0-9]+/\"}}}",
           "+{\"a\":\"1\\\"22\"}", "+{\"a\":\"1\"}", "-{\"a\":\"1\\\"\"}", "-{\"a\":\"\"}");
    SCHEMA("{\"properties\":{\"a\":{\"type\":\"string\","
           "\"x-grammar\":\"root ::= \\\"say \\\\\\\"\\\" [^a-c\\\\n]+ \\\".\\\" [\\\\n/]?\"}}}",
           "+{\"a\":\"say \\\"x\\\"y.\"}", "+{\"a\":\"say \\\"d.\\n\"}", "-{\"a\":\"say \\\"b.\"}",
           "-{\"a\":\"say \\\".\"}", "+{\"a\":\"say \\\"\\t..\\/\"}", "-{\"a\":\"say \\\"\\n.\"}");
    check_refused("{\"x-grammar\":\"start: a{b}\"}", -1, QSF_E_UNSUPPORTED,
                  "#/x-grammar: grammar: line 1, column 8: templates", __LINE__);
    NO_SCHEMA("{\"x-grammar\":\"start: \\\"a\\\"\",\"maxLength\":3}", "together with lengths");
}

/* ---- lists and objects ---- */

TEST(lists_have_prefixes_and_counts)
{
    SCHEMA("{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":1,\"maxItems\":3}", "-[]",
           "+[1]", "+[1,2,3]", "-[1,2,3,4]", "-[\"a\"]", "-[1 ,2]");
    SCHEMA("{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},"
           "\"maxItems\":4}",
           "+[]", "+[1]", "+[1,2,3,3]", "-[1,3]", "-[1,2,3,3,3]");
    SCHEMA("{\"type\":\"array\",\"items\":[{\"const\":1},{\"const\":2}],\"additionalItems\":false,"
           "\"minItems\":1}",
           "-[]", "+[1]", "+[1,2]", "-[1,2,3]");
    SCHEMA("{\"type\":\"array\",\"contains\":{\"const\":1},\"items\":{\"type\":\"integer\"}}", "+[1]",
           "+[0,1,1,2]", "-[]", "-[2]");
    SCHEMA(
        "{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":2,\"maxItems\":4}",
        "+[1,1]", "+[0,1,0,1]", "-[1]", "-[1,1,1]", "-[1,1,0,0,0]");
    SCHEMA("{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", "+[]", "+[7]", "-[7,8]");
    NO_SCHEMA("{\"type\":\"array\",\"uniqueItems\":true}", "#/uniqueItems: uniqueItems is not supported");
    NO_SCHEMA("{\"type\":\"array\",\"minItems\":2,\"maxItems\":1}", "fits");
}

TEST(objects_have_their_properties_in_order)
{
    SCHEMA(
        "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}},"
        "\"required\":[\"b\"],\"additionalProperties\":false}",
        "+{\"b\":2}", "+{\"a\":1,\"b\":2,\"c\":3}", "+{\"a\":1,\"b\":2}", "-{\"b\":2,\"a\":1}", "-{}",
        "-{\"a\":1}", "-{\"b\":2,\"d\":4}", "-{\"b\":2,}");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"additionalProperties\":{\"type\":"
           "\"null\"}}",
           "+{}", "+{\"a\":1}", "+{\"x\":null,\"y\":null}", "+{\"a\":1,\"aa\":null}", "-{\"a\":null}",
           "-{\"x\":1}", "-{\"x\":null,\"a\":1}");
    SCHEMA(
        "{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"minimum\":5}},"
        "\"additionalProperties\":false}",
        "+{\"x\":1}", "+{\"xy\":5}", "-{\"xy\":4}", "-{\"xy\":\"a\"}", "+{\"ay\":\"b\"}", "-{\"a\":1}");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"xa\":{\"minimum\":3}},\"patternProperties\":{\"^x\":{"
           "\"type\":\"integer\"}}}",
           "+{\"xa\":3}", "-{\"xa\":2}", "-{\"xa\":\"b\"}", "+{\"b\":[]}");
    SCHEMA("{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2},\"properties\":{\"abc\":{},\"ab\":{}}}",
           "+{\"ab\":1}", "-{\"abc\":1}", "-{\"xyz\":1}", "+{\"x\":1}");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true,\"c\":true},\"minProperties\":2,"
           "\"maxProperties\":2,"
           "\"additionalProperties\":false}",
           "+{\"a\":1,\"c\":1}", "-{\"a\":1}", "-{\"a\":1,\"b\":1,\"c\":1}");
    SCHEMA("{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,"
           "\"maxProperties\":2}",
           "-{}", "+{\"a\":1}", "+{\"a\":1,\"b\":2}", "-{\"a\":1,\"b\":2,\"c\":3}");
    SCHEMA("{\"type\":\"object\",\"required\":[\"q\\\"\"]}", "+{\"q\\\"\":1}", "-{}",
           "+{\"q\\\"\":1,\"z\":2}");
    SCHEMA("{\"dependentRequired\":{\"a\":[\"b\"]},\"properties\":{\"a\":{},\"b\":{}},\"type\":\"object\"}",
           "+{}", "+{\"b\":1}", "+{\"a\":1,\"b\":1}", "-{\"a\":1}");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":false,\"b\":true}}", "+{\"b\":1}", "-{\"a\":1}");
    SCHEMA("{\"unevaluatedProperties\":false,\"type\":\"object\",\"properties\":{\"a\":true},\"anyOf\":["
           "{\"properties\":{\"b\":true}},{\"properties\":{\"c\":true},\"required\":[\"c\"]}]}",
           "+{\"a\":1,\"b\":1}", "+{\"b\":1,\"c\":1}", "-{\"d\":1}");
}

TEST(blanks_are_free_where_they_are_asked_for)
{
    const char *const free_texts[] = {
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}}}",
        "+{ \"a\" : [ 1 ,\n\t2 ] }", "+{}", "+{ }", "+{\"a\":[]}", "- {}", "-{} ", "-{\"a\":[1 2]}", NULL };
    const char *const few[] = { free_texts[0], "+{\"a\": [1, 2]}", "-{\"a\":  [1]}", NULL };
    check_texts(free_texts, -1, QSF_G_NO_MOST, __LINE__);
    check_texts(few, -1, 1, __LINE__);
}

/* ---- schemas in schemas ---- */

TEST(references_may_be_recursive)
{
    SCHEMA("{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"n\":{\"$"
           "ref\":\"#/$defs/t\"}},"
           "\"required\":[\"v\"],\"additionalProperties\":false}},\"$ref\":\"#/$defs/t\"}",
           "+{\"v\":1}", "+{\"v\":1,\"n\":{\"v\":2,\"n\":{\"v\":3}}}", "-{\"v\":1,\"n\":{}}");
    SCHEMA("{\"$id\":\"http://a/"
           "b\",\"$defs\":{\"x\":{\"$id\":\"c\",\"$anchor\":\"y\",\"type\":\"null\"}},\"anyOf\":["
           "{\"$ref\":\"c\"},{\"items\":{\"$ref\":\"c#y\"},\"type\":\"array\"}]}",
           "+null", "+[null]", "-[1]");
    SCHEMA("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"maxItems\":2}", "+[]", "+[[],[[]]]",
           "-[[],[],[]]", "-[1]");
    SCHEMA("{\"definitions\":{\"a/b\":{\"const\":1}},\"items\":{\"$ref\":\"#/definitions/"
           "a~1b\"},\"type\":\"array\"}",
           "+[1]", "-[2]");
    SCHEMA("{\"$defs\":{\"x\":{\"enum\":[{\"$anchor\":\"y\"}]},"
           "\"z\":{\"$anchor\":\"y\",\"const\":1}},\"$ref\":\"#y\"}",
           "+1", "-2");
    NO_SCHEMA("{\"$ref\":\"#/$defs/x\"}", "#/$ref: the reference does not resolve");
    NO_SCHEMA("{\"$ref\":\"http://elsewhere/x\"}", "does not resolve");
    NO_SCHEMA("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself");
    NO_SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
              "no string fits");
}

TEST(schemas_are_joined)
{
    SCHEMA("{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":1}}},{\"properties\":{\"a\":{"
           "\"type\":\"integer\"},"
           "\"b\":{\"const\":1}},\"required\":[\"a\",\"b\"]}],\"additionalProperties\":true}",
           "+{\"a\":1,\"b\":1}", "-{\"a\":0,\"b\":1}", "-{\"b\":1}");
    SCHEMA("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":5}],\"maxLength\":1}",
           "+\"a\"", "-\"ab\"", "+5", "-4");
    SCHEMA("{\"oneOf\":[{\"type\":\"integer\",\"minimum\":2},{\"type\":\"integer\",\"maximum\":5}]}", "+1",
           "+6", "-3");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"oneOf\":[{\"required\":[\"a\"]},{"
           "\"required\":[\"b\"]}]}",
           "+{\"a\":1}", "+{\"b\":1}", "-{\"a\":1,\"b\":1}", "-{}");
    SCHEMA("{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"x\"},\"v\":{\"type\":\"integer\"}},\"required\":["
           "\"k\"]},"
           "{\"properties\":{\"k\":{\"enum\":[\"y\",\"z\"]}},\"required\":[\"k\"]}],\"type\":\"object\"}",
           "+{\"k\":\"x\",\"v\":1}", "-{\"k\":\"x\",\"v\":\"1\"}", "+{\"k\":\"y\",\"v\":\"1\"}",
           "-{\"k\":\"w\"}");
    SCHEMA("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"if\":{"
           "\"properties\":{\"a\":{\"minimum\":5}},"
           "\"required\":[\"a\"]},\"then\":{\"required\":[\"b\"]},\"else\":{\"properties\":{\"b\":false}}}",
           "+{\"a\":5,\"b\":1}", "-{\"a\":5}", "+{\"a\":4}", "-{\"a\":4,\"b\":1}", "+{}");
    SCHEMA("{\"not\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"required\":[\"a\"]}]}}", "+1",
           "-\"a\"", "+{}", "-{\"a\":1}");
    NO_SCHEMA("{\"oneOf\":[{\"type\":\"array\",\"uniqueItems\":true},{\"type\":\"array\"}]}",
              "the opposite of this is not supported");
    NO_SCHEMA("{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "no value fits");
    NO_SCHEMA("{\"anyOf\":1}", "#/anyOf: this must be a list");
}

TEST(blow_up_ends_in_an_error)
{
    char text[4000] = "{\"type\":\"object\",\"allOf\":[";
    size_t n = strlen(text);
    for (int i = 0; i < 30; i++)
        n += qsf_format(text + n, sizeof text - n,
                        "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i ? "," : "", i,
                        i);
    qsf_format(text + n, sizeof text - n, "]}");
    check_refused(text, -1, QSF_E_BUDGET, "too many nested alternatives", __LINE__);
}

TEST(a_condition_says_nothing_of_the_order)
{
    SCHEMA("{\"if\":{\"properties\":{\"b\":{\"const\":1}}},\"then\":{\"required\":[\"a\"]},"
           "\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}",
           "+{\"a\":0,\"b\":1}", "+{\"a\":0,\"b\":2}", "+{\"b\":2}", "-{\"b\":1}", "-{\"b\":1,\"a\":0}",
           "-{\"b\":2,\"a\":0}");
}

TEST(keywords_have_values_of_their_type)
{
    NO_SCHEMA("{\"dependencies\":\"abc\"}", "#/dependencies: this must be an object");
    NO_SCHEMA("{\"patternProperties\":[]}", "#/patternProperties: this must be an object");
    NO_SCHEMA("{\"items\":null}", "#/items: this must be false or true or a list or an object");
    NO_SCHEMA("{\"allOf\":[{\"pattern\":1}]}", "#/allOf/0/pattern: this must be a string");
    NO_SCHEMA("{\"uniqueItems\":1}", "#/uniqueItems: this must be false or true");
    NO_SCHEMA("{\"if\":3}", "#/if: this must be");
    NO_SCHEMA("{\"minLength\":\"1\"}", "#/minLength: this must be a number");
    NO_SCHEMA("{\"minLength\":-1}", "#/minLength: this must be a whole number");
    NO_SCHEMA("{\"required\":[1]}", "#/required/0: a property's name must be a string");
    NO_SCHEMA("{\"multipleOf\":1e400}", "#/multipleOf: a number of more than 400 digits");
}

/* before, times middle with commas between, after; # in middle is the number */
static char *many(const char *before, unsigned times, const char *middle, const char *after)
{
    const size_t cap = strlen(before) + strlen(after) + times * (strlen(middle) + 16) + 1;
    char *out = malloc(cap);
    size_t n = qsf_format(out, cap, "%s", before);
    for (unsigned i = 0; i < times; i++) {
        if (i) out[n++] = ',';
        for (const char *c = middle; *c; c++) {
            if (*c == '#') n += qsf_format(out + n, cap - n, "%u", i);
            else out[n++] = *c;
        }
    }
    qsf_format(out + n, cap - n, "%s", after);
    return out;
}

TEST(keywords_of_draft_3_are_refused)
{
    NO_SCHEMA("{\"items\":{\"disallow\":\"string\"}}", "schema: #/items/disallow: a keyword of draft 3");
    NO_SCHEMA("{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"divisibleBy\":2}",
              "#/divisibleBy: a keyword of draft 3");
    NO_SCHEMA("{\"extends\":{\"type\":\"string\"}}", "#/extends: a keyword of draft 3; later drafts use");
    NO_SCHEMA("{\"properties\":{\"a\":{\"required\":true}}}", "#/properties/a/required: this form is of");
    SCHEMA("{\"properties\":{\"extends\":{\"const\":1}},\"required\":[\"extends\"]}",
           "+{\"extends\":1}", "-{}");
}

TEST(remarks_say_nothing_of_a_value)
{
    SCHEMA("{\"const\":\"%\",\"contentEncoding\":\"base64\",\"contentMediaType\":\"application/json\","
           "\"contentSchema\":false,\"$comment\":\"x\",\"title\":\"x\",\"description\":\"x\","
           "\"examples\":[2],\"default\":3,\"deprecated\":true,\"readOnly\":true,\"writeOnly\":true}",
           "+\"%\"", "-3");
}

TEST(some_formats_demand_nothing)
{
    SCHEMA("{\"items\":{\"enum\":[\"a b\",\"\",3],\"format\":\"password\"}}",
           "+[\"a b\",\"\",3]", "-[\"a\"]");
    SCHEMA("{\"type\":\"string\",\"format\":\"path\"}", "+\"\"", "+\"/a\\n\"", "-3");
    NO_SCHEMA("{\"format\":\"float\",\"type\":\"string\"}", "#/format: unknown format");
    SCHEMA("{\"format\":\"float\",\"type\":\"number\"}", "+1.5");
}

TEST(an_error_names_its_place)
{
    NO_SCHEMA("{\"properties\":{\"a\":{\"pattern\":\"(?>b)\"}}}",
              "schema: #/properties/a/pattern: \"(?>b)\": atomic groups");
    NO_SCHEMA("{\"anyOf\":[true,{\"patternProperties\":{\"(\":{}}}]}", "#/anyOf/1/patternProperties/(: ");
    NO_SCHEMA("{\"anyOf\":[{\"$id\":\"x\"},{\"$id\":\"x\"},{\"$ref\":\"x\"}]}",
              "#/anyOf/2/$ref: two schemas");
    check_refused("{\"properties\":{\"a\":{\"pattern\":\"a.*b.*c\",\"minLength\":10000,"
                  "\"maxLength\":20000}}}", -1, QSF_E_BUDGET,
                  "schema: #/properties/a: the intersection", __LINE__);
}

TEST(large_schemas_end_in_an_error_or_a_grammar)
{
    static const struct { const char *before, *middle, *after, *word; unsigned times; } cases[] = {
        { "{\"properties\":{", "\"#\":{}", "}}", "more than 4,000 properties", 50000 },
        { "{\"required\":[", "\"#\"", "]}", "more than 4,000 properties", 50000 },
        { "{\"prefixItems\":[", "{\"const\":#}", "]}", "more than 10,000 different items", 20000 },
        { "{\"patternProperties\":{", "\"a#\":{\"minLength\":#}", "}}", "more than 7 patterns", 9 },
        { "{\"oneOf\":[", "{\"const\":#}", "]}", "a oneOf of more than 2,000", 3000 },
        { "{\"x\":[", "0", "]}", "more than 1,000,000", 1000000 },
    };
    for (size_t i = 0; i < QSF_ARRAY_LEN(cases); i++) {
        char *text = many(cases[i].before, cases[i].times, cases[i].middle, cases[i].after);
        check_refused(text, -1, QSF_E_BUDGET, cases[i].word, __LINE__);
        free(text);
    }
    char *one = many("{\"oneOf\":[", 200,
                     "{\"type\":\"object\",\"properties\":{\"k\":{\"const\":#}},\"required\":[\"k\"]}", "]}");
    SCHEMA(one, "+{\"k\":7}", "+{\"k\":199}", "-{\"k\":200}");
    free(one);
}

TEST(a_part_of_a_document_is_a_schema)
{
    static const char text[] =
        "{\"tools\":[{\"parameters\":{\"$defs\":{\"x\":{\"const\":7}},\"$ref\":\"#/$defs/x\"}}]}";
    const qsf_platform *p = qsf_platform_native();
    qsf_json j;
    qsf_error err = { 0 };
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_matcher *m = NULL;
    CHECK(qsf_json_read(p, text, strlen(text), "tools", &j, &err) == QSF_OK);
    CHECK(qsf_grammar_begin(p, &b, &err) == QSF_OK);
    const qsf_json_node *schema =
        qsf_json_member(qsf_json_first(qsf_json_member(j.nodes, "tools")), "parameters");
    const qsf_gnode x = qsf_schema_nodes(p, b, schema, NULL);
    qsf_json_drop(&j);
    const qsf_gnode root =
        qsf_g_sequence(b, (const qsf_gnode[]){ qsf_g_bytes(b, "<", 1), x, qsf_g_bytes(b, ">", 1) }, 3);
    CHECK(qsf_grammar_finish(b, root, &g, &err) == QSF_OK);
    CHECK(qsf_matcher_new(p, g, NULL, &m, &err) == QSF_OK);
    CHECK(qsf_matcher_bytes(m, "<7>", 3) == 3 && qsf_matcher_whole(m) && qsf_matcher_over(m));
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
}

/* tests/golden/schema_cases.txt: a schema, then texts that fit it (+) or do not (-). */
TEST(random_schemas_take_what_another_implementation_calls_valid)
{
    static char line[1 << 16], schema[1 << 16], what[1 << 12];
    FILE *f = fopen("tests/golden/schema_cases.txt", "rb");
    qsf_grammar *g = NULL;
    qsf_matcher *m = NULL;
    qsf_error err = { 0 };
    unsigned kept = 0, schemas = 0;
    if (!f) SKIP("tests/golden is not here");
    while (fgets(line, sizeof line, f)) {
        size_t n = strlen(line);
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
        if (line[0] == '{') {
            qsf_matcher_free(m);
            qsf_grammar_drop(g);
            m = NULL;
            memcpy(schema, line, n + 1);
            schemas++;
            if (make(schema, -1, 0, &g, &err)) CHECK(err.text[0]);
            else kept += !qsf_matcher_new(qsf_platform_native(), g, NULL, &m, &err);
            continue;
        }
        if (m) qsf_matcher_reset(m);
        const bool fits = m && qsf_matcher_bytes(m, line + 1, n - 1) == n - 1 && qsf_matcher_whole(m);
        if (fits == (line[0] == '+') || (!m && strstr(err.text, "is not supported"))) continue;
        qsf_format(what, sizeof what, "%.2000s: %.1000s %s", schema, line, m ? "" : err.text);
        test_fail(__FILE__, __LINE__, what);
    }
    fclose(f);
    qsf_matcher_free(m);
    qsf_grammar_drop(g);
    CHECK(kept * 2 > schemas);
}

int main(void)
{
    RUN(random_schemas_take_what_another_implementation_calls_valid);
    RUN(patterns_have_what_their_dialects_share);
    RUN(anchors_are_places);
    RUN(lookaround_word_edges_and_flags_are_kept);
    RUN(properties_are_categories_scripts_and_emoji);
    RUN(what_no_automaton_keeps_is_refused_by_name);
    RUN(types_and_values);
    RUN(numbers_stay_in_their_bounds);
    RUN(texts_have_lengths_patterns_and_formats);
    RUN(lists_have_prefixes_and_counts);
    RUN(objects_have_their_properties_in_order);
    RUN(blanks_are_free_where_they_are_asked_for);
    RUN(references_may_be_recursive);
    RUN(schemas_are_joined);
    RUN(blow_up_ends_in_an_error);
    RUN(a_condition_says_nothing_of_the_order);
    RUN(keywords_have_values_of_their_type);
    RUN(keywords_of_draft_3_are_refused);
    RUN(remarks_say_nothing_of_a_value);
    RUN(some_formats_demand_nothing);
    RUN(an_error_names_its_place);
    RUN(large_schemas_end_in_an_error_or_a_grammar);
    RUN(a_part_of_a_document_is_a_schema);
    return test_end();
}
