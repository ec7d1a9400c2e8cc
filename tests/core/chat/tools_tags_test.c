/* Arguments in tags: the schema decides between string and JSON, and whatever models write between,
 * around and instead of the tags is either parsed or kept as text.
 * SPDX-License-Identifier: MIT */
#include "tools_case.h"

/* ---- forms ---- */

static const struct tag_form {
    const char *name, *section, *open, *arguments, *key, *value, *type, *begin, *end, *close, *section_end;
} forms[] = {
    { "Qwen3-Coder", "", "\n<tool_call>\n<function=", ">", "\n<parameter=", ">\n", "", "", "\n</parameter>",
      "\n</function>\n</tool_call>", "" },
    { "GLM", "", "\n<tool_call>", "", "\n<arg_key>", "</arg_key>\n<arg_value>", "", "", "</arg_value>",
      "\n</tool_call>", "" },
    { "MiniMax", "<minimax:tool_call>", "\n<invoke name=\"", "\">", "\n<parameter name=\"", "\">", "", "",
      "</parameter>", "\n</invoke>", "\n</minimax:tool_call>" },
    { "Seed-OSS", "", "\n<seed:tool_call>\n<function=", ">", "\n<parameter=", ">", "", "", "</parameter>",
      "\n</function>\n</seed:tool_call>", "" },
    { "typed", "<calls>", "\n<invoke name=\"", "\">", "\n<parameter name=\"", "\" string=\"", "true", "\">",
      "</parameter>", "\n</invoke>", "\n</calls>" },
};

static void form_of(const struct tag_form *t, qsf_tool_form *f)
{
    const struct { qsf_tool_text which; const char *text; } texts[] = {
        { QSF_TT_SECTION, t->section }, { QSF_TT_OPEN, t->open }, { QSF_TT_ARGUMENTS, t->arguments },
        { QSF_TT_KEY, t->key }, { QSF_TT_VALUE, t->value }, { QSF_TT_TYPE, t->type },
        { QSF_TT_VALUE_BEGIN, t->begin }, { QSF_TT_VALUE_END, t->end }, { QSF_TT_CLOSE, t->close },
        { QSF_TT_BETWEEN, "" }, { QSF_TT_SECTION_END, t->section_end },
    };
    qsf_tool_form_plain(f);
    f->style = QSF_TOOLS_TAGS;
    for (size_t i = 0; i < QSF_ARRAY_LEN(texts); i++)
        snprintf(f->text[texts[i].which], QSF_TOOL_TEXT_MOST, "%s", texts[i].text);
}

/* ---- values ---- */

static const char tag_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"set\", \"parameters\": {\"type\": \"object\", "
    "\"$defs\": {\"status\": {\"type\": \"string\", \"enum\": [\"pending\", \"completed\"]}, "
    "\"a/b c\": {\"$ref\": \"#/$defs/status\"}, \"loop\": {\"$ref\": \"#/$defs/loop\"}, "
    "\"text\": {\"type\": \"string\"}}, \"properties\": {"
    "\"text\": {\"type\": \"string\"}, \"enum\": {\"enum\": [\"pending\", \"completed\"]}, "
    "\"any\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, "
    "\"one\": {\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}, "
    "\"const\": {\"const\": \"completed\"}, \"ref\": {\"$ref\": \"#/$defs/status\"}, "
    "\"far\": {\"$ref\": \"#/$defs/a~1b%20c\"}, \"maybe\": {\"anyOf\": [{\"$ref\": \"#/$defs/status\"}, "
    "{\"type\": \"null\"}]}, \"all\": {\"allOf\": [{\"$ref\": \"#/$defs/text\"}]}, "
    "\"types\": {\"type\": [\"string\", \"null\", \"boolean\"]}, "
    "\"consts\": {\"oneOf\": [{\"const\": \"a\"}, {\"const\": \"b\"}]}, "
    "\"number\": {\"type\": \"number\"}, \"integer\": {\"type\": \"integer\"}, "
    "\"bool\": {\"type\": \"boolean\"}, \"null\": {\"type\": \"null\"}, "
    "\"list\": {\"anyOf\": [{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}, "
    "{\"type\": \"null\"}]}, "
    "\"dict\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}, "
    "\"loop\": {\"$ref\": \"#/$defs/loop\"}, \"free\": {}}}}}]";

