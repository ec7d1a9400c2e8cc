/* One message of OpenAI's chat or of /v1/responses.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

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
        return serve_refuse(l->e, 400, "invalid_value", where, "\"%s\" is for the assistant's messages",
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
        return serve_refuse(l->e, 400, "invalid_value", where, "\"%s\" is for the assistant's messages",
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
