/* The core's JSON reader: what it takes, what it says of the rest.
 * SPDX-License-Identifier: MIT */
#include "test.h"
#include "text/json.h"

static qsf_status read_text(const char *text, qsf_json *out, qsf_error *err)
{
    return qsf_json_read(qsf_platform_native(), text, strlen(text), "tools", out, err);
}

TEST(a_text_becomes_a_flat_list_of_nodes)
{
    static const char text[] = " {\"a\": [1, -2.5e3, true, false, null, []],"
                               " \"b\":{\"c\" : \"\\u00e9\\n\\ud83d\\ude00\"},"
                               " \"a\\u0000\":\"x\", \"a\": 7}\n";
    qsf_json j;
    qsf_error err = { 0 };
    int64_t whole;
    CHECK(read_text(text, &j, &err) == QSF_OK);
    const qsf_json_node *root = j.nodes, *list = qsf_json_first(root) + 1;
    CHECK(root->type == QSF_JSON_OBJECT && root->n == 4 && root->skip == j.n_nodes);
    CHECK(list->type == QSF_JSON_LIST && list->n == 6);
    const qsf_json_node *item = qsf_json_first(list);
    CHECK(qsf_json_whole(item, &whole) && whole == 1);
    item = qsf_json_next(item);
    CHECK(!qsf_json_whole(item, &whole) && qsf_json_number(item) == -2500);
    CHECK(qsf_json_whole(qsf_json_member(root, "a"), &whole) && whole == 7);
    CHECK(!qsf_json_member(root, "c") && !qsf_json_member(list, "a") && !qsf_json_member(NULL, "a"));
    const qsf_json_node *c = qsf_json_member(qsf_json_member(root, "b"), "c");
    CHECK(c && qsf_json_is_text(c, "\xc3\xa9\n\xf0\x9f\x98\x80"));
    qsf_json_drop(&j);
    qsf_json_drop(&j);
}

TEST(what_is_no_json_is_named_with_its_place)
{
    static const char *const bad[] = {
        "", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "1.", "-", "1e", "+1", "\"\t\"", "\"\\x\"",
        "\"\\ud800\"", "\"\\udc00\"", "\"\\u12g4\"", "\"", "\"\\", "\"\xff\"", "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"", "nul", "1 2", "[1}", "{\"a\" 1}", "NaN", "'a'",
    };
    qsf_json j;
    qsf_error err;
    for (size_t i = 0; i < QSF_ARRAY_LEN(bad); i++) {
        err = (qsf_error){ 0 };
        if (read_text(bad[i], &j, &err) != QSF_E_CORRUPT || j.nodes
            || !strstr(err.text, "tools: line 1, column "))
            test_fail(__FILE__, __LINE__, bad[i]);
    }
    CHECK(read_text("{\n  \"\xc3\xa9\": x}", &j, &err) == QSF_E_CORRUPT
          && strstr(err.text, "line 2, column 8"));
}

TEST(nesting_has_a_limit)
{
    char text[2 * QSF_JSON_DEPTH + 3] = { 0 };
    qsf_json j;
    qsf_error err;
    memset(text, '[', QSF_JSON_DEPTH);
    memset(text + QSF_JSON_DEPTH, ']', QSF_JSON_DEPTH);
    CHECK(read_text(text, &j, &err) == QSF_OK && j.n_nodes == QSF_JSON_DEPTH);
    qsf_json_drop(&j);
    memset(text, '[', QSF_JSON_DEPTH + 1);
    memset(text + QSF_JSON_DEPTH + 1, ']', QSF_JSON_DEPTH + 1);
    CHECK(read_text(text, &j, &err) == QSF_E_CORRUPT && strstr(err.text, "too deep"));
}

TEST(numbers_are_read_as_they_stand)
{
    static const struct { const char *text; double value; } numbers[] = {
        { "0", 0 }, { "-0", 0 }, { "0.1", 0.1 }, { "1e22", 1e22 }, { "123456.789", 123456.789 }, 
        { "5e-1", 0.5 },
        { "9007199254740993", 9007199254740992.0 }, { "0e999999999", 0 },
    };
    qsf_json j;
    int64_t whole;
    for (size_t i = 0; i < QSF_ARRAY_LEN(numbers); i++) {
        CHECK(read_text(numbers[i].text, &j, NULL) == QSF_OK);
        if (qsf_json_number(j.nodes) != numbers[i].value) test_fail(__FILE__, __LINE__, numbers[i].text);
        qsf_json_drop(&j);
    }
    CHECK(read_text("-9223372036854775808", &j, NULL) == QSF_OK
          && qsf_json_whole(j.nodes, &whole) && whole == INT64_MIN);
    qsf_json_drop(&j);
    CHECK(read_text("9223372036854775808", &j, NULL) == QSF_OK && !qsf_json_whole(j.nodes, &whole));
    qsf_json_drop(&j);
    CHECK(read_text("1e400", &j, NULL) == QSF_OK && qsf_json_number(j.nodes) > DBL_MAX);
    qsf_json_drop(&j);
}

int main(void)
{
    RUN(a_text_becomes_a_flat_list_of_nodes);
    RUN(what_is_no_json_is_named_with_its_place);
    RUN(nesting_has_a_limit);
    RUN(numbers_are_read_as_they_stand);
    return test_end();
}
