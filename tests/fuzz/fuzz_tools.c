/* Fuzz target: any bytes as an answer with calls, whole and in two pieces.  Both must give the same
 * message; it must be JSON, and so must the arguments of its calls.
 * SPDX-License-Identifier: MIT
 *
 * The first byte chooses the form, whether three bytes are a control token, and whether the tools
 * come first, up to a zero byte; the second byte chooses the cut and which bytes. */
#include "chat/tools.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_tools_form(qsf_tool_form *f, unsigned which)
{
    static const struct { uint8_t style; const char *section, *open, *arguments, *key, *value, *value_end,
        *close; }
    forms[] = {
        { QSF_TOOLS_OBJECT, "", "<t>", "", "", "", "", "</t>" },
        { QSF_TOOLS_OBJECT, "", "", "", "", "", "", "" },
        { QSF_TOOLS_JSON, "<s>", "<t>", "<a>", "", "", "", "</t>" },
        { QSF_TOOLS_TAGS, "", "<t>", ">", "<k>", "<v>", "</v>", "</t>" },
        { QSF_TOOLS_QUOTED, "", "<t>", "", "<q>", "", "", "</t>" },
        { QSF_TOOLS_PYTHON, "<s>[", "", "", "", "", "", "" },
        { QSF_TOOLS_CHANNELS, "", "", "", "", "", "", "" },
        { QSF_TOOLS_TAGS, "<s>", "<t\1>\n<f>", ">", "<k>", "<v>", "</v>", "</t>" },
        { QSF_TOOLS_TAGS, "", "\n<t>\n<f=", ">", "\n<k=", ">\n", "\n</k>", "\n</f>\n</t>" },
    };
    const unsigned i = which % QSF_ARRAY_LEN(forms);
    const bool typed = strchr(forms[i].open, QSF_TOOL_ID) != NULL;
    const struct { qsf_tool_text which; const char *text; } texts[] = {
        { QSF_TT_SECTION, forms[i].section }, { QSF_TT_OPEN, forms[i].open }, { QSF_TT_ID, "<i>" },
        { QSF_TT_ARGUMENTS, forms[i].arguments }, { QSF_TT_KEY, forms[i].key },
        { QSF_TT_VALUE, forms[i].value }, { QSF_TT_VALUE_END, forms[i].value_end },
        { QSF_TT_CLOSE, forms[i].close }, { QSF_TT_TYPE, typed ? "t" : "" },
        { QSF_TT_VALUE_BEGIN, typed ? "<b>" : "" }, { QSF_TT_TEXT_END, typed ? "<e>" : "" },
    };
    qsf_tool_form_plain(f);
    f->style = forms[i].style;
    for (size_t k = 0; k < QSF_ARRAY_LEN(texts); k++)
        memcpy(f->text[texts[k].which], texts[k].text, strlen(texts[k].text) + 1);
}

static void fuzz_tools_check(const char *message, size_t len)
{
    qsf_json j, arguments;
    if (qsf_json_read(qsf_platform_native(), message, len, "message", &j, NULL)) abort();
    const qsf_json_node *t = qsf_json_member(j.nodes, "tool_calls"), *v = t ? qsf_json_first(t) : NULL;
    for (uint32_t i = 0; t && i < t->n; i++, v = qsf_json_next(v)) {
        const qsf_json_node *a = qsf_json_member(qsf_json_member(v, "function"), "arguments");
        if (qsf_json_member(v, "unfinished")) continue;
        if (qsf_json_read(qsf_platform_native(), a->text, a->n, "arguments", &arguments, NULL)) abort();
        if (arguments.nodes->type != QSF_JSON_OBJECT) abort();
        qsf_json_drop(&arguments);
    }
    qsf_json_drop(&j);
}

/* Reads the answer text[0..n) in two pieces; the caller must free the message in *out. */
static void fuzz_tools_read(qsf_tool_answer *a, const uint8_t *data, const char *text, size_t n, size_t cut,
                            char **out)
{
    qsf_tool_event e;
    const char *json;
    size_t len;
    size_t ascii = 0;                           /* a control token is whole characters */
    while (ascii < n && (unsigned char)text[ascii] < 0x80) ascii++;
    if ((data[0] & 128) && data[1] % 32 + 3u <= ascii) qsf_tool_answer_control(a, data[1] % 32, 3);
    if (!qsf_tool_answer_push(a, text, cut, false, NULL) && !qsf_tool_answer_json(a, &json, &len, NULL)) {
        qsf_json j;
        if (qsf_json_read(qsf_platform_native(), json, len, "message", &j, NULL)) abort();
        qsf_json_drop(&j);
    }
    while (qsf_tool_answer_next(a, &e)) if (e.type == QSF_TE_NONE) abort();
    if (!qsf_tool_answer_push(a, text + cut, n - cut, true, NULL)
        && !qsf_tool_answer_json(a, &json, &len, NULL)) {
        fuzz_tools_check(json, len);
        *out = malloc(len + 1);
        memcpy(*out, json, len + 1);
    }
    qsf_tool_answer_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char known[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"$defs\":{\"t\":{\"type\":"
        "\"string\"},\"l\":{\"$ref\":\"#/$defs/l\"}},\"properties\":{\"s\":{\"type\":\"string\"},"
        "\"n\":{\"type\":\"number\"},\"u\":{\"anyOf\":[{\"$ref\":\"#/$defs/t\"},{\"type\":\"null\"}]},"
        "\"i\":{\"type\":[\"integer\",\"string\"]},\"l\":{\"$ref\":\"#/$defs/l\"}}}}}]";
    qsf_tool_form f;
    if (size < 2) return 0;
    fuzz_tools_form(&f, data[0]);
    const char *text = (const char *)data + 2, *tools = known, *zero;
    size_t n = size - 2, n_tools = sizeof known - 1;
    if ((data[0] & 64) && n && (zero = memchr(text, 0, n))) {
        tools = text;
        n_tools = (size_t)(zero - text);
        n -= n_tools + 1;
        text = zero + 1;
    }
    char *messages[2] = { NULL, NULL };
    for (int pieces = 0; pieces < 2; pieces++) {
        qsf_tool_answer *a;
        if (qsf_tool_answer_new(qsf_platform_native(), &f, tools, n_tools, 1, &a, NULL)) break;
        fuzz_tools_read(a, data, text, n, pieces && n ? data[1] * n / 255 : 0, &messages[pieces]);
    }
    if (messages[0] && messages[1] && strcmp(messages[0], messages[1])) abort();
    free(messages[0]);
    free(messages[1]);
    return 0;
}
