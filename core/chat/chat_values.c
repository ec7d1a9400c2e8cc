/* Values of conversations: messages, their contents and parts, made and changed.
 * SPDX-License-Identifier: MIT */
#include "chat/chat_own.h"

qsf_jinja_value *qsf_chat_values(chat_run *run, size_t n)
{
    qsf_jinja_value *v = run->st ? NULL
        : qsf_arena_array(run->arena, n ? n : 1, sizeof *v, CHAT_WHAT, run->err);
    if (!v) run->st = run->st ? run->st : QSF_E_MEMORY;
    return v;
}

bool qsf_chat_is(const qsf_jinja_value *v, const char *text)
{
    return v && v->type == QSF_JINJA_TEXT && v->n == strlen(text) && !memcmp(v->as.text, text, v->n);
}

qsf_jinja_value qsf_chat_json(chat_run *run, const qsf_json_node *node)
{
    qsf_jinja_value *v = qsf_chat_values(run, node->skip);
    if (!v) return (qsf_jinja_value){ .type = QSF_JINJA_NONE };
    qsf_jinja_from_json(node, v);
    return v[0];
}

qsf_jinja_value qsf_chat_with(chat_run *run, const qsf_jinja_value *dict, const char *key, qsf_jinja_value v)
{
    qsf_jinja_value *pairs = qsf_chat_values(run, 2 * (size_t)dict->n + 2);
    uint32_t at = 0;
    if (!pairs) return *dict;
    if (dict->n) memcpy(pairs, dict->as.items, 2 * (size_t)dict->n * sizeof *pairs);
    while (at < dict->n && !qsf_chat_is(&pairs[2 * at], key)) at++;
    pairs[2 * at] = qsf_jinja_text(key);
    pairs[2 * at + 1] = v;
    return qsf_jinja_dict(pairs, QSF_MAX(dict->n, at + 1));
}

qsf_jinja_value qsf_chat_joined(chat_run *run, const qsf_jinja_value *a, const char *between,
                                const qsf_jinja_value *b)
{
    const size_t n = a->n && b->n ? strlen(between) : 0;
    char *text = run->st ? NULL : qsf_arena_alloc(run->arena, (uint64_t)a->n + n + b->n + 1, CHAT_WHAT,
                                                  run->err);
    if (!text) {
        run->st = run->st ? run->st : QSF_E_MEMORY;
        return *a;
    }
    if (a->n) memcpy(text, a->as.text, a->n);
    memcpy(text + a->n, between, n);
    if (b->n) memcpy(text + a->n + n, b->as.text, b->n);
    return qsf_jinja_text_n(text, a->n + n + b->n);
}

/* ---- messages and their parts ---- */

const char *const qsf_chat_role_names[ADAPT_ROLES] = { "user", "system", "assistant", "tool" };

int qsf_chat_role_of(const qsf_jinja_value *m)
{
    int role = ADAPT_ROLES;
    while (--role > ADAPT_USER && !qsf_chat_is(qsf_jinja_member(m, "role"), qsf_chat_role_names[role])) {}
    return role;
}

qsf_jinja_value qsf_chat_own_text(const char *text)
{
    qsf_jinja_value v = qsf_jinja_text(text);
    v.flags |= QSF_JINJA_OWN;
    return v;
}

qsf_jinja_value qsf_chat_one_pair(chat_run *run, const char *key, qsf_jinja_value v)
{
    const qsf_jinja_value empty = qsf_jinja_dict(NULL, 0);
    return qsf_chat_with(run, &empty, key, v);
}

qsf_jinja_value qsf_chat_message_of(chat_run *run, const char *role, qsf_jinja_value content)
{
    const qsf_jinja_value m = qsf_chat_one_pair(run, "role", qsf_chat_own_text(role));
    return qsf_chat_with(run, &m, "content", content);
}

qsf_jinja_value qsf_chat_parts_of(chat_run *run, qsf_jinja_value text)
{
    qsf_jinja_value part = qsf_chat_one_pair(run, "type", qsf_chat_own_text("text"));
    qsf_jinja_value *list = qsf_chat_values(run, 1);
    part = qsf_chat_with(run, &part, "text", text);
    if (!list) return part;
    list[0] = part;
    return qsf_jinja_list(list, 1);
}

