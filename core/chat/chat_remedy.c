/* Rewrites conversations for templates that refuse their shape, or drop or misplace a message.
 * Each remedy is applied only if the template is seen to need it (chat_shape.c).
 * SPDX-License-Identifier: MIT */
#include "chat/chat_own.h"

/* Collects the rewritten messages, with room for twice the original number plus the calls. */
typedef struct remedy_list {
    chat_run        *run;
    qsf_jinja_value *at;
    uint32_t         n;
    bool             changed;
} remedy_list;

static remedy_list remedy_begin(chat_run *run, const qsf_jinja_value *messages)
{
    size_t room = 1 + 2 * (size_t)messages->n;
    for (uint32_t i = 0; i < messages->n; i++) {
        const qsf_jinja_value *calls = qsf_chat_calls_of(&messages->as.items[i]);
        room += calls ? calls->n : 0;
    }
    return (remedy_list){ .run = run, .at = qsf_chat_values(run, room) };
}

static void remedy_add(remedy_list *l, qsf_jinja_value m)
{
    if (!l->run->st) l->at[l->n++] = m;
}

static bool remedy_end(const remedy_list *l, qsf_jinja_value *messages)
{
    if (l->run->st || !l->changed) return false;
    *messages = qsf_jinja_list(l->at, l->n);
    return true;
}

/* ---- messages ---- */

static bool remedy_is(const qsf_jinja_value *m, const char *role)
{
    return qsf_chat_is(qsf_jinja_member(m, "role"), role);
}

/* Whether the role is one of OpenAI's. */
static bool remedy_is_known(const qsf_jinja_value *m)
{
    static const char *const known[] = { "system", "developer", "user", "assistant", "tool" };
    bool is = false;
    for (size_t i = 0; i < QSF_ARRAY_LEN(known); i++) is = is || remedy_is(m, known[i]);
    return is;
}

static bool remedy_is_system(const qsf_jinja_value *m)
{
    return remedy_is(m, "system") || remedy_is(m, "developer");
}

/* The content if it is a string or parts, otherwise an empty string. */
static qsf_jinja_value remedy_content(const qsf_jinja_value *m)
{
    const qsf_jinja_value *content = qsf_jinja_member(m, "content");
    const bool is = content && (content->type == QSF_JINJA_TEXT || content->type == QSF_JINJA_LIST);
    return is ? *content : qsf_jinja_text("");
}

static bool remedy_is_empty(const qsf_jinja_value *content)
{
    return content->type == QSF_JINJA_LIST ? !content->n : qsf_chat_is_blank(content);
}

static qsf_jinja_value remedy_merged(chat_run *run, const qsf_jinja_value *a, const qsf_jinja_value *b)
{
    return remedy_is_empty(a) ? *b : remedy_is_empty(b) ? *a : qsf_chat_merged(run, a, b);
}

/* The message with `content` put before its own. */
static qsf_jinja_value remedy_before(chat_run *run, const qsf_jinja_value *content, const qsf_jinja_value *m)
{
    const qsf_jinja_value own = remedy_content(m);
    return qsf_chat_with(run, m, "content", remedy_merged(run, content, &own));
}

static qsf_jinja_value remedy_role(chat_run *run, const qsf_jinja_value *m, const char *role)
{
    return qsf_chat_with(run, m, "role", qsf_chat_own_text(role));
}

/* ---- roles ---- */

static bool remedy_roles(chat_run *run, qsf_jinja_value *messages)
{
    static const char *const names[][2] = {
        { "developer", "system" }, { "human", "user" }, { "ai", "assistant" }, { "bot", "assistant" },
        { "gpt", "assistant" }, { "model", "assistant" }, { "function", "tool" }, { "ipython", "tool" },
        { "observation", "tool" }, { "tool_result", "tool" }, { "tool_results", "tool" },
        { "tool_response", "tool" },
    };
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        qsf_jinja_value m = messages->as.items[i];
        for (size_t k = 0; k < QSF_ARRAY_LEN(names); k++) {
            if (!remedy_is(&m, names[k][0])) continue;
            m = remedy_role(run, &m, names[k][1]);
            l.changed = true;
        }
        remedy_add(&l, m);
    }
    return remedy_end(&l, messages);
}

