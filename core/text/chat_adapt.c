/* Messages in the forms that a template takes.  Which those are is seen by rendering small
 * conversations, each only where the messages raise its question:
 * SPDX-License-Identifier: MIT
 *
 *   content in parts       is joined to one text where the template writes no parts; the other way
 *                          round where it drops texts; it may do so with some roles alone
 *   no content             is an empty text where the template would write "None" or fail
 *   arguments of a call    are an object where the template writes JSON itself, else JSON text
 *   reasoning              has all names under which templates ask for it
 *   a system message       goes before the first question where the template refuses or drops it
 *   a refusal              is answered by "system" for "developer", and by one message in place
 *                          of several of one role in a row
 *
 * A template that takes the messages as they are gets them as they are. */
#include "text/chat_own.h"

static const char probe_key[] = "kEy5rq", probe_text[] = "tExt7vw", probe_answer[] = "aNs3ty";
enum { PROBE_KEY = sizeof probe_key - 1, PROBE_TEXT = sizeof probe_text - 1 };

/* ---- values of small conversations ---- */

static qsf_jinja_value adapt_own_text(const char *text)
{
    qsf_jinja_value v = qsf_jinja_text(text);
    v.flags |= QSF_JINJA_OWN;
    return v;
}

/* Whose contents a template may take in forms of their own; others are taken as the user's. */
enum { ADAPT_USER, ADAPT_SYSTEM, ADAPT_ASSISTANT, ADAPT_TOOL, ADAPT_ROLES };
static const char *const adapt_roles[ADAPT_ROLES] = { "user", "system", "assistant", "tool" };

static int adapt_role_of(const qsf_jinja_value *m)
{
    int role = ADAPT_ROLES;
    while (--role > ADAPT_USER && !chat_is(qsf_jinja_member(m, "role"), adapt_roles[role])) {}
    return role;
}

static qsf_jinja_value adapt_none(void) { return (qsf_jinja_value){ .type = QSF_JINJA_NONE }; }

static qsf_jinja_value adapt_one_pair(chat_run *run, const char *key, qsf_jinja_value v)
{
    const qsf_jinja_value empty = qsf_jinja_dict(NULL, 0);
    return chat_with(run, &empty, key, v);
}

static qsf_jinja_value adapt_message_of(chat_run *run, const char *role, qsf_jinja_value content)
{
    const qsf_jinja_value m = adapt_one_pair(run, "role", adapt_own_text(role));
    return chat_with(run, &m, "content", content);
}

/* [{"type": "text", "text": text}] */
static qsf_jinja_value adapt_parts_of(chat_run *run, qsf_jinja_value text)
{
    qsf_jinja_value part = adapt_one_pair(run, "type", adapt_own_text("text")), *list = chat_values(run, 1);
    part = chat_with(run, &part, "text", text);
    if (!list) return part;
    list[0] = part;
    return qsf_jinja_list(list, 1);
}

static qsf_jinja_value adapt_list_of(chat_run *run, const qsf_jinja_value *items, size_t n)
{
    qsf_jinja_value *list = chat_values(run, n);
    if (list && n) memcpy(list, items, n * sizeof *list);
    return qsf_jinja_list(list, list ? n : 0);
}

/* Whether the template takes these messages; the text is the engine's. */
static bool adapt_takes(chat_run *run, const qsf_jinja_value *m, size_t n)
{
    const qsf_jinja_value list = adapt_list_of(run, m, n);
    qsf_error ignored;
    return !run->st && !chat_run_render(run, &list, true, &ignored);
}

static bool adapt_wrote(const chat_run *run, const char *text)
{
    return chat_engine_wrote(&run->engine, text, strlen(text));
}

/* A system message of this form before a question, which may be lost where the template writes only
 * the first message. */