/* In `written`, ~ is the mark that ends a value, and ` is that mark without its last letter. */
static const struct tag_value { const char *key, *written, *json; bool fits; } values[] = {
    { "text", "completed", "\"completed\"", true }, { "text", "\"q\"", "\"\\\"q\\\"\"", true },
    { "text", "5", "\"5\"", true }, { "text", "null", "\"null\"", true }, { "text", "", "\"\"", true },
    { "text", "{\"a\": 1}", "\"{\\\"a\\\": 1}\"", true },
    { "text", "a\nb\n\n  c", "\"a\\nb\\n\\n  c\"", true },
    { "text", "\n\na\n\n", "\"\\n\\na\\n\\n\"", true }, { "text", "  a ", "\"  a \"", true },
    { "text", "x ` y", NULL, true }, { "text", "x ~ y", NULL, false },
    { "text", "<b>~</b>\n~ z", NULL, false },
    { "text", "a < b && c > d \xc3\xa9", "\"a < b && c > d \xc3\xa9\"", true },
    { "enum", "completed", "\"completed\"", true }, { "enum", "other", "\"other\"", false },
    { "any", "completed", "\"completed\"", true }, { "any", "null", "null", true },
    { "any", "5", "\"5\"", true }, { "any", "\"quoted\"", "\"quoted\"", true },
    { "any", "a \"b\" c", "\"a \\\"b\\\" c\"", true }, { "any", "\na\n\n", "\"\\na\\n\\n\"", true },
    { "any", "x ~ y", NULL, false }, { "any", "true", "\"true\"", true },
    { "any", "{\"a\": 1}", "\"{\\\"a\\\": 1}\"", true }, { "one", "5", "5", true },
    { "one", "5.5", "\"5.5\"", true }, { "one", "five", "\"five\"", true },
    { "one", "007", "\"007\"", true }, { "const", "completed", "\"completed\"", true },
    { "ref", "completed", "\"completed\"", true }, { "ref", "done", "\"done\"", false },
    { "far", "pending", "\"pending\"", true }, { "maybe", "completed", "\"completed\"", true },
    { "maybe", "null", "null", true }, { "maybe", "\"completed\"", "\"completed\"", false },
    { "all", "5", "\"5\"", true }, { "all", "\"x\"", "\"\\\"x\\\"\"", true },
    { "types", "true", "true", true }, { "types", "null", "null", true }, { "types", "5", "\"5\"", true },
    { "consts", "a", "\"a\"", true }, { "consts", "c", "\"c\"", false },
    { "number", "-1.5e3", "-1.5e3", true }, { "integer", "5", "5", true },
    { "integer", "five", "\"five\"", false }, { "bool", "true", "true", true },
    { "bool", "True", "true", true }, { "null", "null", "null", true },
    { "list", "[1, 2]", "[1, 2]", true }, { "list", "null", "null", true },
    { "dict", "{\"a\": 1}", "{\"a\": 1}", true },
    { "dict", "{'a': True, \"b\": None}", "{\"a\": true, \"b\": null}", false },
    { "loop", "5", "5", false }, { "loop", "x", "\"x\"", false }, { "free", "5", "5", true },
    { "free", "\"x\"", "\"x\"", true }, { "free", "x", "\"x\"", true }, { "unknown", "[5]", "[5]", false },
    { "unknown", "x y", "\"x y\"", false },
};

static const char *core(const char *text) { return qsf_tool_core(text); }

/* Replaces ~ and ` in the text by the form's marks. */
static void with_marks(const struct tag_form *t, const char *text, char *out)
{
    const char *mark = core(t->end);
    const size_t n = strlen(mark);
    for (; *text; text++) {
        const size_t k = *text == '~' ? n : *text == '`' ? n - 1 : 1;
        memcpy(out, k == 1 ? text : mark, k);
        out += k;
    }
    *out = 0;
}

/* The value as JSON. */
static void value_json(const struct tag_form *t, const struct tag_value *v, char *out)
{
    char text[512];
    qsf_text j = { .platform = host };
    with_marks(t, v->written, text);
    qsf_text_put(&j, "\"");
    qsf_text_json(&j, text, strlen(text));
    qsf_text_put(&j, "\"");
    strcpy(out, v->json ? v->json : j.at);
    qsf_text_drop(&j);
}