/* The message as the user's, prefixed by its role's name. */
static qsf_jinja_value remedy_quoted(chat_run *run, const qsf_jinja_value *m)
{
    const qsf_jinja_value colon = qsf_jinja_text(": "), content = remedy_content(m);
    const qsf_jinja_value *role = qsf_jinja_member(m, "role");
    qsf_jinja_value name = qsf_jinja_text("");
    if (role && role->type == QSF_JINJA_TEXT) name = qsf_chat_joined(run, role, "", &colon);
    const qsf_jinja_value text = content.type == QSF_JINJA_TEXT ? qsf_chat_joined(run, &name, "", &content)
                                                                : qsf_chat_merged(run, &name, &content);
    return qsf_chat_message_of(run, "user", text);
}

static bool remedy_unknown(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i];
        const bool known = remedy_is_known(m);
        remedy_add(&l, known ? *m : remedy_quoted(run, m));
        l.changed |= !known;
    }
    return remedy_end(&l, messages);
}

/* ---- contents ---- */

/* Joins the texts of all parts in the first text part. */
static qsf_jinja_value remedy_joined(chat_run *run, const qsf_jinja_value *content, uint32_t *texts)
{
    qsf_jinja_value *list = qsf_chat_values(run, content->n), *first = NULL;
    uint32_t n = 0;
    *texts = 0;
    for (uint32_t i = 0; i < content->n && !run->st; i++) {
        const qsf_jinja_value *part = &content->as.items[i], *text = qsf_jinja_member(part, "text");
        if (!text || text->type != QSF_JINJA_TEXT) list[n++] = *part;
        else if ((*texts)++ == 0) *(first = &list[n++]) = *part;
        else *first = qsf_chat_with(run, first, "text",
                                    qsf_chat_joined(run, qsf_jinja_member(first, "text"), "\n", text));
    }
    return qsf_jinja_list(list, run->st ? 0 : n);
}

static bool remedy_one_part(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = qsf_jinja_member(m, "content");
        uint32_t texts = 0;
        qsf_jinja_value joined = qsf_jinja_list(NULL, 0);
        if (content && content->type == QSF_JINJA_LIST) joined = remedy_joined(run, content, &texts);
        remedy_add(&l, texts > 1 ? qsf_chat_with(run, m, "content", joined) : *m);
        l.changed |= texts > 1;
    }
    return remedy_end(&l, messages);
}

static bool remedy_empty(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *content = qsf_jinja_member(m, "content");
        const bool none = !content || content->type == QSF_JINJA_NONE
            || (content->type == QSF_JINJA_LIST && !content->n);
        remedy_add(&l, none ? qsf_chat_with(run, m, "content", qsf_jinja_text("")) : *m);
        l.changed |= none;
    }
    return remedy_end(&l, messages);
}

static bool remedy_blank(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], content = remedy_content(m);
        const bool empty = remedy_is(m, "assistant") && !qsf_chat_calls_of(m) && !content.n;
        remedy_add(&l, empty ? qsf_chat_with(run, m, "content", qsf_jinja_text(" ")) : *m);
        l.changed |= empty;
    }
    return remedy_end(&l, messages);
}

/* ---- calls and results ---- */

/* Nine letters and digits derived from an id, or from the call's number if it has no id. */
static qsf_jinja_value remedy_id(chat_run *run, const qsf_jinja_value *id, uint64_t number)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char text[10];
    uint64_t x = 0xcbf29ce484222325u ^ number;
    bool fits = id && id->type == QSF_JINJA_TEXT && id->n == 9;
    for (uint32_t i = 0; id && id->type == QSF_JINJA_TEXT && i < id->n; i++) {
        const char c = id->as.text[i], low = c | 32;
        fits = fits && ((c >= '0' && c <= '9') || (low >= 'a' && low <= 'z'));
        x = (x ^ (unsigned char)c) * 0x100000001b3u;
    }
    if (fits) return *id;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    for (int i = 0; i < 9; i++, x /= 36) text[i] = digits[x % 36];
    char *copy = run->st ? NULL : qsf_arena_text(run->arena, text, 9, run->err);
    if (!copy) run->st = run->st ? run->st : QSF_E_MEMORY;
    return qsf_jinja_text_n(copy ? copy : "", copy ? 9 : 0);
}

