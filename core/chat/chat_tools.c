/* Tools for templates that do not write them: a system message says what they are and how they are
 * called, in the form that answers are read by (tools.h).
 * SPDX-License-Identifier: MIT
 *
 * If the template does not write calls either, those of the conversation become text in the plain
 * form, and tool results become messages of the user. */
#include "chat/chat_own.h"
#include "chat/jinja_json.h"
#include "chat/tools.h"

static const char tools_system[] =
    "You may call tools to answer. Each line between <tools> and </tools> describes one in JSON.\n"
    "<tools>{% for t in tools %}{{ '\\n' + t | tojson }}{% endfor %}\n"
    "</tools>\n\n"
    "To call tools, end your answer with calls, each in this form:\n{{ example }}";
static const char tools_calls[] =
    "{{ m.content or '' }}{% for c in m.tool_calls %}{% set f = c.function or c %}"
    "{{ '\\n' if m.content or not loop.first }}<tool_call>\n{\"name\": {{ f.name | tojson }}, \"arguments\": "
    "{{ f.arguments if f.arguments is string else f.arguments | tojson }}}\n</tool_call>{% endfor %}";
static const char tools_answer[] = "<tool_response>\n{{ m.content }}\n</tool_response>";

/* Renders one of our own templates with two variables. */
static qsf_jinja_value tools_write(chat_run *run, const char *jinja, const qsf_jinja_var vars[2])
{
    chat_engine e;
    qsf_chat_engine_init(&e, run->ask->platform, jinja, 65536);
    const qsf_status st = run->st ? run->st : qsf_chat_engine_render(&e, vars, 2, 0, run->err);
    char *copy = st ? NULL : qsf_arena_text(run->arena, e.out, e.len, run->err);
    const size_t len = e.len;
    if (!copy && !run->st) run->st = st ? st : QSF_E_MEMORY;
    qsf_chat_engine_drop(&e);
    return qsf_jinja_text_n(copy ? copy : "", copy ? len : 0);
}

/* A call as the form has it, to show it. */
static void tools_example(const qsf_tool_form *f, char *out, size_t cap)
{
    const char (*t)[QSF_TOOL_TEXT_MOST] = f->text;
    char body[8 * QSF_TOOL_TEXT_MOST];
    if (f->style == QSF_TOOLS_OBJECT && !*t[QSF_TT_NAME_KEY]) {
        qsf_format(body, sizeof body, "{\"NAME\": {\"KEY\": VALUE}}");
    } else if (f->style == QSF_TOOLS_OBJECT) {
        qsf_format(body, sizeof body, "{\"%s\": \"NAME\", \"%s\": {\"KEY\": VALUE}}", t[QSF_TT_NAME_KEY],
                   t[QSF_TT_ARGUMENTS_KEY]);
    } else if (f->style == QSF_TOOLS_TAGS) {
        qsf_format(body, sizeof body, "NAME%s%sKEY%s%s%sVALUE%s", t[QSF_TT_ARGUMENTS], t[QSF_TT_KEY],
                   t[QSF_TT_VALUE], t[QSF_TT_TYPE], t[QSF_TT_VALUE_BEGIN], t[QSF_TT_VALUE_END]);
    } else if (f->style == QSF_TOOLS_PYTHON) {
        qsf_format(body, sizeof body, "NAME(KEY=VALUE)");
    } else {
        qsf_format(body, sizeof body, "NAME%s{\"KEY\": VALUE}", t[QSF_TT_ARGUMENTS]);
    }
    qsf_format(out, cap, "%s%s%s%s%s", t[QSF_TT_SECTION], t[QSF_TT_OPEN], body, t[QSF_TT_CLOSE],
               t[QSF_TT_SECTION_END]);
    for (; *out; out++)
        if (*out == QSF_TOOL_ID) *out = '0';
}

/* Whether the template writes the name of the first tool. */
static bool tools_shown(chat_run *run, const qsf_jinja_value *messages)
{
    const qsf_json_node *t = qsf_json_first(run->ask->tools), *f = qsf_json_member(t, "function");
    const qsf_json_node *name = qsf_json_member(f ? f : t, "name");
    qsf_error ignored;
    if (!name || name->type != QSF_JSON_TEXT || !name->n) return true;
    if (qsf_chat_run_render(run, messages, true, &ignored)) return true;   /* reported elsewhere */
    return qsf_chat_engine_wrote(&run->engine, name->text, name->n);
}

/* The text before that of the first message, if that is the system's, or as one of its own. */
static void tools_put_system(chat_run *run, qsf_jinja_value *messages, qsf_jinja_value text)
{
    const bool has = messages->n && qsf_chat_is(qsf_jinja_member(&messages->as.items[0], "role"), "system");
    const qsf_jinja_value *content = has ? qsf_jinja_member(&messages->as.items[0], "content") : NULL;
    const uint32_t n = messages->n + !has;
    qsf_jinja_value *list = qsf_chat_values(run, n), role = qsf_jinja_text("system");
    if (!list) return;
    memcpy(list + !has, messages->as.items, messages->n * sizeof *list);
    if (!has) {
        const qsf_jinja_value empty = qsf_jinja_dict(NULL, 0);
        role.flags |= QSF_JINJA_OWN;
        list[0] = qsf_chat_with(run, &empty, "role", role);
    }
    if (content && (content->type == QSF_JINJA_TEXT || content->type == QSF_JINJA_LIST))
        text = qsf_chat_merged(run, content, &text);
    list[0] = qsf_chat_with(run, &list[0], "content", text);
    *messages = qsf_jinja_list(list, n);
}

qsf_jinja_value qsf_chat_without_calls(chat_run *run, const qsf_jinja_value *m)
{
    const bool calls = qsf_chat_calls_of(m);
    const bool answer = qsf_chat_is(qsf_jinja_member(m, "role"), "tool");
    const qsf_jinja_value empty = qsf_jinja_dict(NULL, 0);
    qsf_jinja_value role = qsf_jinja_text(answer ? "user" : "assistant"), joined = *m;
    if (!calls && !answer) return *m;
    qsf_chat_join_parts(run, &joined);
    const qsf_jinja_var vars[2] = { { "m", joined }, { "none", qsf_jinja_text("") } };
    role.flags |= QSF_JINJA_OWN;
    const qsf_jinja_value out = qsf_chat_with(run, &empty, "role", role);
    return qsf_chat_with(run, &out, "content", tools_write(run, answer ? tools_answer : tools_calls, vars));
}

bool qsf_chat_adapt_tools(chat_run *run, qsf_jinja_value *messages)
{
    qsf_tool_form form;
    char example[12 * QSF_TOOL_TEXT_MOST];
    if (!run->ask->tools || run->ask->tools->type != QSF_JSON_LIST || !run->ask->tools->n || run->st
        || tools_shown(run, messages)) return false;
    if ((run->st = qsf_tool_form_of(run->ask, &form, run->err))) return false;
    tools_example(&form, example, sizeof example);
    const qsf_jinja_var vars[2] = { { "tools", qsf_chat_json(run, run->ask->tools) },
                                    { "example", qsf_jinja_text(example) } };
    if (!form.shown) {
        const qsf_jinja_value *m = messages->as.items;
        qsf_jinja_value *list = qsf_chat_values(run, messages->n);
        for (uint32_t i = 0; list && i < messages->n; i++) list[i] = qsf_chat_without_calls(run, &m[i]);
        if (list) *messages = qsf_jinja_list(list, messages->n);
    }
    tools_put_system(run, messages, tools_write(run, tools_system, vars));
    return !run->st;
}
