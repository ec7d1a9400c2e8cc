/* Converts the messages and blocks of /v1/messages to OpenAI's chat format.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

/* A block other than text or a call becomes text of the message. */
static bool block_text(message_list *l, yyjson_val *v, const char *role, const char *where)
{
    serve_text text = { 0 };
    if (!part_text(l, v, role, where, &text)) return text_free(&text), false;
    const char *kept = request_keep(l->r, &text, l->e);
    return kept && draft_text(l, role, kept);
}

static bool block_call(message_list *l, yyjson_val *v, const char *where)
{
    const char *id = request_text(yyjson_obj_get(v, "id"), where, l->e);
    const char *name = id ? request_text(yyjson_obj_get(v, "name"), where, l->e) : NULL;
    yyjson_val *input = yyjson_obj_get(v, "input");
    if (!name) return false;
    if (input && !yyjson_is_null(input) && !yyjson_is_obj(input) && !yyjson_is_str(input))
        return request_wrong_type(l->e, where, "calls whose input is an object", input);
    draft_call(l, id, name, request_is_empty(input) || !yyjson_get_len(input) ? NULL : input);
    return true;
}

static bool block_result(message_list *l, yyjson_val *v, const char *where)
{
    draft_begin(l, "tool");
    if (!(l->draft.call_id = request_text(yyjson_obj_get(v, "tool_use_id"), where, l->e))) return false;
    return (l->draft.content = message_content(l, yyjson_obj_get(v, "content"), "tool", where)) != NULL;
}

static bool message_block(message_list *l, yyjson_val *v, const char *role)
{
    char where[MESSAGE_WHERE];
    const bool answer = !strcmp(role, "assistant");
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    message_where(l, "content", where);
    if (!type) return block_text(l, v, role, where);
    if (!strcmp(type, "thinking") && answer) {
        const char *text = request_text(yyjson_obj_get(v, "thinking"), where, l->e);
        if (!l->draft.role || strcmp(l->draft.role, role)) draft_begin(l, role);
        if (text && *text) l->draft.reasoning = text;
        return text != NULL;
    }
    if (!strcmp(type, "redacted_thinking") && answer) return message_ignore(l, type);
    if (!strcmp(type, "tool_use") && answer) return block_call(l, v, where);
    if (!strcmp(type, "tool_result") && !answer) return block_result(l, v, where);
    return block_text(l, v, role, where);
}

bool message_blocks(message_list *l, yyjson_val *v)
{
    size_t i, n;
    yyjson_val *block, *key, *value, *content = yyjson_obj_get(v, "content");
    char where[MESSAGE_WHERE];
    const char *role = message_role(l, yyjson_obj_get(v, "role"));
    if (!role) return false;
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        if (strcmp(name, "role") && strcmp(name, "content") && strcmp(name, "id") && strcmp(name, "type")
            && !request_is_empty(value) && !message_ignore(l, name)) return false;
    }
    message_where(l, "content", where);
    if (!content && !strcmp(role, "system")) return true;       /* only settings, which are ignored */
    if (!content) return request_missing(l->e, where);
    draft_end(l);
    if (!yyjson_is_arr(content)) {
        draft_begin(l, role);
        return (l->draft.content = message_content(l, content, role, where)) != NULL;
    }
    yyjson_arr_foreach(content, i, n, block) if (!message_block(l, block, role)) return false;
    if (!n) draft_begin(l, role);
    return true;
}