static qsf_jinja_value remedy_with_id(chat_run *run, const qsf_jinja_value *in, const char *key,
                                      uint64_t number, bool *changed)
{
    const qsf_jinja_value *id = qsf_jinja_member(in, key);
    const qsf_jinja_value made = remedy_id(run, id, id && id->type == QSF_JINJA_TEXT ? 0 : number);
    if (id && id->type == QSF_JINJA_TEXT && id->as.text == made.as.text) return *in;
    *changed = true;
    return qsf_chat_with(run, in, key, made);
}

static bool remedy_ids(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    uint64_t begin = 1, result = 1;             /* number of the first call of the last message with calls; of
                                                 * the next result */
    uint32_t n = 0;
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        qsf_jinja_value m = messages->as.items[i];
        const qsf_jinja_value *calls = qsf_chat_calls_of(&m);
        if (calls) {
            qsf_jinja_value list = qsf_chat_list_of(run, calls->as.items, calls->n);
            qsf_jinja_value *call = (qsf_jinja_value *)(size_t)list.as.items;
            result = begin += n;
            n = list.n;
            for (uint32_t k = 0; k < list.n && !run->st; k++)
                if (call[k].type == QSF_JINJA_DICT)
                    call[k] = remedy_with_id(run, &call[k], "id", begin + k, &l.changed);
            m = qsf_chat_with(run, &m, "tool_calls", list);
        } else if (remedy_is(&m, "tool")) {
            m = remedy_with_id(run, &m, "tool_call_id", result++, &l.changed);
        }
        remedy_add(&l, m);
    }
    return remedy_end(&l, messages);
}

/* The index of the answer to the calls of m[i] in the same turn; 0: none. */
static uint32_t remedy_answer_after(const qsf_jinja_value *m, uint32_t i, uint32_t n)
{
    for (i++; i < n && (remedy_is(&m[i], "tool") || remedy_is(&m[i], "assistant")); i++)
        if (remedy_is(&m[i], "assistant") && !qsf_chat_calls_of(&m[i])) return i;
    return 0;
}

static bool remedy_text(chat_run *run, qsf_jinja_value *messages, bool later)
{
    const qsf_jinja_value nothing = qsf_jinja_text("");
    remedy_list l = remedy_begin(run, messages);
    qsf_jinja_value held = nothing;
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], content = remedy_content(m);
        if (qsf_chat_calls_of(m) && !remedy_is_empty(&content)) {
            if (later && remedy_answer_after(messages->as.items, i, messages->n))
                held = remedy_merged(run, &held, &content);
            else remedy_add(&l, qsf_chat_message_of(run, "assistant", content));
            remedy_add(&l, qsf_chat_with(run, m, "content", nothing));
            l.changed = true;
        } else if (remedy_is(m, "assistant") && !qsf_chat_calls_of(m) && !remedy_is_empty(&held)) {
            remedy_add(&l, remedy_before(run, &held, m));
            held = nothing;
        } else {
            remedy_add(&l, *m);
        }
    }
    return remedy_end(&l, messages);
}

static bool remedy_text_apart(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_text(run, messages, false);
}
static bool remedy_text_later(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_text(run, messages, true);
}

/* Among the results m[from..to), the one for this call, by id or else by position; to: none. */
static uint32_t remedy_result_of(const qsf_jinja_value *call, uint32_t k, const qsf_jinja_value *m,
                                 uint32_t from, uint32_t to)
{
    const qsf_jinja_value *id = qsf_jinja_member(call, "id");
    for (uint32_t i = from; id && id->type == QSF_JINJA_TEXT && i < to; i++) {
        const qsf_jinja_value *of = qsf_jinja_member(&m[i], "tool_call_id");
        if (of && of->type == QSF_JINJA_TEXT && of->n == id->n && !memcmp(of->as.text, id->as.text, id->n))
            return i;
    }
    return k < to - from && !qsf_jinja_member(&m[from + k], "tool_call_id") ? from + k : to;
}

