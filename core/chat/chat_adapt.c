/* Messages in the forms that a template takes.  Small conversations are rendered to find out which,
 * each one only if the messages need the answer:
 * SPDX-License-Identifier: MIT
 *
 *   content in parts       is joined to one string if the template writes no parts, and the other
 *                          way round if it drops strings; this may differ by role
 *   no content             becomes an empty string if the template would write "None" or fail
 *   arguments of a call    are an object if the template writes the JSON itself, else JSON text
 *   reasoning              gets every name that templates use for it
 *
 * chat_shape.c handles roles and their order.  Messages that the template takes unchanged stay
 * unchanged. */
#include "chat/chat_own.h"

static const char probe_key[] = "kEy5rq", probe_text[] = "tExt7vw";

/* ---- values of small conversations ---- */

static qsf_jinja_value adapt_none(void) { return (qsf_jinja_value){ .type = QSF_JINJA_NONE }; }

static bool adapt_wrote(const chat_run *run, const char *text)
{
    return qsf_chat_engine_wrote(&run->engine, text, strlen(text));
}

/* Whether the template renders this content with a call whose arguments are an object with one
 * string, or that object's JSON, followed by the tool's result. */
static bool adapt_takes_call(chat_run *run, bool as_text, qsf_jinja_value content, qsf_jinja_value result)
{
    static const char json[] = "{\"kEy5rq\": \"tExt7vw\"}";
    qsf_jinja_value m[3], f, call, *calls = qsf_chat_values(run, 1);
    const qsf_jinja_value arguments = as_text ? qsf_jinja_text(json)
        : qsf_chat_one_pair(run, probe_key, qsf_jinja_text(probe_text));
    if (!calls) return false;
    f = qsf_chat_one_pair(run, "name", qsf_jinja_text("f"));
    f = qsf_chat_with(run, &f, "arguments", arguments);
    call = qsf_chat_one_pair(run, "id", qsf_jinja_text("a1b2c3d4e"));    /* nine letters, as Mistral wants */
    call = qsf_chat_with(run, &call, "type", qsf_chat_own_text("function"));
    calls[0] = qsf_chat_with(run, &call, "function", f);
    m[0] = qsf_chat_message_of(run, "user", qsf_jinja_text("a"));
    m[1] = qsf_chat_message_of(run, "assistant", content);
    m[1] = qsf_chat_with(run, &m[1], "tool_calls", qsf_jinja_list(calls, 1));
    m[2] = qsf_chat_message_of(run, "tool", result);
    m[2] = qsf_chat_with(run, &m[2], "name", qsf_jinja_text("f"));
    m[2] = qsf_chat_with(run, &m[2], "tool_call_id", qsf_jinja_text("a1b2c3d4e"));
    return qsf_chat_takes(run, m, 3);
}

/* With an empty content, or without content: some templates write calls only then. */
static bool adapt_takes_arguments(chat_run *run, bool as_text)
{
    for (int none = 0; none < 2; none++)
        if (adapt_takes_call(run, as_text, none ? adapt_none() : qsf_jinja_text(""), qsf_jinja_text("b"))
            && adapt_wrote(run, probe_key) && adapt_wrote(run, probe_text)
            && !adapt_wrote(run, "'kEy5rq'") && !adapt_wrote(run, "\\\"kEy5rq"))
            return true;
    return false;
}

/* Whether an answer that consists of calls may have a content that is not a string. */
static bool adapt_takes_no_content(chat_run *run)
{
    for (int as_text = 0; as_text < 2; as_text++)
        if (adapt_takes_call(run, as_text, adapt_none(), qsf_jinja_text("b")))
            return !adapt_wrote(run, "None");
    return false;
}

/* Whether the template writes this role's content, a string or (in_parts) a list of parts. */
static bool adapt_takes_from(chat_run *run, int role, bool in_parts)
{
    static const char *const quoted[] = { "text': 'tExt7vw", "text\": \"tExt7vw", "text\":\"tExt7vw" };
    const qsf_jinja_value text = qsf_jinja_text(probe_text), a = qsf_jinja_text("a");
    const qsf_jinja_value content = in_parts ? qsf_chat_parts_of(run, text) : text;
    bool takes;
    if (role == ADAPT_TOOL) {
        takes = adapt_takes_call(run, false, qsf_jinja_text(""), content)
            || adapt_takes_call(run, true, qsf_jinja_text(""), content);
    } else {
        const qsf_jinja_value m[] = { qsf_chat_message_of(run, "user", a),
                                      qsf_chat_message_of(run, qsf_chat_role_names[role], content),
                                      qsf_chat_message_of(run, "user", a) };
        const size_t first = role != ADAPT_ASSISTANT, n = role == ADAPT_USER ? 1 : 3 - first;
        takes = qsf_chat_takes(run, m + first, n);
    }
    takes = takes && adapt_wrote(run, probe_text);
    for (size_t i = 0; takes && in_parts && i < QSF_ARRAY_LEN(quoted); i++)
        takes = !adapt_wrote(run, quoted[i]);
    return takes;
}