static bool adapt_takes_system(chat_run *run, bool in_parts)
{
    const qsf_jinja_value text = qsf_jinja_text(probe_text);
    const qsf_jinja_value content = in_parts ? adapt_parts_of(run, text) : text;
    const qsf_jinja_value m[] = { adapt_message_of(run, "system", content),
                                  adapt_message_of(run, "user", qsf_jinja_text(probe_key)) };
    return (adapt_takes(run, m, 2) && adapt_wrote(run, probe_text) && adapt_wrote(run, probe_key))
        || !adapt_takes(run, m + 1, 1);
}

/* A call whose arguments are an object with one text, or that object's JSON, beside this
 * content, and what the tool says. */
static bool adapt_takes_call(chat_run *run, bool as_text, qsf_jinja_value content, qsf_jinja_value result)
{
    static const char json[] = "{\"kEy5rq\": \"tExt7vw\"}";
    qsf_jinja_value m[3], f, call, *calls = chat_values(run, 1);
    const qsf_jinja_value arguments = as_text ? qsf_jinja_text(json)
        : adapt_one_pair(run, probe_key, qsf_jinja_text(probe_text));
    if (!calls) return false;
    f = adapt_one_pair(run, "name", qsf_jinja_text("f"));
    f = chat_with(run, &f, "arguments", arguments);
    call = adapt_one_pair(run, "id", qsf_jinja_text("a1b2c3d4e"));        /* nine letters, as Mistral wants */
    call = chat_with(run, &call, "type", adapt_own_text("function"));
    calls[0] = chat_with(run, &call, "function", f);
    m[0] = adapt_message_of(run, "user", qsf_jinja_text("a"));
    m[1] = adapt_message_of(run, "assistant", content);
    m[1] = chat_with(run, &m[1], "tool_calls", qsf_jinja_list(calls, 1));
    m[2] = adapt_message_of(run, "tool", result);
    m[2] = chat_with(run, &m[2], "name", qsf_jinja_text("f"));
    m[2] = chat_with(run, &m[2], "tool_call_id", qsf_jinja_text("a1b2c3d4e"));
    return adapt_takes(run, m, 3);
}

/* Beside an empty text, or beside nothing: some write calls only then. */
static bool adapt_takes_arguments(chat_run *run, bool as_text)
{
    for (int none = 0; none < 2; none++)
        if (adapt_takes_call(run, as_text, none ? adapt_none() : qsf_jinja_text(""), qsf_jinja_text("b"))
            && adapt_wrote(run, probe_key) && adapt_wrote(run, probe_text)
            && !adapt_wrote(run, "'kEy5rq'") && !adapt_wrote(run, "\\\"kEy5rq"))
            return true;
    return false;
}

/* Whether an answer that only calls need not have a text as content. */
static bool adapt_takes_no_content(chat_run *run)
{
    for (int as_text = 0; as_text < 2; as_text++)
        if (adapt_takes_call(run, as_text, adapt_none(), qsf_jinja_text("b")))
            return !adapt_wrote(run, "None");
    return false;
}

/* Whether the template writes a text of this role, as it is or as the text of a part. */
static bool adapt_takes_from(chat_run *run, int role, bool in_parts)
{
    static const char *const quoted[] = { "text': 'tExt7vw", "text\": \"tExt7vw", "text\":\"tExt7vw" };
    const qsf_jinja_value text = qsf_jinja_text(probe_text), a = qsf_jinja_text("a");
    const qsf_jinja_value content = in_parts ? adapt_parts_of(run, text) : text;
    bool takes;
    if (role == ADAPT_TOOL) {
        takes = adapt_takes_call(run, false, qsf_jinja_text(""), content)
            || adapt_takes_call(run, true, qsf_jinja_text(""), content);
    } else {
        const qsf_jinja_value m[] = { adapt_message_of(run, "user", a),
                                      adapt_message_of(run, adapt_roles[role], content),
                                      adapt_message_of(run, "user", a) };
        const size_t first = role != ADAPT_ASSISTANT, n = role == ADAPT_USER ? 1 : 3 - first;
        takes = adapt_takes(run, m + first, n);
    }
    takes = takes && adapt_wrote(run, probe_text);
    for (size_t i = 0; takes && in_parts && i < QSF_ARRAY_LEN(quoted); i++)
        takes = !adapt_wrote(run, quoted[i]);
    return takes;
}