qsf_jinja_value qsf_chat_list_of(chat_run *run, const qsf_jinja_value *items, size_t n)
{
    qsf_jinja_value *list = qsf_chat_values(run, n);
    if (list && n) memcpy(list, items, n * sizeof *list);
    return qsf_jinja_list(list, list ? n : 0);
}

bool qsf_chat_is_blank(const qsf_jinja_value *text)
{
    for (uint32_t i = 0; i < text->n; i++)
        if (!memchr(" \n\t\r", text->as.text[i], 4)) return false;
    return true;
}

const qsf_jinja_value *qsf_chat_calls_of(const qsf_jinja_value *m)
{
    const qsf_jinja_value *calls = qsf_jinja_member(m, "tool_calls");
    return calls && calls->type == QSF_JINJA_LIST && calls->n ? calls : NULL;
}

void qsf_chat_join_parts(chat_run *run, qsf_jinja_value *m)
{
    const qsf_jinja_value *content = qsf_jinja_member(m, "content");
    qsf_jinja_value text = qsf_jinja_text("");
    if (!content || content->type != QSF_JINJA_LIST) return;
    for (uint32_t i = 0; i < content->n && !run->st; i++) {
        const qsf_jinja_value *part = &content->as.items[i], *t = qsf_jinja_member(part, "text"),
            *type = qsf_jinja_member(part, "type");
        if (part->type == QSF_JINJA_TEXT) t = part;
        if (t && t->type == QSF_JINJA_TEXT) text = qsf_chat_joined(run, &text, "\n", t);
        else run->st = qsf_fail(run->err, QSF_E_UNSUPPORTED, "a message has a part of type \"%.40s\": the "
                                "chat template takes text only",
                                type && type->type == QSF_JINJA_TEXT ? type->as.text : "?");
    }
    *m = qsf_chat_with(run, m, "content", text);
}

qsf_jinja_value qsf_chat_merged(chat_run *run, const qsf_jinja_value *a, const qsf_jinja_value *b)
{
    const qsf_jinja_value empty = qsf_jinja_text("\n\n");
    if (a->type == QSF_JINJA_TEXT && b->type == QSF_JINJA_TEXT) return qsf_chat_joined(run, a, "\n\n", b);
    const qsf_jinja_value first = a->type == QSF_JINJA_LIST ? *a : qsf_chat_parts_of(run, *a);
    const qsf_jinja_value then = b->type == QSF_JINJA_LIST ? *b : qsf_chat_parts_of(run, *b);
    const size_t n = (size_t)first.n + then.n;
    qsf_jinja_value *list = qsf_chat_values(run, n);
    if (!list) return *b;
    if (then.n) memcpy(list + first.n, then.as.items, then.n * sizeof *list);
    if (first.n) {
        memcpy(list, first.as.items, first.n * sizeof *list);
        qsf_jinja_value *last = &list[first.n - 1];
        const qsf_jinja_value *text = qsf_jinja_member(last, "text");
        if (text && text->type == QSF_JINJA_TEXT)
            *last = qsf_chat_with(run, last, "text", qsf_chat_joined(run, text, "", &empty));
    }
    return qsf_jinja_list(list, n);
}

qsf_jinja_value qsf_chat_in_parts(chat_run *run, const qsf_jinja_value *messages)
{
    qsf_jinja_value list = qsf_chat_list_of(run, messages->as.items, messages->n);
    qsf_jinja_value *m = (qsf_jinja_value *)(size_t)list.as.items;
    for (uint32_t i = 0; !run->st && i < list.n; i++) {
        const qsf_jinja_value *content = qsf_jinja_member(&m[i], "content");
        if (content && content->type == QSF_JINJA_TEXT && run->in_parts >> qsf_chat_role_of(&m[i]) & 1)
            m[i] = qsf_chat_with(run, &m[i], "content", qsf_chat_parts_of(run, *content));
    }
    return list;
}
