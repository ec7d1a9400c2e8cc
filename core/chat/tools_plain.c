/* The grammar of calls that a model writes without the form's marks: an object with a tool's name
 * and arguments, alone or in a code block.
 * SPDX-License-Identifier: MIT
 *
 * Only the beginning of an answer counts, and only up to the arguments' opening brace: an object
 * later on may be an example, and one without arguments anything. */
#include "chat/tools_plain.h"

static const char plain_fence[] = "```json\n";

const char *qsf_tools_plain_key(const qsf_tool_form *f)
{
    const char *key = f->text[QSF_TT_ARGUMENTS_KEY];
    return f->style == QSF_TOOLS_OBJECT && *key ? key : "arguments";
}

/* Whether a name is the same in JSON. */
static bool plain_name(const qsf_json_node *name)
{
    bool same = name->type == QSF_JSON_TEXT && name->n;
    for (size_t i = 0; same && i < name->n; i++)
        same = (unsigned char)name->text[i] > ' ' && !strchr("\"\\\x7f", name->text[i]);
    return same;
}

void qsf_tools_plain_begins(const qsf_tool_grammar_ask *ask, qsf_tool_grammar *out)
{
    static const char begin[] = { QSF_TEXT_BEGIN, 0 };
    const char *key = qsf_tools_plain_key(ask->form);
    const qsf_json_node *t = qsf_json_first(ask->tools);
    char head[32], tail[QSF_TOOL_TEXT_MOST + 16];
    for (uint32_t i = 0; i < ask->tools->n; i++, t = qsf_json_next(t)) {
        const qsf_json_node *in = qsf_json_member(t, "function");
        const qsf_json_node *name = qsf_json_member(in ? in : t, "name");
        if (!name || !plain_name(name) || (ask->only && !qsf_json_is_text(name, ask->only))) continue;
        for (int way = 0; way < 4; way++) {
            const char *blank = way & 1 ? " " : "";
            qsf_format(head, sizeof head, "%s%s{\"name\":%s\"", begin, way & 2 ? plain_fence : "", blank);
            qsf_format(tail, sizeof tail, "\",%s\"%s\":%s{", blank, key, blank);
            qsf_text_put(&out->texts, head);
            qsf_text_add(&out->texts, name->text, name->n);
            qsf_text_add(&out->texts, tail, strlen(tail) + 1);
            out->n_after++;
        }
    }
    out->with = true;
}

/* A single call ends the answer: text after it might have another one in it. */
static qsf_gnode plain_single(qsf_grammar_builder *b, qsf_gnode call, qsf_gnode fence, qsf_gnode blanks)
{
    const qsf_gnode end = qsf_g_repeat(b, qsf_g_bytes(b, "```", 3), 0, 1);
    const qsf_gnode fenced[] = { fence, call, blanks, end, blanks };
    const qsf_gnode alone[] = { call, blanks };
    const qsf_gnode ways[] = { qsf_g_sequence(b, fenced, 5), qsf_g_sequence(b, alone, 2) };
    return qsf_g_choice(b, ways, 2);
}

qsf_gnode qsf_tools_plain_answer(qsf_grammar_builder *b, qsf_gnode call, qsf_gnode any, bool several)
{
    static const uint32_t begins[][2] = { { '\t', '\n' }, { '\r', '\r' }, { ' ', ' ' }, { '{', '{' } };
    static const char begin[] = { QSF_TEXT_BEGIN };
    const qsf_gnode fence = qsf_g_bytes(b, plain_fence, sizeof plain_fence - 1);
    const qsf_gnode start = qsf_g_bytes(b, begin, 1);
    const qsf_gnode blanks = qsf_g_repeat(b, qsf_g_class(b, begins, 3, false), 0, QSF_G_NO_MOST);
    if (!several) {
        const qsf_gnode single[] = { start, plain_single(b, call, fence, blanks) };
        return qsf_g_sequence(b, single, 2);
    }
    const qsf_gnode another[] = { blanks, call }, text[] = { qsf_g_class(b, begins, 4, true), any };
    const qsf_gnode more = qsf_g_sequence(b, another, 2), rest = qsf_g_sequence(b, text, 2);
    const qsf_gnode parts[] = { start, qsf_g_repeat(b, fence, 0, 1), call,
                                qsf_g_repeat(b, more, 0, QSF_G_NO_MOST), blanks,
                                qsf_g_repeat(b, rest, 0, 1) };
    return qsf_g_sequence(b, parts, QSF_ARRAY_LEN(parts));
}
