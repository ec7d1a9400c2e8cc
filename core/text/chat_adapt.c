/* Messages in the forms that a template takes.  Which those are is seen by rendering small
 * conversations, each only where the messages raise its question:
 * SPDX-License-Identifier: MIT
 *
 *   content in parts       is joined to one text where the template writes no parts; the other way
 *                          round where it drops texts
 *   no content             is an empty text where the template would write "None" or fail
 *   arguments of a call    are an object where the template writes JSON itself, else their JSON text
 *   reasoning              has all names under which templates ask for it
 *   a system message       goes before the first question where the template refuses or drops it
 *   a refusal              is answered by "system" for "developer", and by messages of one role in a
 *                          row as one
 *
 * A template that takes the messages as they are gets them as they are. */
#include "text/chat_own.h"

static const char probe_key[] = "kEy5rq", probe_text[] = "tExt7vw";
enum { PROBE_KEY = sizeof probe_key - 1, PROBE_TEXT = sizeof probe_text - 1 };

/* ---- values of small conversations ---- */

static qsf_jinja_value own_text(const char *text)
{
    qsf_jinja_value v = qsf_jinja_text(text);
    v.flags |= QSF_JINJA_OWN;
    return v;
}

static qsf_jinja_value none(void) { return (qsf_jinja_value){ .type = QSF_JINJA_NONE }; }

static qsf_jinja_value one_pair(chat_run *run, const char *key, qsf_jinja_value v)
{
    const qsf_jinja_value empty = qsf_jinja_dict(NULL, 0);
    return chat_with(run, &empty, key, v);
}

static qsf_jinja_value message_of(chat_run *run, const char *role, qsf_jinja_value content)
{
    const qsf_jinja_value m = one_pair(run, "role", own_text(role));
    return chat_with(run, &m, "content", content);
}

/* [{"type": "text", "text": text}] */
static qsf_jinja_value parts_of(chat_run *run, qsf_jinja_value text)
{
    qsf_jinja_value part = one_pair(run, "type", own_text("text")), *list = chat_values(run, 1);
    part = chat_with(run, &part, "text", text);
    if (!list) return part;
    list[0] = part;
    return qsf_jinja_list(list, 1);
}

static qsf_jinja_value list_of(chat_run *run, const qsf_jinja_value *items, size_t n)
{
    qsf_jinja_value *list = chat_values(run, n);
    if (list && n) memcpy(list, items, n * sizeof *list);
    return qsf_jinja_list(list, list ? n : 0);
}

/* Whether the template takes these messages; the text is the engine's. */
static bool takes(chat_run *run, const qsf_jinja_value *m, size_t n)
{
    const qsf_jinja_value list = list_of(run, m, n);
    qsf_error ignored;
    return !run->st && !chat_run_render(run, &list, true, &ignored);
}

static bool wrote(const chat_run *run, const char *text)
{
    return chat_engine_wrote(&run->engine, text, strlen(text));
}

static bool takes_question(chat_run *run, qsf_jinja_value content)
{
    const qsf_jinja_value m = message_of(run, "user", content);
    return takes(run, &m, 1) && wrote(run, probe_text);
}

static bool takes_parts(chat_run *run)
{
    return takes_question(run, parts_of(run, qsf_jinja_text(probe_text)))
        && !wrote(run, "'type'") && !wrote(run, "\"type\"");
}

static bool takes_system(chat_run *run)
{
    const qsf_jinja_value m[] = { message_of(run, "system", qsf_jinja_text(probe_text)),
                                  message_of(run, "user", qsf_jinja_text("a")) };
    return (takes(run, m, 2) && wrote(run, probe_text)) || !takes(run, m + 1, 1);
}

/* A call whose arguments are an object with one text, or that object's JSON. */
static bool takes_arguments(chat_run *run, bool as_text, qsf_jinja_value content)
{
    static const char json[] = "{\"kEy5rq\": \"tExt7vw\"}";
    qsf_jinja_value m[3], f, call, *calls = chat_values(run, 1);
    const qsf_jinja_value arguments = as_text ? qsf_jinja_text(json)
        : one_pair(run, probe_key, qsf_jinja_text(probe_text));
    if (!calls) return false;
    f = one_pair(run, "name", qsf_jinja_text("f"));
    f = chat_with(run, &f, "arguments", arguments);
    call = one_pair(run, "id", qsf_jinja_text("a1b2c3d4e"));        /* nine letters, as Mistral wants */
    call = chat_with(run, &call, "type", own_text("function"));
    calls[0] = chat_with(run, &call, "function", f);
    m[0] = message_of(run, "user", qsf_jinja_text("a"));
    m[1] = message_of(run, "assistant", content);
    m[1] = chat_with(run, &m[1], "tool_calls", qsf_jinja_list(calls, 1));
    m[2] = message_of(run, "tool", qsf_jinja_text("b"));
    m[2] = chat_with(run, &m[2], "name", qsf_jinja_text("f"));
    m[2] = chat_with(run, &m[2], "tool_call_id", qsf_jinja_text("a1b2c3d4e"));
    return takes(run, m, 3) && wrote(run, probe_key) && wrote(run, probe_text)
        && !wrote(run, "'kEy5rq'") && !wrote(run, "\\\"kEy5rq");
}

