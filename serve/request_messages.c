/* The messages of a request, from each interface's form to that of OpenAI's chat, in JSON.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include "kept_responses.h"

#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

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

/* ---- reading ---- */

const char *message_where(const message_list *l, const char *member, char out[MESSAGE_WHERE])
{
    snprintf(out, MESSAGE_WHERE, "%.20s[%zu]%s%.30s", l->name, l->place, *member ? "." : "", member);
    return out;
}

bool message_ignore(message_list *l, const char *member)
{
    return request_ignore(l->r, l->name, member, l->e);
}

const char *message_content(message_list *l, yyjson_val *v, const char *role, const char *where)
{
    size_t i, n;
    yyjson_val *part;
    serve_text all = { 0 };
    if (!v || yyjson_is_null(v)) return "";
    if (yyjson_is_str(v)) return request_text(v, where, l->e);
    if (yyjson_is_obj(v)) {
        if (part_text(l, v, role, where, &all)) return request_keep(l->r, &all, l->e);
        return text_free(&all), NULL;
    }
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, where, "a string or a list of parts", v), NULL;
    yyjson_arr_foreach(v, i, n, part) {
        if (part_text(l, part, role, where, &all)) continue;
        text_free(&all);
        return NULL;
    }
    return request_keep(l->r, &all, l->e);
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
    return serve_refuse(l->e, 400, "invalid_value", where, "unknown role \"%.40s\"", role), NULL;
}

/* One call in a message of OpenAI's chat. */
static bool read_call(message_list *l, yyjson_val *call, const char *where)
{
    yyjson_val *id = yyjson_obj_get(call, "id"), *f = yyjson_obj_get(call, "function");
    yyjson_val *custom = yyjson_obj_get(call, "custom");
    if (id && !yyjson_is_null(id) && !request_text(id, where, l->e)) return false;
    if (yyjson_is_obj(custom)) {
        const char *name = request_text(yyjson_obj_get(custom, "name"), where, l->e);
        const char *input = name ? request_text(yyjson_obj_get(custom, "input"), where, l->e) : NULL;
        if (input) draft_custom_call(l, yyjson_get_str(id), name, input);
        return input != NULL;
    }
    yyjson_val *arguments = yyjson_obj_get(f, "arguments");
    const char *name = request_text(yyjson_obj_get(f, "name"), where, l->e);
    if (!name) return false;
    if (yyjson_is_null(arguments) || (yyjson_is_str(arguments) && !yyjson_get_len(arguments)))
        arguments = NULL;
    if (arguments && !yyjson_is_str(arguments) && !yyjson_is_obj(arguments))
        return request_wrong_type(l->e, where, "a list of calls whose arguments are JSON", arguments);
    draft_call(l, yyjson_get_str(id), name, arguments);
    return true;
}

static bool read_calls(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *call;
    char where[MESSAGE_WHERE];
    message_where(l, "tool_calls", where);
    if (yyjson_is_null(v)) return true;
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, where, "a list of calls", v);
    if (yyjson_arr_size(v) && strcmp(l->draft.role, "assistant"))
        return serve_refuse(l->e, 400, "invalid_value", where, "\"%s\" is only allowed in assistant messages",
                            where);
    yyjson_arr_foreach(v, i, n, call) if (!read_call(l, call, where)) return false;
    return true;
}

/* The deprecated "function_call" of a message. */
static bool read_function_call(message_list *l, yyjson_val *v)
{
    char where[MESSAGE_WHERE];
    message_where(l, "function_call", where);
    const char *name = request_text(yyjson_obj_get(v, "name"), where, l->e);
    yyjson_val *arguments = yyjson_obj_get(v, "arguments");
    if (!name) return false;
    if (strcmp(l->draft.role, "assistant"))
        return serve_refuse(l->e, 400, "invalid_value", where, "\"%s\" is only allowed in assistant messages",
                            where);
    const bool json = (yyjson_is_str(arguments) && yyjson_get_len(arguments)) || yyjson_is_obj(arguments);
    draft_call(l, NULL, name, json ? arguments : NULL);
    return true;
}