/* ---- changes of messages ---- */

static void adapt_put_content(chat_run *run, qsf_jinja_value *m, qsf_jinja_value content)
{
    *m = qsf_chat_with(run, m, "content", content);
}

/* As transformers fills these names. */
static void adapt_name_reasoning(chat_run *run, qsf_jinja_value *m)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    const qsf_jinja_value *found = NULL;
    for (size_t i = 0; i < 3 && !found; i++)
        if ((found = qsf_jinja_member(m, names[i])) && found->type == QSF_JINJA_NONE) found = NULL;
    if (!found) return;
    const qsf_jinja_value reasoning = *found;
    *m = qsf_chat_with(run, m, "reasoning_content", reasoning);
    if (!qsf_jinja_member(m, "thinking")) *m = qsf_chat_with(run, m, "thinking", reasoning);
}

/* An object's JSON. */
static qsf_jinja_value adapt_as_json_text(chat_run *run, const qsf_jinja_value *v)
{
    const qsf_jinja_var x = { "x", *v };
    chat_engine e;
    qsf_jinja_value text = *v;
    qsf_chat_engine_init(&e, run->ask->platform, "{{ x | tojson }}", 4096);
    const qsf_status st = run->st ? run->st : qsf_chat_engine_render(&e, &x, 1, 0, run->err);
    char *copy = st ? NULL : qsf_arena_text(run->arena, e.out, e.len, run->err);
    if (copy) text = qsf_jinja_text_n(copy, e.len);
    else if (!run->st) run->st = st ? st : QSF_E_MEMORY;
    qsf_chat_engine_drop(&e);
    return text;
}

/* Parses the text as a JSON object; returns the text itself if it is not one. */
static qsf_jinja_value adapt_as_object(chat_run *run, const qsf_jinja_value *text)
{
    chat_document *d = run->st ? NULL : qsf_arena_alloc(run->arena, sizeof *d, "arguments", run->err);
    qsf_error ignored;
    if (!text->n) return qsf_jinja_dict(NULL, 0);
    if (!d) {
        run->st = run->st ? run->st : QSF_E_MEMORY;
        return *text;
    }
    const qsf_status st = qsf_json_read(run->ask->platform, text->as.text, text->n, "arguments", &d->json,
                                        &ignored);
    if (st) return *text;
    d->next = run->documents;
    run->documents = d;
    return d->json.nodes->type == QSF_JSON_OBJECT ? qsf_chat_json(run, d->json.nodes) : *text;
}

static void adapt_change_arguments(chat_run *run, qsf_jinja_value *m, bool to_text)
{
    const qsf_jinja_value *calls = qsf_jinja_member(m, "tool_calls");
    if (!calls || calls->type != QSF_JINJA_LIST) return;
    qsf_jinja_value list = qsf_chat_list_of(run, calls->as.items, calls->n);
    qsf_jinja_value *call = run->st ? NULL : (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; call && i < list.n; i++, call++) {
        const qsf_jinja_value *f = qsf_jinja_member(call, "function");
        const qsf_jinja_value *a = qsf_jinja_member(f ? f : call, "arguments");
        if (!a || a->type != (to_text ? QSF_JINJA_DICT : QSF_JINJA_TEXT)) continue;
        const qsf_jinja_value changed = to_text ? adapt_as_json_text(run, a) : adapt_as_object(run, a);
        const qsf_jinja_value in = qsf_chat_with(run, f ? f : call, "arguments", changed);
        *call = f ? qsf_chat_with(run, call, "function", in) : in;
    }
    *m = qsf_chat_with(run, m, "tool_calls", list);
}

/* ---- which changes ---- */

/* What the messages hold that a template may not take. */
typedef struct adapt_features {
    bool parts[ADAPT_ROLES], text[ADAPT_ROLES];         /* whose contents are such */
    bool no_content, text_arguments, object_arguments;
} adapt_features;

