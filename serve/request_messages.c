/* The messages of a request, from each interface's form to that of OpenAI's chat, in JSON.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

/* A message while it is put together: calls may follow one another as items of their own. */
typedef struct message_draft {
    const char *role;                       /* NULL: there is none */
    const char *content, *reasoning, *name, *call_id;
    serve_text  calls;
} message_draft;

typedef struct message_list {
    serve_request *r;
    serve_error   *e;
    const char    *name;                    /* of the field */
    size_t         place;                   /* of the item that is read */
    serve_text     out;
    message_draft  draft;
} message_list;

/* ---- writing ---- */

static void draft_member(serve_text *out, const char *name, const char *text)
{
    if (!text) return;
    text_format(out, ",\"%s\":", name);
    text_json_str(out, text);
}

static void draft_end(message_list *l)
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

static void draft_begin(message_list *l, const char *role)
{
    draft_end(l);
    l->draft.role = role;
}

/* A call joins the assistant's message; arguments: an object, or a text that has one. */
static void draft_call(message_list *l, const char *id, const char *name, yyjson_val *arguments)
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
    if (arguments) request_json(to, arguments);
    else text_str(to, "{}");
    text_str(to, "}}");
}

/* ---- reading ---- */

/* Where the list is: list[place].member, in a buffer of the caller's. */
#define WHERE 80
static const char *message_where(const message_list *l, const char *member, char out[WHERE])
{
    snprintf(out, WHERE, "%.20s[%zu]%s%.30s", l->name, l->place, *member ? "." : "", member);
    return out;
}

/* The text of parts that are texts, one behind the other. */
static const char *parts_text(message_list *l, yyjson_val *v, const char *where)
{
    size_t i, n, len = 0;
    yyjson_val *part;
    yyjson_arr_foreach(v, i, n, part) {
        const char *type = yyjson_get_str(yyjson_obj_get(part, "type"));
        if (!type) return request_wrong_type(l->e, where, "a list of parts that have a type", part), NULL;
        if (strcmp(type, "text") && strcmp(type, "input_text") && strcmp(type, "output_text"))
            return serve_refuse(l->e, 400, "unsupported_parameter", where,
                                "\"%s\" has a part of type \"%.40s\"; texts are supported", where, type),
                   NULL;
        if (!request_text(yyjson_obj_get(part, "text"), where, l->e)) return NULL;
        len += yyjson_get_len(yyjson_obj_get(part, "text"));
    }
    char *all = request_alloc(l->r, len + 1, 1, l->e), *at = all;
    if (!all) return NULL;
    yyjson_arr_foreach(v, i, n, part) {
        yyjson_val *text = yyjson_obj_get(part, "text");
        memcpy(at, yyjson_get_str(text), yyjson_get_len(text));
        at += yyjson_get_len(text);
    }
    return all;
}

/* The text of a content: a text, or a list of parts that are texts. */
static const char *content_text(message_list *l, yyjson_val *v, const char *where)
{
    if (!v || yyjson_is_null(v)) return "";
    if (yyjson_is_str(v)) return request_text(v, where, l->e);
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, where, "a text or a list of parts", v), NULL;
    return parts_text(l, v, where);
}

static const char *role_of(message_list *l, yyjson_val *v)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool", "developer" };
    char where[WHERE];
    message_where(l, "role", where);
    if (!v) return request_missing(l->e, where), NULL;
    const char *role = yyjson_get_str(v);
    if (!role) return request_wrong_type(l->e, where, "a text", v), NULL;
    for (int i = 0; i < 5; i++)
        if (!strcmp(role, roles[i]) && (i != 3 || l->r->api & (API_CHAT | API_TEMPLATE)))
            return roles[i % 4];
    if (!strcmp(role, "tool") || !strcmp(role, "function"))
        return serve_refuse(l->e, 400, "unsupported_parameter", where,
                            "messages of role \"%s\" are not supported here", role), NULL;
    return serve_refuse(l->e, 400, "invalid_value", where, "there is no role \"%.40s\"", role), NULL;
}

/* The calls of a message of OpenAI's chat. */
static bool read_calls(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *call;
    char where[WHERE];
    message_where(l, "tool_calls", where);
    if (yyjson_is_null(v)) return true;
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, where, "a list of calls", v);
    if (yyjson_arr_size(v) && strcmp(l->draft.role, "assistant"))
        return serve_refuse(l->e, 400, "invalid_value", where, "\"%s\" is for the assistant's messages",
                            where);
    yyjson_arr_foreach(v, i, n, call) {
        yyjson_val *id = yyjson_obj_get(call, "id"), *f = yyjson_obj_get(call, "function");
        yyjson_val *arguments = yyjson_obj_get(f, "arguments");
        const char *type = yyjson_get_str(yyjson_obj_get(call, "type"));
        if (type && strcmp(type, "function")) return request_unsupported(l->e, where);
        const char *name = request_text(yyjson_obj_get(f, "name"), where, l->e);
        if (!name || (id && !request_text(id, where, l->e))) return false;
        if (arguments && !yyjson_is_str(arguments) && !yyjson_is_obj(arguments))
            return request_wrong_type(l->e, where, "a list of calls whose arguments are JSON", arguments);
        draft_call(l, yyjson_get_str(id), name, arguments);
    }
    return true;
}