static bool remedy_calls_apart(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    const qsf_jinja_value *m = messages->as.items, nothing = qsf_jinja_text("");
    for (uint32_t i = 0, end; i < messages->n && !run->st; i = end) {
        const qsf_jinja_value *calls = qsf_chat_calls_of(&m[i]);
        end = i + 1;
        if (!calls || calls->n < 2) {
            remedy_add(&l, m[i]);
            continue;
        }
        while (end < messages->n && remedy_is(&m[end], "tool")) end++;
        bool *used = qsf_arena_array(run->arena, end - i, sizeof *used, "a conversation", run->err);
        if (!used) run->st = QSF_E_MEMORY;
        for (uint32_t k = 0; k < calls->n && !run->st; k++) {
            const qsf_jinja_value one = qsf_chat_list_of(run, &calls->as.items[k], 1);
            const qsf_jinja_value call = qsf_chat_with(run, &m[i], "tool_calls", one);
            const uint32_t at = remedy_result_of(&calls->as.items[k], k, m, i + 1, end);
            remedy_add(&l, k ? qsf_chat_with(run, &call, "content", nothing) : call);
            if (at == end || used[at - i]) continue;
            used[at - i] = true;
            remedy_add(&l, m[at]);
        }
        for (uint32_t k = i + 1; k < end && !run->st; k++)
            if (!used[k - i]) remedy_add(&l, m[k]);
        l.changed = true;
    }
    return remedy_end(&l, messages);
}

/* Turns results without a call, or all calls and results, into text. */
static bool remedy_as_text(chat_run *run, qsf_jinja_value *messages, bool all)
{
    remedy_list l = remedy_begin(run, messages);
    bool called = false;
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i];
        const bool result = remedy_is(m, "tool"), calls = qsf_chat_calls_of(m);
        const bool change = all ? result || calls : result && !called;
        called = calls || (called && result);
        remedy_add(&l, !change ? *m : all ? qsf_chat_without_calls(run, m) : remedy_quoted(run, m));
        l.changed |= change;
    }
    return remedy_end(&l, messages);
}

static bool remedy_result(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_as_text(run, messages, false);
}
static bool remedy_no_calls(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_as_text(run, messages, true);
}

/* ---- system messages ---- */

static uint32_t remedy_leading(const qsf_jinja_value *messages)
{
    uint32_t n = 0;
    while (n < messages->n && remedy_is_system(&messages->as.items[n])) n++;
    return n;
}

static bool remedy_system_one(chat_run *run, qsf_jinja_value *messages)
{
    const uint32_t n = remedy_leading(messages);
    remedy_list l = remedy_begin(run, messages);
    if (n < 2 || run->st) return false;
    qsf_jinja_value content = remedy_content(&messages->as.items[0]);
    for (uint32_t i = 1; i < n; i++) {
        const qsf_jinja_value next = remedy_content(&messages->as.items[i]);
        content = remedy_merged(run, &content, &next);
    }
    remedy_add(&l, qsf_chat_with(run, &messages->as.items[0], "content", content));
    for (uint32_t i = n; i < messages->n; i++) remedy_add(&l, messages->as.items[i]);
    l.changed = true;
    return remedy_end(&l, messages);
}

/* Moves system messages from m[from] on to the start of the question after them, or else to the end
 * of the question before them.  If neither is adjacent, they become a question of their own. */
static bool remedy_system(chat_run *run, qsf_jinja_value *messages, uint32_t from)
{
    const qsf_jinja_value nothing = qsf_jinja_text("");
    remedy_list l = remedy_begin(run, messages);
    qsf_jinja_value held = nothing;
    for (uint32_t i = 0; i <= messages->n && !run->st; i++) {
        const qsf_jinja_value *m = i < messages->n ? &messages->as.items[i] : NULL;
        if (m && i >= from && remedy_is_system(m)) {
            const qsf_jinja_value content = remedy_content(m);
            held = remedy_merged(run, &held, &content);
            l.changed = true;
            continue;
        }
        const bool some = !remedy_is_empty(&held), before = m && remedy_is(m, "user");
        if (some && !before && l.n && remedy_is(&l.at[l.n - 1], "user")) {
            const qsf_jinja_value own = remedy_content(&l.at[l.n - 1]);
            l.at[l.n - 1] = qsf_chat_with(run, &l.at[l.n - 1], "content", remedy_merged(run, &own, &held));
        } else if (some && !before) {
            remedy_add(&l, qsf_chat_message_of(run, "user", held));
        }
        if (m) remedy_add(&l, some && before ? remedy_before(run, &held, m) : *m);
        held = nothing;
    }
    return remedy_end(&l, messages);
}