/* ---- changes of messages ---- */

static void adapt_put_content(chat_run *run, qsf_jinja_value *m, qsf_jinja_value content)
{
    *m = chat_with(run, m, "content", content);
}

void chat_join_parts(chat_run *run, qsf_jinja_value *m)
{
    const qsf_jinja_value *content = qsf_jinja_member(m, "content");
    qsf_jinja_value text = qsf_jinja_text("");
    if (!content || content->type != QSF_JINJA_LIST) return;
    for (uint32_t i = 0; i < content->n && !run->st; i++) {
        const qsf_jinja_value *part = &content->as.items[i], *t = qsf_jinja_member(part, "text"),
            *type = qsf_jinja_member(part, "type");
        if (part->type == QSF_JINJA_TEXT) t = part;
        if (t && t->type == QSF_JINJA_TEXT) text = chat_joined(run, &text, "\n", t);
        else run->st = qsf_fail(run->err, QSF_E_UNSUPPORTED, "a message has a part of type \"%.40s\": the "
                                "chat template takes text only",
                                type && type->type == QSF_JINJA_TEXT ? type->as.text : "?");
    }
    adapt_put_content(run, m, text);
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
    *m = chat_with(run, m, "reasoning_content", reasoning);
    if (!qsf_jinja_member(m, "thinking")) *m = chat_with(run, m, "thinking", reasoning);
}

/* An object's JSON. */
static qsf_jinja_value adapt_as_json_text(chat_run *run, const qsf_jinja_value *v)
{
    const qsf_jinja_var x = { "x", *v };
    chat_engine e;
    qsf_jinja_value text = *v;
    chat_engine_init(&e, run->ask->platform, "{{ x | tojson }}", 4096);
    const qsf_status st = run->st ? run->st : chat_engine_render(&e, &x, 1, 0, run->err);
    char *copy = st ? NULL : qsf_arena_text(run->arena, e.out, e.len, run->err);
    if (copy) text = qsf_jinja_text_n(copy, e.len);
    else if (!run->st) run->st = st ? st : QSF_E_MEMORY;
    chat_engine_drop(&e);
    return text;
}

/* The object that a text is as JSON; the text where it is none. */
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
    return d->json.nodes->type == QSF_JSON_OBJECT ? chat_json(run, d->json.nodes) : *text;
}

static void adapt_change_arguments(chat_run *run, qsf_jinja_value *m, bool to_text)
{
    const qsf_jinja_value *calls = qsf_jinja_member(m, "tool_calls");
    if (!calls || calls->type != QSF_JINJA_LIST) return;
    qsf_jinja_value list = adapt_list_of(run, calls->as.items, calls->n);
    qsf_jinja_value *call = run->st ? NULL : (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; call && i < list.n; i++, call++) {
        const qsf_jinja_value *f = qsf_jinja_member(call, "function");
        const qsf_jinja_value *a = qsf_jinja_member(f ? f : call, "arguments");
        if (!a || a->type != (to_text ? QSF_JINJA_DICT : QSF_JINJA_TEXT)) continue;
        const qsf_jinja_value changed = to_text ? adapt_as_json_text(run, a) : adapt_as_object(run, a);
        const qsf_jinja_value in = chat_with(run, f ? f : call, "arguments", changed);
        *call = f ? chat_with(run, call, "function", in) : in;
    }
    *m = chat_with(run, m, "tool_calls", list);
}

/* ---- which changes ---- */

/* What the messages hold that a template may not take. */
typedef struct adapt_features {
    bool parts[ADAPT_ROLES], text[ADAPT_ROLES];         /* whose contents are such */
    bool no_content, system, developer, text_arguments, object_arguments;
} adapt_features;