/* One of OpenAI's chat; the same, of texts alone, are messages of /v1/responses. */
static bool read_chat(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *key, *value, *content = NULL;
    char where[WHERE];
    const bool responses = l->r->api == API_RESPONSES;
    const char *role = role_of(l, yyjson_obj_get(v, "role"));
    if (!role) return false;
    message_draft *d = &l->draft;
    /* An item of reasoning belongs to the answer behind it. */
    const bool joins = responses && d->role && !strcmp(d->role, "assistant") && !strcmp(role, d->role)
        && d->reasoning && !d->content && !d->calls.len;
    if (!joins) draft_begin(l, role);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key), **text = NULL;
        message_where(l, name, where);
        if (!strcmp(name, "role")) continue;
        if (!strcmp(name, "provider_specific_fields")) continue;       /* what litellm says of an answer */
        if (responses && (!strcmp(name, "type") || !strcmp(name, "id") || !strcmp(name, "status")
                          || !strcmp(name, "phase"))) continue;
        if (!strcmp(name, "content")) content = value;
        else if (!strcmp(name, "name")) text = &d->name;
        else if (!strcmp(name, "tool_call_id") && !strcmp(role, "tool")) text = &d->call_id;
        else if (!strcmp(name, "reasoning_content") || !strcmp(name, "reasoning")) text = &d->reasoning;
        else if (!strcmp(name, "tool_calls") && !responses) {
            if (!read_calls(l, value)) return false;
        } else if (!request_is_empty(value)) return request_unsupported(l->e, where);
        if (text && !yyjson_is_null(value) && !(*text = request_text(value, where, l->e))) return false;
    }
    message_where(l, "content", where);
    if (!content && strcmp(role, "assistant")) return request_missing(l->e, where);
    if (content && yyjson_is_null(content) && d->calls.len) return true;
    if (!content && d->calls.len) return true;
    return (d->content = content_text(l, content, where)) != NULL;
}

/* ---- /v1/responses ---- */

static bool read_item(message_list *l, yyjson_val *v)
{
    char where[WHERE];
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    yyjson_val *call = yyjson_obj_get(v, "call_id");
    if (!type || !strcmp(type, "message")) return read_chat(l, v);
    if (!strcmp(type, "reasoning")) {
        yyjson_val *parts = yyjson_obj_get(v, "content"), *part = yyjson_arr_get_first(parts);
        draft_begin(l, "assistant");
        if (!part) return true;
        message_where(l, "content", where);
        return (l->draft.reasoning = request_text(yyjson_obj_get(part, "text"), where, l->e)) != NULL;
    }
    message_where(l, "call_id", where);
    if (!strcmp(type, "function_call")) {
        const char *id = request_text(call, where, l->e);
        const char *name = request_text(yyjson_obj_get(v, "name"), message_where(l, "name", where), l->e);
        yyjson_val *arguments = yyjson_obj_get(v, "arguments");
        message_where(l, "arguments", where);
        if (!id || !name) return false;
        if (!yyjson_is_str(arguments)) return request_wrong_type(l->e, where, "a text of JSON", arguments);
        draft_call(l, id, name, arguments);
        return true;
    }
    if (!strcmp(type, "function_call_output")) {
        draft_begin(l, "tool");
        if (!(l->draft.call_id = request_text(call, where, l->e))) return false;
        message_where(l, "output", where);
        return (l->draft.content = content_text(l, yyjson_obj_get(v, "output"), where)) != NULL;
    }
    message_where(l, "type", where);
    return serve_refuse(l->e, 400, "unsupported_parameter", where,
                        "items of type \"%.40s\" are not supported here", type);
}

/* ---- /v1/messages ---- */

/* Text that joins what the draft has. */
static bool draft_text(message_list *l, const char *role, const char *text)
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