static bool remedy_system_later(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_system(run, messages, remedy_leading(messages));
}
static bool remedy_system_first(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_leading(messages) && remedy_system(run, messages, 0);
}

/* ---- turns ---- */

/* Joins consecutive messages of one role, except results, and calls before another message. */
static bool remedy_rows(chat_run *run, qsf_jinja_value *messages)
{
    remedy_list l = remedy_begin(run, messages);
    for (uint32_t i = 0; i < messages->n && !run->st; i++) {
        const qsf_jinja_value *m = &messages->as.items[i], *role = qsf_jinja_member(m, "role");
        const qsf_jinja_value *last = l.n ? &l.at[l.n - 1] : NULL, *was = qsf_jinja_member(last, "role");
        const bool same = role && was && role->type == QSF_JINJA_TEXT && was->type == QSF_JINJA_TEXT
            && role->n == was->n && !memcmp(role->as.text, was->as.text, role->n);
        if (same && !remedy_is(m, "tool") && !qsf_chat_calls_of(last)) {
            const qsf_jinja_value content = remedy_content(last);
            l.at[l.n - 1] = remedy_before(run, &content, m);
            l.changed = true;
        } else {
            remedy_add(&l, *m);
        }
    }
    return remedy_end(&l, messages);
}

/* Inserts an empty message of this role before the first answer, after a result, or at the end. */
static bool remedy_between(chat_run *run, qsf_jinja_value *messages, chat_remedy where, const char *role)
{
    remedy_list l = remedy_begin(run, messages);
    const uint32_t leading = remedy_leading(messages), n = messages->n;
    const char *text = where == CHAT_AFTER_RESULT ? " " : "";
    for (uint32_t i = 0; i <= n && !run->st; i++) {
        const qsf_jinja_value *m = i < n ? &messages->as.items[i] : NULL, *last = i ? m ? m - 1
            : &messages->as.items[n - 1] : NULL;
        const bool here = where == CHAT_BEGIN ? m && i == leading && remedy_is(m, "assistant")
            : where == CHAT_END ? !m && last && remedy_is(last, "assistant")
            : m && last && remedy_is(last, "tool") && remedy_is(m, "user");
        if (here) remedy_add(&l, qsf_chat_message_of(run, role, qsf_jinja_text(text)));
        if (m) remedy_add(&l, *m);
        l.changed |= here;
    }
    return remedy_end(&l, messages);
}

static bool remedy_first_question(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_between(run, messages, CHAT_BEGIN, "user");
}
static bool remedy_after_result(chat_run *run, qsf_jinja_value *messages)
{
    return remedy_between(run, messages, CHAT_AFTER_RESULT, "assistant");
}
static bool remedy_last_question(chat_run *run, qsf_jinja_value *messages)
{
    return !run->ask->goes_on && remedy_between(run, messages, CHAT_END, "user");
}

/* ---- all of them ---- */

bool qsf_chat_remedy_apply(chat_run *run, chat_remedy which, qsf_jinja_value *messages)
{
    static bool (*const remedies[CHAT_REMEDIES])(chat_run *, qsf_jinja_value *) = {
        [CHAT_ROLES] = remedy_roles, [CHAT_ONE_PART] = remedy_one_part, [CHAT_EMPTY] = remedy_empty,
        [CHAT_BLANK] = remedy_blank, [CHAT_IDS] = remedy_ids,
        [CHAT_TEXT_APART] = remedy_text_apart, [CHAT_TEXT_LATER] = remedy_text_later,
        [CHAT_CALLS_APART] = remedy_calls_apart, [CHAT_RESULT] = remedy_result,
        [CHAT_UNKNOWN] = remedy_unknown, [CHAT_SYSTEM_ONE] = remedy_system_one,
        [CHAT_SYSTEM_LATER] = remedy_system_later, [CHAT_ROWS] = remedy_rows,
        [CHAT_BEGIN] = remedy_first_question, [CHAT_AFTER_RESULT] = remedy_after_result,
        [CHAT_END] = remedy_last_question, [CHAT_NO_CALLS] = remedy_no_calls,
        [CHAT_SYSTEM_FIRST] = remedy_system_first,
    };
    return !run->st && remedies[which](run, messages);
}