/* ---- changes of messages ---- */

static void put_content(chat_run *run, qsf_jinja_value *m, qsf_jinja_value content)
{
    *m = chat_with(run, m, "content", content);
}

/* Joins the texts of parts, a line each. */
static void parts_to_text(chat_run *run, qsf_jinja_value *m)
{
    const qsf_jinja_value *content = chat_get(m, "content");
    qsf_jinja_value text = qsf_jinja_text("");
    if (!content || content->type != QSF_JINJA_LIST) return;
    for (uint32_t i = 0; i < content->n && !run->st; i++) {
        const qsf_jinja_value *part = &content->as.items[i], *t = chat_get(part, "text"),
            *type = chat_get(part, "type");
        if (part->type == QSF_JINJA_TEXT) t = part;
        if (t && t->type == QSF_JINJA_TEXT) text = chat_joined(run, &text, "\n", t);
        else run->st = qsf_fail(run->err, QSF_E_UNSUPPORTED, "a message has a part of type \"%.40s\": the "
                                "chat template takes text only",
                                type && type->type == QSF_JINJA_TEXT ? type->as.text : "?");
    }
    put_content(run, m, text);
}

static void text_to_parts(chat_run *run, qsf_jinja_value *m)
{
    const qsf_jinja_value *content = chat_get(m, "content");
    if (content && content->type == QSF_JINJA_TEXT) put_content(run, m, parts_of(run, *content));
}

/* As transformers fills these names. */
static void name_reasoning(chat_run *run, qsf_jinja_value *m)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    const qsf_jinja_value *found = NULL;
    for (size_t i = 0; i < 3 && !found; i++)
        if ((found = chat_get(m, names[i])) && found->type == QSF_JINJA_NONE) found = NULL;
    if (!found) return;
    const qsf_jinja_value reasoning = *found;
    *m = chat_with(run, m, "reasoning_content", reasoning);
    if (!chat_get(m, "thinking")) *m = chat_with(run, m, "thinking", reasoning);
}

/* An object's JSON. */
static qsf_jinja_value as_json_text(chat_run *run, const qsf_jinja_value *v)
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
static qsf_jinja_value as_object(chat_run *run, const qsf_jinja_value *text)
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

static void change_arguments(chat_run *run, qsf_jinja_value *m, bool to_text)
{
    const qsf_jinja_value *calls = chat_get(m, "tool_calls");
    if (!calls || calls->type != QSF_JINJA_LIST) return;
    qsf_jinja_value list = list_of(run, calls->as.items, calls->n);
    qsf_jinja_value *call = run->st ? NULL : (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; call && i < list.n; i++, call++) {
        const qsf_jinja_value *f = chat_get(call, "function"), *a = chat_get(f ? f : call, "arguments");
        if (!a || a->type != (to_text ? QSF_JINJA_DICT : QSF_JINJA_TEXT)) continue;
        const qsf_jinja_value changed = to_text ? as_json_text(run, a) : as_object(run, a);
        const qsf_jinja_value in = chat_with(run, f ? f : call, "arguments", changed);
        *call = f ? chat_with(run, call, "function", in) : in;
    }
    *m = chat_with(run, m, "tool_calls", list);
}

/* ---- which changes ---- */

/* What the messages hold that a template may not take. */
typedef struct features { bool parts, no_content, system, developer, text_arguments, object_arguments; } features;

static features features_of(const qsf_jinja_value *messages)
{
    features f = { 0 };
    for (uint32_t i = 0; i < messages->n; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = chat_get(m, "content"),
            *calls = chat_get(m, "tool_calls"), *role = chat_get(m, "role");
        f.parts |= content && content->type == QSF_JINJA_LIST;
        f.no_content |= !content || content->type == QSF_JINJA_NONE;
        f.system |= !i && chat_is(role, "system");
        f.developer |= chat_is(role, "developer");
        for (uint32_t k = 0; calls && calls->type == QSF_JINJA_LIST && k < calls->n; k++) {
            const qsf_jinja_value *call = &calls->as.items[k], *in = chat_get(call, "function"),
                *a = chat_get(in ? in : call, "arguments");
            f.text_arguments |= a && a->type == QSF_JINJA_TEXT;
            f.object_arguments |= a && a->type == QSF_JINJA_DICT;
        }
    }
    return f;
}