static adapt_features adapt_features_of(const qsf_jinja_value *messages)
{
    adapt_features f = { 0 };
    for (uint32_t i = 0; i < messages->n; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = qsf_jinja_member(m, "content"),
            *calls = qsf_jinja_member(m, "tool_calls");
        const int from = qsf_chat_role_of(m);
        f.parts[from] |= content && content->type == QSF_JINJA_LIST;
        const bool none = !content || content->type == QSF_JINJA_NONE;          /* an empty text, maybe */
        f.text[from] |= none || content->type == QSF_JINJA_TEXT;
        f.no_content |= none;
        for (uint32_t k = 0; calls && calls->type == QSF_JINJA_LIST && k < calls->n; k++) {
            const qsf_jinja_value *call = &calls->as.items[k], *in = qsf_jinja_member(call, "function"),
                *a = qsf_jinja_member(in ? in : call, "arguments");
            f.text_arguments |= a && a->type == QSF_JINJA_TEXT;
            f.object_arguments |= a && a->type == QSF_JINJA_DICT;
        }
    }
    return f;
}

/* Whether this role's parts are joined to one string.  A role that the template does not render is
 * rendered as the user's. */
static bool adapt_joins(chat_run *run, int role)
{
    if (adapt_takes_from(run, role, true)) return false;
    return role == ADAPT_USER || adapt_takes_from(run, role, false)
        || !adapt_takes_from(run, ADAPT_USER, true);
}

/* The user's first: there is a question in the conversations that show what it takes of others. */
static void adapt_contents(chat_run *run, const adapt_features *f, bool all, bool joins[ADAPT_ROLES])
{
    for (int role = 0; role < ADAPT_ROLES; role++) {
        const bool asks = role == ADAPT_TOOL ? f->text[role] : !all && (f->text[role] || role == ADAPT_USER);
        if (asks && !adapt_takes_from(run, role, false) && adapt_takes_from(run, role, true))
            run->in_parts |= (uint8_t)(1 << role);
        joins[role] = f->parts[role] && adapt_joins(run, role);
    }
}

/* Reports a message that the template drops wherever it is put. */
static void adapt_lost(chat_run *run, const qsf_jinja_value *messages)
{
    const qsf_jinja_value *role = run->lost < messages->n
        ? qsf_jinja_member(&messages->as.items[run->lost], "role") : NULL;
    if (run->lost >= messages->n || run->st || run->ask->may_drop) return;
    run->st = qsf_fail(run->err, QSF_E_ARGUMENT, "the chat template does not render message %u (role "
                       "\"%.40s\"), not even in another place or role; choose another template",
                       (unsigned)run->lost, role && role->type == QSF_JINJA_TEXT ? role->as.text : "");
}

/* Converts content, arguments and reasoning to the forms that the template takes. */
static void adapt_forms(chat_run *run, qsf_jinja_value *messages, bool all)
{
    const adapt_features f = adapt_features_of(messages);
    bool joins[ADAPT_ROLES];
    adapt_contents(run, &f, all, joins);
    const bool empties = f.no_content && !adapt_takes_no_content(run);
    const bool to_object = f.text_arguments && !adapt_takes_arguments(run, true)
        && adapt_takes_arguments(run, false);
    const bool to_text = f.object_arguments && !adapt_takes_arguments(run, false)
        && adapt_takes_arguments(run, true);
    qsf_jinja_value list = qsf_chat_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&m[i], "content");
        const bool says = qsf_chat_calls_of(&m[i]) && !empties;
        if (joins[qsf_chat_role_of(&m[i])]) qsf_chat_join_parts(run, &m[i]);
        if (!content || content->type == QSF_JINJA_NONE)
            adapt_put_content(run, &m[i], says ? adapt_none() : qsf_jinja_text(""));
        if (to_object) adapt_change_arguments(run, &m[i], false);
        if (to_text) adapt_change_arguments(run, &m[i], true);
        adapt_name_reasoning(run, &m[i]);
    }
    *messages = list;
}

/* Wraps content that is a single part without a list in a list. */
static void adapt_single_parts(chat_run *run, qsf_jinja_value *messages)
{
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&messages->as.items[i], "content");
        if (!content || !qsf_chat_is(qsf_jinja_member(content, "type"), "text")
            || !qsf_jinja_member(content, "text")) continue;
        qsf_jinja_value list = qsf_chat_list_of(run, messages->as.items, messages->n);
        if (run->st) return;
        adapt_put_content(run, (qsf_jinja_value *)(size_t)&list.as.items[i],
                          qsf_chat_list_of(run, content, 1));
        *messages = list;
    }
}

void qsf_chat_adapt(chat_run *run, qsf_jinja_value *messages)
{
    adapt_single_parts(run, messages);
    const bool all = qsf_chat_fits(run, messages);
    const qsf_jinja_value given = *messages;
    adapt_forms(run, messages, all);
    bool fits = run->st || qsf_chat_fit(run, messages);
    if (qsf_chat_adapt_tools(run, messages)) fits = qsf_chat_fit(run, messages);
    if (!fits) adapt_lost(run, &given);
}