static adapt_features adapt_features_of(const qsf_jinja_value *messages)
{
    adapt_features f = { 0 };
    for (uint32_t i = 0; i < messages->n; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = qsf_jinja_member(m, "content"),
            *calls = qsf_jinja_member(m, "tool_calls"), *role = qsf_jinja_member(m, "role");
        const int from = adapt_role_of(m);
        f.parts[from] |= content && content->type == QSF_JINJA_LIST;
        const bool none = !content || content->type == QSF_JINJA_NONE;          /* an empty text, maybe */
        f.text[from] |= none || content->type == QSF_JINJA_TEXT;
        f.no_content |= none;
        f.system |= !i && chat_is(role, "system");
        f.developer |= chat_is(role, "developer");
        for (uint32_t k = 0; calls && calls->type == QSF_JINJA_LIST && k < calls->n; k++) {
            const qsf_jinja_value *call = &calls->as.items[k], *in = qsf_jinja_member(call, "function"),
                *a = qsf_jinja_member(in ? in : call, "arguments");
            f.text_arguments |= a && a->type == QSF_JINJA_TEXT;
            f.object_arguments |= a && a->type == QSF_JINJA_DICT;
        }
    }
    return f;
}

static bool adapt_is_content(const qsf_jinja_value *v)
{
    return v && (v->type == QSF_JINJA_TEXT || v->type == QSF_JINJA_LIST);
}

qsf_jinja_value chat_merged(chat_run *run, const qsf_jinja_value *a, const qsf_jinja_value *b)
{
    const qsf_jinja_value empty = qsf_jinja_text("\n\n");
    if (a->type == QSF_JINJA_TEXT && b->type == QSF_JINJA_TEXT) return chat_joined(run, a, "\n\n", b);
    const qsf_jinja_value first = a->type == QSF_JINJA_LIST ? *a : adapt_parts_of(run, *a);
    const qsf_jinja_value then = b->type == QSF_JINJA_LIST ? *b : adapt_parts_of(run, *b);
    const size_t n = (size_t)first.n + then.n;
    qsf_jinja_value *list = chat_values(run, n);
    if (!list) return *b;
    if (then.n) memcpy(list + first.n, then.as.items, then.n * sizeof *list);
    if (first.n) {
        memcpy(list, first.as.items, first.n * sizeof *list);
        qsf_jinja_value *last = &list[first.n - 1];
        const qsf_jinja_value *text = qsf_jinja_member(last, "text");
        if (text && text->type == QSF_JINJA_TEXT)
            *last = chat_with(run, last, "text", chat_joined(run, text, "", &empty));
    }
    return qsf_jinja_list(list, n);
}

/* The first message before the content of the next one. */
static bool adapt_merge(chat_run *run, qsf_jinja_value *list, size_t at)
{
    const qsf_jinja_value *a = qsf_jinja_member(&list[at], "content");
    const qsf_jinja_value *b = qsf_jinja_member(&list[at + 1], "content");
    if (!adapt_is_content(a) || !adapt_is_content(b)) return false;
    adapt_put_content(run, &list[at + 1], chat_merged(run, a, b));
    return true;
}

static bool adapt_merge_system(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = adapt_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    if (run->st || list.n < 2 || !chat_is(qsf_jinja_member(&m[0], "role"), "system")
        || !chat_is(qsf_jinja_member(&m[1], "role"), "user") || !adapt_merge(run, m, 0)) return false;
    *messages = qsf_jinja_list(m + 1, list.n - 1);
    return true;
}

/* Messages of one role in a row, but for tools' answers and calls, become one. */
static bool adapt_merge_rows(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = adapt_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    uint32_t n = 0;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *role = qsf_jinja_member(&m[i], "role"), *next = i + 1 < list.n
            ? qsf_jinja_member(&m[i + 1], "role") : NULL;
        const bool same = role && next && role->type == QSF_JINJA_TEXT && next->type == QSF_JINJA_TEXT
            && role->n == next->n && !memcmp(role->as.text, next->as.text, role->n);
        const bool text = same && !chat_is(role, "tool") && !qsf_jinja_member(&m[i], "tool_calls");
        if (text && adapt_merge(run, m, i)) continue;
        m[n++] = m[i];
    }
    if (run->st || n == list.n) return false;
    *messages = qsf_jinja_list(m, n);
    return true;
}