static bool read_block(message_list *l, yyjson_val *v, const char *role)
{
    char where[WHERE];
    const bool answer = !strcmp(role, "assistant");
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type")), *text;
    message_where(l, "content", where);
    if (!type) return request_wrong_type(l->e, where, "a list of blocks that have a type", v);
    if (!strcmp(type, "text")) {
        text = request_text(yyjson_obj_get(v, "text"), where, l->e);
        return text && draft_text(l, role, text);
    }
    if (!strcmp(type, "thinking") && answer) {
        if (!l->draft.role || strcmp(l->draft.role, role)) draft_begin(l, role);
        return (l->draft.reasoning = request_text(yyjson_obj_get(v, "thinking"), where, l->e)) != NULL;
    }
    if (!strcmp(type, "redacted_thinking") && answer) return true;
    if (!strcmp(type, "tool_use") && answer) {
        const char *id = request_text(yyjson_obj_get(v, "id"), where, l->e);
        const char *name = request_text(yyjson_obj_get(v, "name"), where, l->e);
        yyjson_val *input = yyjson_obj_get(v, "input");
        if (!id || !name) return false;
        if (!yyjson_is_obj(input)) return request_wrong_type(l->e, where, "calls whose input is an object",
                                                             input);
        draft_call(l, id, name, input);
        return true;
    }
    if (!strcmp(type, "tool_result") && !answer) {
        draft_begin(l, "tool");
        if (!(l->draft.call_id = request_text(yyjson_obj_get(v, "tool_use_id"), where, l->e))) return false;
        return (l->draft.content = content_text(l, yyjson_obj_get(v, "content"), where)) != NULL;
    }
    return serve_refuse(l->e, 400, "unsupported_parameter", where,
                        "\"%s\" has a block of type \"%.40s\", which is not supported here", where, type);
}

static bool read_message(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *block, *key, *value, *content = yyjson_obj_get(v, "content");
    char where[WHERE];
    const char *role = role_of(l, yyjson_obj_get(v, "role"));
    if (!role) return false;
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        if (strcmp(name, "role") && strcmp(name, "content") && !request_is_empty(value))
            return request_unsupported(l->e, message_where(l, name, where));
    }
    message_where(l, "content", where);
    if (!content) return request_missing(l->e, where);
    draft_end(l);
    if (!yyjson_is_arr(content)) {
        draft_begin(l, role);
        return (l->draft.content = content_text(l, content, where)) != NULL;
    }
    yyjson_arr_foreach(content, i, n, block) if (!read_block(l, block, role)) return false;
    if (!n) draft_begin(l, role);
    return true;
}

/* ---- the whole ---- */

static bool read_system(message_list *l, yyjson_val *root, const char *name)
{
    yyjson_val *v = yyjson_obj_get(root, name);
    const char *text = content_text(l, v, name);
    if (!text || !*text) return text != NULL;
    draft_begin(l, "system");
    l->draft.content = text;
    return true;
}

static bool read_list(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *item;
    char where[WHERE];
    if (l->r->api == API_RESPONSES && yyjson_is_str(v)) {
        draft_begin(l, "user");
        return (l->draft.content = content_text(l, v, l->name)) != NULL;
    }
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, l->name, "a list of messages", v);
    if (!yyjson_arr_size(v))
        return serve_refuse(l->e, 400, "invalid_value", l->name, "\"%s\" is empty", l->name);
    if (yyjson_arr_size(v) > SERVE_MESSAGES)
        return serve_refuse(l->e, 400, "array_above_max_length", l->name, "%zu messages; %d are possible",
                            yyjson_arr_size(v), SERVE_MESSAGES);
    yyjson_arr_foreach(v, i, n, item) {
        l->place = i;
        if (!yyjson_is_obj(item)) return request_wrong_type(l->e, message_where(l, "", where), "an object",
                                                            item);
        if (l->r->api == API_RESPONSES ? !read_item(l, item)
            : l->r->api == API_MESSAGES ? !read_message(l, item) : !read_chat(l, item)) return false;
    }
    return true;
}

bool request_messages(serve_request *r, yyjson_val *root, serve_error *e)
{
    message_list l = { .r = r, .e = e, .name = r->api == API_RESPONSES ? "input" : "messages" };
    yyjson_val *list = yyjson_obj_get(root, l.name);
    bool ok = (r->api != API_MESSAGES || read_system(&l, root, "system"))
        && (r->api != API_RESPONSES || read_system(&l, root, "instructions"));
    text_str(&l.out, "[");
    ok = ok && list && read_list(&l, list);
    /* An assistant's text at the end is the beginning of the answer. */
    if (ok && r->api == API_MESSAGES && l.draft.role && !strcmp(l.draft.role, "assistant")
        && !l.draft.calls.len && l.draft.content && *l.draft.content) r->continue_final = true;
    draft_end(&l);
    text_str(&l.out, "]");
    text_free(&l.draft.calls);
    if (ok && r->n_messages) {
        const size_t len = l.out.len;
        r->messages = (serve_words){ request_keep(r, &l.out, e), len };
        return r->messages.text != NULL;
    }
    text_free(&l.out);
    return ok || e->status ? ok : request_missing(e, l.name);
}