/* Appends an argument in the form's syntax. */
static void put_argument(const struct tag_form *t, const struct tag_value *v, char *out)
{
    char json[512], text[512];
    value_json(t, v, json);
    with_marks(t, v->written, text);
    sprintf(out + strlen(out), "%s%s%s%s%s%s%s", t->key, v->key, t->value,
            !*t->type ? "" : *json == '"' ? "true" : "false", t->begin, text, t->end);
}

static void put_open(const struct tag_form *t, char *out)
{
    const char *open = *out || *t->section ? t->open : core(t->open);
    sprintf(out + strlen(out), "%s%sset%s", *out ? "" : t->section, open, t->arguments);
}

/* Quotes around a value typed as a string belong to the string. */
static bool fits_form(const struct tag_form *t, const struct tag_value *v)
{
    return !*t->type || *v->written != '"';
}

TEST(values_in_tags_are_of_the_type_that_the_schema_says)
{
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(values); i++) {
            const struct tag_form *t = &forms[k];
            char body[2048] = "", json[512], arguments[1024], two[3 * sizeof body];
            qsf_tool_form f;
            if (!fits_form(t, &values[i])) continue;
            form_of(t, &f);
            value_json(t, &values[i], json);
            sprintf(arguments, "{\"%s\": %s, \"text\": \"t\"}", values[i].key, json);
            put_open(t, body);
            put_argument(t, &values[i], body);
            put_argument(t, &(struct tag_value){ "text", "t", "\"t\"", true }, body);
            strcat(strcat(body, t->close), t->section_end);
            const call one = { "set", arguments }, both[] = { one, one };
            char *message = answer(&f, tag_tools, body, strlen(body));
            check_message(message, NULL, NULL, &one, 1, t->name, body);
            free(message);
            sprintf(two, "I set it.\n%s\n%s", body, body);
            message = answer(&f, tag_tools, two, strlen(two));
            check_message(message, "I set it.", NULL, both, 2, t->name, two);
            free(message);
        }
}

/* ---- marks ---- */

/* Calls whose closing marks are missing, wholly or in part. */
TEST(calls_in_tags_without_all_marks_are_read)
{
    static const struct tag_value x = { "text", "x", "\"x\"", true }, y = { "any", "y", "\"y\"", true };
    const call two[] = { { "set", "{\"text\": \"x\"}" }, { "set", "{\"any\": \"y\"}" } };
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++) {
        const struct tag_form *t = &forms[k];
        char half[64], other[64];
        qsf_tool_form f;
        form_of(t, &f);
        snprintf(half, sizeof half, "%s", t->close);
        if (strchr(half + 1, '\n')) *strchr(half + 1, '\n') = 0;             /* the first line */
        snprintf(other, sizeof other, "%s", strrchr(t->close, '\n'));           /* the last one */
        const char *const ends[][2] = { { "", t->close }, { half, t->close }, { other, t->close },
                                        { t->close, half }, { t->close, other }, { half, other } };
        for (size_t i = 0; i < QSF_ARRAY_LEN(ends); i++) {
            char body[2048] = "";
            put_open(t, body);
            put_argument(t, &x, body);
            strcat(body, ends[i][0]);
            put_open(t, body);
            put_argument(t, &y, body);
            strcat(strcat(body, ends[i][1]), i % 2 ? t->section_end : "");
            char *message = answer(&f, tag_tools, body, strlen(body));
            check_message(message, NULL, NULL, two, 2, t->name, body);
            free(message);
        }
        char body[2048] = "";
        put_open(t, body);
        put_argument(t, &x, body);
        strcat(strcat(strcat(body, half), t->section_end), "\n\nDone.");
        char *message = answer(&f, tag_tools, body, strlen(body));
        check_message(message, "Done.", NULL, two, 1, t->name, body);
        free(message);
    }
}

/* An answer that is cut anywhere is text, a call or an unfinished call: nothing is lost, and no
 * part of a mark ends up in a value. */
