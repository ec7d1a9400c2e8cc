/* Schemas that need not be enforced completely: which keywords are removed, and that the rest is
 * enforced.
 * SPDX-License-Identifier: MIT */
#include "test.h"
#include "grammar/schema_loosen.h"

static void count_said(void *user, const char *why)
{
    (void)why;
    ++*(int *)user;
}

/* Whether text matches the relaxed schema, and whether `taken` keywords were removed. */
static void check_loose(const char *schema, int taken, const char *fits, const char *does_not, int line)
{
    const qsf_platform *p = qsf_platform_native();
    const qsf_schema_options o = { .size = sizeof o, .object = true, .closed = true };
    qsf_grammar_builder *b;
    qsf_grammar *g = NULL;
    qsf_error err;
    qsf_json j;
    int said = 0;
    bool right = false;
    if (!qsf_json_read(p, schema, strlen(schema), "test", &j, &err)) {
        if (!qsf_schema_loosen(p, j.nodes, &o, 0, count_said, &said, &err)
            && !qsf_grammar_begin(p, &b, &err)
            && !qsf_grammar_finish(b, qsf_schema_nodes(p, b, j.nodes, &o), &g, &err))
            right = said == taken && qsf_grammar_accepts(g, fits, strlen(fits), NULL)
                && !qsf_grammar_accepts(g, does_not, strlen(does_not), NULL);
        qsf_grammar_drop(g);
        qsf_json_drop(&j);
    }
    if (!right) test_fail(__FILE__, line, schema);
}
#define LOOSE(schema, taken, fits, does_not) check_loose(schema, taken, fits, does_not, __LINE__)

TEST(a_schema_is_loosened_keyword_by_keyword)
{
    LOOSE("{\"properties\":{\"a\":{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"const\":1}}}}", 1,
          "{\"a\":[1,1]}", "{\"a\":[2]}");
    LOOSE("{\"properties\":{\"a\":{\"pattern\":\"(a)\\\\1\",\"maxLength\":2,\"format\":\"no\","
          "\"type\":\"string\"}}}", 2, "{\"a\":\"bc\"}", "{\"a\":\"bcd\"}");
    /* removing a keyword inside a negation would make the schema stricter */
    LOOSE("{\"properties\":{\"a\":{\"type\":\"integer\",\"not\":{\"uniqueItems\":true}}}}", 1, "{\"a\":7}",
          "{\"a\":null}");
    LOOSE("{\"properties\":{\"a\":{\"type\":\"nothing\"},\"b\":{\"const\":1}},\"required\":[\"b\"]}", 1,
          "{\"a\":{},\"b\":1}", "{\"a\":1}");
    LOOSE("{\"properties\":{\"a\":{\"$ref\":\"x.json\"}}}", 1, "{\"a\":[]}", "{\"b\":1}");
    LOOSE("{\"properties\":5}", 1, "{\"b\":1}", "3");
    LOOSE("{\"properties\":{\"a\":{}},\"additionalProperties\":true}", 0, "{\"b\":1}", "[]");
    LOOSE("{\"properties\":{}}", 0, "{}", "{\"b\":1}");
}

int main(void)
{
    RUN(a_schema_is_loosened_keyword_by_keyword);
    return test_end();
}