/* The first message before the text of the next one, if that is text. */
static bool merge(chat_run *run, qsf_jinja_value *list, size_t at)
{
    const qsf_jinja_value *a = chat_get(&list[at], "content"), *b = chat_get(&list[at + 1], "content");
    if (!a || !b || a->type != QSF_JINJA_TEXT || b->type != QSF_JINJA_TEXT) return false;
    put_content(run, &list[at + 1], chat_joined(run, a, "\n\n", b));
    return true;
}

static bool merge_system(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    if (run->st || list.n < 2 || !chat_is(chat_get(&m[0], "role"), "system")
        || !chat_is(chat_get(&m[1], "role"), "user") || !merge(run, m, 0)) return false;
    *messages = qsf_jinja_list(m + 1, list.n - 1);
    return true;
}

/* Messages of one role in a row, but for tools' answers and calls, become one. */
static bool merge_rows(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    uint32_t n = 0;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *role = chat_get(&m[i], "role"), *next = i + 1 < list.n
            ? chat_get(&m[i + 1], "role") : NULL;
        const bool same = role && next && role->type == QSF_JINJA_TEXT && next->type == QSF_JINJA_TEXT
            && role->n == next->n && !memcmp(role->as.text, next->as.text, role->n);
        if (same && !chat_is(role, "tool") && !chat_get(&m[i], "tool_calls") && merge(run, m, i)) continue;
        m[n++] = m[i];
    }
    if (run->st || n == list.n) return false;
    *messages = qsf_jinja_list(m, n);
    return true;
}

static bool rename_developer(chat_run *run, qsf_jinja_value *messages)
{
    qsf_jinja_value list = list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    if (run->st || !features_of(messages).developer) return false;
    for (uint32_t i = 0; i < list.n; i++)
        if (chat_is(chat_get(&m[i], "role"), "developer"))
            m[i] = chat_with(run, &m[i], "role", own_text("system"));
    *messages = list;
    return true;
}

bool chat_adapt_more(chat_run *run, int *step, qsf_jinja_value *messages)
{
    static bool (*const steps[])(chat_run *, qsf_jinja_value *) = { chat_adapt_lost, rename_developer,
                                                                    merge_system, merge_rows };
    while (*step < (int)QSF_ARRAY_LEN(steps) && !run->st)
        if (steps[(*step)++](run, messages)) return !run->st;
    return false;
}

/* The last question's text, or a part of it. */
static qsf_jinja_value last_question(const qsf_jinja_value *messages)
{
    for (uint32_t i = messages->n; i-- > 0;) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = chat_get(m, "content");
        if (!chat_is(chat_get(m, "role"), "user") || !content || content->type != QSF_JINJA_TEXT) continue;
        uint32_t at = 0, n = 0;
        while (at < content->n && (uint8_t)content->as.text[at] <= ' ') at++;
        while (at + n < content->n && n < 32 && (uint8_t)content->as.text[at + n] > ' ') n++;
        return qsf_jinja_text_n(content->as.text + at, n);
    }
    return qsf_jinja_text("");
}

bool chat_adapt_lost(chat_run *run, qsf_jinja_value *messages)
{
    const qsf_jinja_value question = last_question(messages);
    if (!question.n || chat_engine_wrote(&run->engine, question.as.text, question.n)
        || takes_question(run, qsf_jinja_text(probe_text)) || !takes_parts(run)) return false;
    qsf_jinja_value list = list_of(run, messages->as.items, messages->n);
    for (uint32_t i = 0; !run->st && i < list.n; i++)
        text_to_parts(run, (qsf_jinja_value *)(size_t)&list.as.items[i]);
    *messages = list;
    return !run->st;
}

void chat_adapt(chat_run *run, qsf_jinja_value *messages)
{
    const features f = features_of(messages);
    const bool joins = f.parts && !takes_parts(run);
    bool empties = false, to_text = false, to_object = false;
    if (f.no_content) {
        const bool with = takes_arguments(run, false, none()) && !wrote(run, "None");
        empties = !with && (takes_arguments(run, false, qsf_jinja_text(""))
                            || takes_arguments(run, true, qsf_jinja_text("")));
    }
    if (f.text_arguments) to_object = !takes_arguments(run, true, qsf_jinja_text(""))
        && takes_arguments(run, false, qsf_jinja_text(""));
    if (f.object_arguments) to_text = !takes_arguments(run, false, qsf_jinja_text(""))
        && takes_arguments(run, true, qsf_jinja_text(""));
    qsf_jinja_value list = list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *content = chat_get(&m[i], "content");
        if (joins) parts_to_text(run, &m[i]);
        if (!content || content->type == QSF_JINJA_NONE)
            put_content(run, &m[i], empties ? qsf_jinja_text("") : none());
        if (to_object) change_arguments(run, &m[i], false);
        if (to_text) change_arguments(run, &m[i], true);
        name_reasoning(run, &m[i]);
    }
    *messages = list;
    if (!run->st && f.system && !takes_system(run)) merge_system(run, messages);
}
