/* A message under construction: how it is written, and how a refusal names its place.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

static void draft_member(serve_text *out, const char *name, const char *text)
{
    if (!text) return;
    text_format(out, ",\"%s\":", name);
    text_json_str(out, text);
}

void draft_end(message_list *l)
{
    message_draft *d = &l->draft;
    if (!d->role) return;
    text_str(&l->out, l->r->n_messages++ ? ",{\"role\":" : "{\"role\":");
    text_json_str(&l->out, d->role);
    text_str(&l->out, ",\"content\":");
    if (d->content) text_json_str(&l->out, d->content);
    else text_str(&l->out, d->calls.len ? "null" : "\"\"");
    draft_member(&l->out, "name", d->name);
    draft_member(&l->out, "tool_call_id", d->call_id);
    draft_member(&l->out, "reasoning_content", d->reasoning);
    if (d->calls.len) {
        text_str(&l->out, ",\"tool_calls\":[");
        text_add(&l->out, d->calls.bytes, d->calls.len);
        text_str(&l->out, "]");
    }
    text_str(&l->out, "}");
    l->out.failed |= d->calls.failed;
    text_clear(&d->calls);
    *d = (message_draft){ .calls = d->calls };
}

void draft_begin(message_list *l, const char *role)
{
    draft_end(l);
    l->draft.role = role;
}

static void draft_call_begin(message_list *l, const char *id, const char *name)
{
    serve_text *to = &l->draft.calls;
    if (!l->draft.role || strcmp(l->draft.role, "assistant")) draft_begin(l, "assistant");
    text_str(to, to->len ? ",{" : "{");
    if (id) {
        text_str(to, "\"id\":");
        text_json_str(to, id);
        text_str(to, ",");
    }
    text_str(to, "\"type\":\"function\",\"function\":{\"name\":");
    text_json_str(to, name);
    text_str(to, ",\"arguments\":");
}

void draft_call(message_list *l, const char *id, const char *name, yyjson_val *arguments)
{
    draft_call_begin(l, id, name);
    if (arguments) request_json(&l->draft.calls, arguments);
    else text_str(&l->draft.calls, "{}");
    text_str(&l->draft.calls, "}}");
}

void draft_custom_call(message_list *l, const char *id, const char *name, const char *input)
{
    draft_call_begin(l, id, name);
    text_str(&l->draft.calls, "{\"input\":");
    text_json_str(&l->draft.calls, input);
    text_str(&l->draft.calls, "}}}");
}

bool draft_text(message_list *l, const char *role, const char *text)
{
    const char *before = l->draft.role && !strcmp(l->draft.role, role) ? l->draft.content : NULL;
    if (!l->draft.role || strcmp(l->draft.role, role)) draft_begin(l, role);
    const size_t n = before ? strlen(before) : 0, more = strlen(text);
    char *both = n ? request_alloc(l->r, n + more + 1, 1, l->e) : NULL;
    if (n && !both) return false;
    if (n) {
        memcpy(both, before, n);
        memcpy(both + n, text, more);
    }
    l->draft.content = n ? both : text;
    return true;
}

/* ---- places and roles ---- */

const char *message_where(const message_list *l, const char *member, char out[MESSAGE_WHERE])
{
    snprintf(out, MESSAGE_WHERE, "%.20s[%zu]%s%.30s", l->name, l->place, *member ? "." : "", member);
    return out;
}

bool message_ignore(message_list *l, const char *member)
{
    return request_ignore(l->r, l->name, member, l->e);
}

const char *message_role(message_list *l, yyjson_val *v)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool", "developer", "function" };
    char where[MESSAGE_WHERE];
    message_where(l, "role", where);
    if (!v) return request_missing(l->e, where), NULL;
    const char *role = yyjson_get_str(v);
    if (!role) return request_wrong_type(l->e, where, "a string", v), NULL;
    const bool tools = l->r->api & (API_CHAT | API_TEMPLATE);
    for (int i = 0; i < 6; i++)
        if (!strcmp(role, roles[i]) && (tools || (i != 3 && i != 5)))
            return roles[i == 4 ? 0 : i == 5 ? 3 : i];
    if (!strcmp(role, "tool") || !strcmp(role, "function"))
        return serve_refuse(l->e, 400, "unsupported_parameter", where,
                            "messages of role \"%s\" are not supported here", role), NULL;
    return serve_refuse(l->e, 400, "invalid_value", where, "there is no role \"%.40s\"", role), NULL;
}