TEST(calls_in_tags_that_are_cut_anywhere_are_kept)
{
    static const struct tag_value rows[] = {
        { "text", "one\n\ntwo", NULL, true }, { "integer", "12", "12", true },
        { "any", "x ~ y", NULL, false },
    };
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++) {
        const struct tag_form *t = &forms[k];
        char body[2048] = "";
        qsf_tool_form f;
        form_of(t, &f);
        put_open(t, body);
        for (size_t i = 0; i < QSF_ARRAY_LEN(rows); i++) put_argument(t, &rows[i], body);
        strcat(strcat(body, t->close), t->section_end);
        for (size_t n = 1; n <= strlen(body); n++) {
            qsf_json j;
            char *message = answer(&f, tag_tools, body, n);
            CHECK_EQ(qsf_json_read(host, message, strlen(message), "message", &j, NULL), QSF_OK);
            const qsf_json_node *calls = qsf_json_member(j.nodes, "tool_calls");
            const qsf_json_node *content = qsf_json_member(j.nodes, "content");
            const qsf_json_node *in = calls ? qsf_json_member(qsf_json_first(calls), "function") : NULL;
            const qsf_json_node *args = in ? qsf_json_member(in, "arguments") : NULL;
            bool ok = content->type == (calls ? QSF_JSON_NULL : QSF_JSON_TEXT);
            if (ok && calls) ok = calls->n == 1 && !strstr(args->text, core(t->key));
            if (ok && !calls) ok = content->n <= n && !memcmp(content->text, body, content->n);
            for (size_t i = content->n; ok && !calls && i < n; i++) ok = qsf_tool_blank(body[i]);
            if (ok && args && n < (size_t)(strstr(body, "two") - body) + 3 + strlen(t->end))
                ok = !strstr(args->text, "\\n<") && !strstr(args->text, "two<");
            CHECK(ok);
            if (!ok) printf("    %s: %.*s\n      came %s\n", t->name, (int)n, body, message);
            qsf_json_drop(&j);
            free(message);
        }
    }
}

/* Text with marks, but without a call. */
TEST(marks_of_tags_without_a_call_are_text)
{
    static const char *const tails[] = { " is how a call begins.", "", "\nno argument here" };
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++)
        for (size_t i = 0; i < QSF_ARRAY_LEN(tails); i++) {
            char text[256];
            qsf_tool_form f;
            form_of(&forms[k], &f);
            const char *open = *forms[k].section ? forms[k].section : core(forms[k].open);
            snprintf(text, sizeof text, "Write %s%s", open, tails[i]);
            char *message = answer(&f, tag_tools, text, strlen(text));
            check_message(message, text, NULL, NULL, 0, forms[k].name, text);
            free(message);
        }
}

/* ---- grammars ---- */

/* Values that the grammar allows are read back the same. */
TEST(grammars_of_tags_agree_with_the_reader)
{
    qsf_json t;
    qsf_error err;
    qsf_json_read(host, tag_tools, strlen(tag_tools), "tools", &t, NULL);
    for (size_t k = 0; k < QSF_ARRAY_LEN(forms); k++) {
        qsf_tool_form f;
        qsf_tool_grammar g;
        form_of(&forms[k], &f);
        const qsf_tool_grammar_ask ask = { .platform = host, .form = &f, .tools = t.nodes };
        const qsf_status st = qsf_tool_grammar_make(&ask, &g, &err);
        CHECK_EQ(st, QSF_OK);
        if (st) printf("    %s: %s\n", forms[k].name, err.text);
        for (size_t i = 0; !st && i < QSF_ARRAY_LEN(values); i++) {
            char body[2048] = "";
            if (!fits_form(&forms[k], &values[i])) continue;
            if (!strcmp(values[i].key, "loop")) continue;
            put_open(&forms[k], body);
            put_argument(&forms[k], &values[i], body);
            strcat(strcat(body, forms[k].close), forms[k].section_end);
            const char *at = begin_of(&g, body);
            const bool same = at && fits(g.grammar, at) == values[i].fits;
            CHECK(same);
            if (!same) printf("    %s: %s%s\n", forms[k].name, values[i].fits ? "" : "not: ", body);
        }
        if (!st) qsf_tool_grammar_drop(&g);
    }
    qsf_json_drop(&t);
}

int main(int argc, char **argv)
{
    host = qsf_platform_native();
    test_begin(argc, argv);
    RUN(values_in_tags_are_of_the_type_that_the_schema_says);
    RUN(calls_in_tags_without_all_marks_are_read);
    RUN(calls_in_tags_that_are_cut_anywhere_are_kept);
    RUN(marks_of_tags_without_a_call_are_text);
    RUN(grammars_of_tags_agree_with_the_reader);
    return test_end();
}