/* Reads a member of a message; "content" only sets *content. */
static bool read_member(message_list *l, const char *name, yyjson_val *value, yyjson_val **content)
{
    message_draft *d = &l->draft;
    const bool responses = l->r->api == API_RESPONSES, tool = !strcmp(d->role, "tool");
    const char **text = NULL;
    char where[MESSAGE_WHERE];
    message_where(l, name, where);
    if (!strcmp(name, "content")) *content = value;
    if (!strcmp(name, "role") || !strcmp(name, "content")) return true;
    if (yyjson_is_null(value)) return true;
    if (responses && (!strcmp(name, "type") || !strcmp(name, "id") || !strcmp(name, "status")
                      || !strcmp(name, "phase"))) return true;
    if (!strcmp(name, "name")) text = &d->name;
    else if (!strcmp(name, "tool_call_id") && tool) text = &d->call_id;
    else if (!strcmp(name, "reasoning_content") || !strcmp(name, "reasoning")) text = &d->reasoning;
    else if (!strcmp(name, "tool_calls") && !responses) return read_calls(l, value);
    else if (!strcmp(name, "function_call") && !responses) return read_function_call(l, value);
    else if (!strcmp(name, "prefix") || !strcmp(name, "partial")) return true;    /* request_messages */
    else if (!strcmp(name, "refusal") && yyjson_is_str(value)) return true;      /* message_chat */
    if (text && yyjson_is_str(value)) return (*text = request_text(value, where, l->e)) != NULL;
    if (text && text != &d->reasoning) return request_wrong_type(l->e, where, "a string", value);
    return request_is_empty(value) || message_ignore(l, name);
}

bool message_chat(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *key, *value, *content = NULL;
    char where[MESSAGE_WHERE];
    const char *role = message_role(l, yyjson_obj_get(v, "role"));
    if (!role) return false;
    message_draft *d = &l->draft;
    /* A reasoning item belongs to the answer that follows it. */
    const bool joins = l->r->api == API_RESPONSES && d->role && !strcmp(d->role, "assistant")
        && !strcmp(role, d->role) && d->reasoning && !d->content && !d->calls.len;
    if (!joins) draft_begin(l, role);
    yyjson_obj_foreach(v, i, n, key, value)
        if (!read_member(l, unsafe_yyjson_get_str(key), value, &content)) return false;
    if (!content && !d->calls.len && strcmp(role, "assistant"))
        return request_missing(l->e, message_where(l, "content", where));
    /* A refusal takes the place of the content. */
    yyjson_val *refusal = yyjson_obj_get(v, "refusal");
    if ((!content || yyjson_is_null(content)) && yyjson_is_str(refusal)) content = refusal;
    if ((!content || yyjson_is_null(content)) && d->calls.len) return true;
    return (d->content = message_content(l, content, role, message_where(l, "content", where))) != NULL;
}

/* ---- the whole conversation ---- */

static bool header_letter(char c)
{
    return c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Skips header lines like "x-anthropic-billing-header: ...", which some clients put before their
 * system prompt: they change with every request, so nothing after them could be cached. */
static bool system_skip_headers(message_list *l, const char **text)
{
    for (;;) {
        const char *at = *text;
        size_t n = 2;
        if ((at[0] | 32) != 'x' || at[1] != '-') return true;
        while (header_letter(at[n])) n++;
        if (at[n] != ':' || n < 4 || n > 60) return true;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (!request_ignore(l->r, "system", name, l->e)) return false;
        const char *end = strchr(at, '\n');
        *text = end ? end + 1 : at + strlen(at);
    }
}

static bool system_add(message_list *l, const char *text)
{
    if (!text || !system_skip_headers(l, &text)) return false;
    return !*text || draft_text(l, "system", text);
}

static bool read_system(message_list *l, yyjson_val *root, const char *name)
{
    yyjson_val *v = request_field(l->r, root, name), *part;
    size_t i, n;
    if (l->r->api == API_RESPONSES && yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, n, part) {
            l->place = i;
            if (!message_item(l, part)) return false;
        }
        return true;
    }
    if (!yyjson_is_arr(v)) return system_add(l, message_content(l, v, "system", name));
    yyjson_arr_foreach(v, i, n, part) {
        serve_text text = { 0 };
        const bool ok = part_text(l, part, "system", name, &text);
        const char *kept = ok ? request_keep(l->r, &text, l->e) : NULL;
        text_free(&text);
        if (!kept || !system_add(l, kept)) return false;
    }
    return true;
}