static bool adapt_rename_developer(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = adapt_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    if (run->st || !adapt_features_of(messages).developer) return false;
    for (uint32_t i = 0; i < list.n; i++)
        if (chat_is(qsf_jinja_member(&m[i], "role"), "developer"))
            m[i] = chat_with(run, &m[i], "role", adapt_own_text("system"));
    *messages = list;
    return true;
}

bool chat_adapt_more(chat_run *run, int *step, qsf_jinja_value *messages)
{
    static bool (*const steps[])(chat_run *, qsf_jinja_value *) = {
        adapt_rename_developer, adapt_merge_system, adapt_merge_rows,
    };
    while (*step < (int)QSF_ARRAY_LEN(steps) && !run->st)
        if (steps[(*step)++](run, messages)) return !run->st;
    return false;
}

qsf_jinja_value chat_in_parts(chat_run *run, const qsf_jinja_value *messages)
{
    qsf_jinja_value list = adapt_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&m[i], "content");
        if (content && content->type == QSF_JINJA_TEXT && run->in_parts >> adapt_role_of(&m[i]) & 1)
            adapt_put_content(run, &m[i], adapt_parts_of(run, *content));
    }
    return list;
}

/* Whether parts from this role become one text.  What the template takes from nobody of the role
 * comes as the user's. */
static bool adapt_joins(chat_run *run, int role)
{
    if (adapt_takes_from(run, role, true)) return false;
    return role == ADAPT_USER || adapt_takes_from(run, role, false)
        || !adapt_takes_from(run, ADAPT_USER, true);
}

/* Whether the template writes the texts of all who talk, as most do: one probe says it. */
static bool adapt_takes_all(chat_run *run, const adapt_features *f)
{
    const bool system = f->text[ADAPT_SYSTEM], answer = f->text[ADAPT_ASSISTANT];
    const qsf_jinja_value m[] = { adapt_message_of(run, "system", qsf_jinja_text(probe_text)),
                                  adapt_message_of(run, "user", qsf_jinja_text(probe_key)),
                                  adapt_message_of(run, "assistant", qsf_jinja_text(probe_answer)),
                                  adapt_message_of(run, "user", qsf_jinja_text("a")) };
    return adapt_takes(run, m + !system, (answer ? 4 : 2) - !system) && adapt_wrote(run, probe_key)
        && (!system || adapt_wrote(run, probe_text)) && (!answer || adapt_wrote(run, probe_answer));
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

void chat_adapt(chat_run *run, qsf_jinja_value *messages)
{
    const adapt_features f = adapt_features_of(messages);
    const bool all = adapt_takes_all(run, &f), says_system = all && f.text[ADAPT_SYSTEM];
    bool joins[ADAPT_ROLES];
    adapt_contents(run, &f, all, joins);
    const bool empties = f.no_content && !adapt_takes_no_content(run);
    const bool to_object = f.text_arguments && !adapt_takes_arguments(run, true)
        && adapt_takes_arguments(run, false);
    const bool to_text = f.object_arguments && !adapt_takes_arguments(run, false)
        && adapt_takes_arguments(run, true);
    qsf_jinja_value list = adapt_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&m[i], "content");
        if (joins[adapt_role_of(&m[i])]) chat_join_parts(run, &m[i]);
        if (!content || content->type == QSF_JINJA_NONE)
            adapt_put_content(run, &m[i], empties ? qsf_jinja_text("") : adapt_none());
        if (to_object) adapt_change_arguments(run, &m[i], false);
        if (to_text) adapt_change_arguments(run, &m[i], true);
        adapt_name_reasoning(run, &m[i]);
    }
    *messages = list;
    const bool tools = chat_adapt_tools(run, messages);
    if (run->st || !(f.system || tools) || says_system) return;
    const qsf_jinja_value *first = qsf_jinja_member(&messages->as.items[0], "content");
    if (!adapt_takes_system(run, first && first->type == QSF_JINJA_LIST)) adapt_merge_system(run, messages);
}