static bool read_list(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *item;
    char where[MESSAGE_WHERE];
    if (l->r->api == API_RESPONSES && yyjson_is_str(v)) {
        draft_begin(l, "user");
        return (l->draft.content = message_content(l, v, "user", l->name)) != NULL;
    }
    if (!yyjson_is_arr(v)) return request_wrong_type(l->e, l->name, "a list of messages", v);
    if (!yyjson_arr_size(v) && !l->r->previous)
        return serve_refuse(l->e, 400, "invalid_value", l->name, "\"%s\" is empty", l->name);
    if (yyjson_arr_size(v) > SERVE_MESSAGES)
        return serve_refuse(l->e, 400, "array_above_max_length", l->name, "%zu messages; the maximum is %d",
                            yyjson_arr_size(v), SERVE_MESSAGES);
    yyjson_arr_foreach(v, i, n, item) {
        l->place = i;
        if (!yyjson_is_obj(item)) return request_wrong_type(l->e, message_where(l, "", where), "an object",
                                                            item);
        if (l->r->api == API_RESPONSES ? !message_item(l, item)
            : l->r->api == API_MESSAGES ? !message_blocks(l, item) : !message_chat(l, item)) return false;
    }
    return true;
}

/* Adds the conversation of "previous_response_id", without its instructions. */
static bool read_previous(message_list *l, yyjson_val *root)
{
    serve_request *r = l->r;
    yyjson_val *v = request_field(r, root, "previous_response_id");
    if (!v || yyjson_equals_str(v, "")) return true;
    if (!(r->previous = request_text(v, "previous_response_id", l->e))) return false;
    if (!r->kept) return true;                  /* another rank has resolved it */
    const kept_response *k = kept_responses_find(r->kept, r->previous, r->key);
    if (!k)
        return serve_refuse(l->e, 400, "previous_response_not_found", "previous_response_id",
                            "the response \"%.80s\" is no longer kept", r->previous);
    draft_end(l);
    if (k->messages.len && r->n_messages) text_str(&l->out, ",");
    text_add(&l->out, k->messages.bytes ? k->messages.bytes : "", k->messages.len);
    r->n_messages += k->n_messages;
    return r->n_messages <= SERVE_MESSAGES
        || serve_refuse(l->e, 400, "array_above_max_length", l->name, "%zu messages; the maximum is %d",
                        r->n_messages, SERVE_MESSAGES);
}

/* Whether the request marks its last message for continuation. */
static bool list_continues(yyjson_val *list)
{
    yyjson_val *last = yyjson_arr_get_last(list);
    return yyjson_equals_str(yyjson_obj_get(last, "role"), "assistant")
        && (yyjson_is_true(yyjson_obj_get(last, "prefix"))
            || yyjson_is_true(yyjson_obj_get(last, "partial")));
}

bool request_messages(serve_request *r, yyjson_val *root, serve_error *e)
{
    message_list l = { .r = r, .e = e, .name = r->api == API_RESPONSES ? "input" : "messages" };
    yyjson_val *list = yyjson_obj_get(root, l.name);
    text_str(&l.out, "[");
    bool ok = (r->api != API_MESSAGES || read_system(&l, root, "system"))
        && (r->api != API_RESPONSES || read_system(&l, root, "instructions"));
    draft_end(&l);
    r->n_instructions = l.out.len;
    r->n_system = r->n_messages;
    ok = ok && read_previous(&l, root) && (list || r->previous) && (!list || read_list(&l, list));
    /* An assistant's text at the end is the beginning of the answer. */
    if (ok && r->api == API_MESSAGES && l.draft.role && !strcmp(l.draft.role, "assistant")
        && !l.draft.calls.len && l.draft.content && *l.draft.content) r->continue_final = true;
    if (ok && r->api & (API_CHAT | API_TEMPLATE) && list_continues(list)) r->continue_final = true;
    draft_end(&l);
    text_str(&l.out, "]");
    text_free(&l.draft.calls);
    if (ok && r->n_messages) {
        const size_t len = l.out.len;
        r->messages = (serve_words){ request_keep(r, &l.out, e), len };
        return r->messages.text != NULL;
    }
    text_free(&l.out);
    if (ok) return serve_refuse(e, 400, "invalid_value", l.name, "\"%s\" is empty", l.name);
    return !e->status ? request_missing(e, l.name) : false;
}
