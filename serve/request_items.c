/* Converts the items of /v1/responses to OpenAI's chat format.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include "kept_responses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call's name as the model sees it: a namespace's tool has the namespace as a prefix. */
static const char *item_name(message_list *l, yyjson_val *v, const char *where)
{
    const char *name = request_text(yyjson_obj_get(v, "name"), where, l->e);
    const char *space = yyjson_get_str(yyjson_obj_get(v, "namespace"));
    return name && space && *space ? request_spaced(l->r, space, name, l->e) : name;
}

/* Joins the texts of a list of parts of any type. */
static const char *item_texts(message_list *l, yyjson_val *parts)
{
    serve_text all = { 0 };
    size_t i, n;
    yyjson_val *part;
    if (yyjson_is_arr(parts)) yyjson_arr_foreach(parts, i, n, part) {
        const char *text = yyjson_get_str(yyjson_obj_get(part, "text"));
        if (text && all.len) text_str(&all, "\n");
        if (text) text_str(&all, text);
    }
    return request_keep(l->r, &all, l->e);
}

static bool item_reasoning(message_list *l, yyjson_val *v)
{
    yyjson_val *content = yyjson_obj_get(v, "content");
    const char *text = item_texts(l, yyjson_arr_size(content) ? content : yyjson_obj_get(v, "summary"));
    draft_begin(l, "assistant");
    if (text && *text) l->draft.reasoning = text;
    return text != NULL;
}

static bool item_call(message_list *l, yyjson_val *v, bool custom)
{
    char where[MESSAGE_WHERE];
    const char *id = request_text(yyjson_obj_get(v, "call_id"), message_where(l, "call_id", where), l->e);
    const char *name = id ? item_name(l, v, message_where(l, "name", where)) : NULL;
    yyjson_val *value = yyjson_obj_get(v, custom ? "input" : "arguments");
    if (!name) return false;
    message_where(l, custom ? "input" : "arguments", where);
    if (custom) {
        const char *input = request_text(value, where, l->e);
        if (input) draft_custom_call(l, id, name, input);
        return input != NULL;
    }
    if (value && !yyjson_is_null(value) && !yyjson_is_str(value) && !yyjson_is_obj(value))
        return request_wrong_type(l->e, where, "a string of JSON", value);
    const bool json = (yyjson_is_str(value) && yyjson_get_len(value)) || yyjson_is_obj(value);
    draft_call(l, id, name, json ? value : NULL);
    return true;
}

/* A call of one of OpenAI's client-side tools: its action becomes the arguments. */
static bool item_action(message_list *l, yyjson_val *v, const char *type)
{
    yyjson_val *id = yyjson_obj_get(v, "call_id"), *action = yyjson_obj_get(v, "action");
    char *name = request_alloc(l->r, strlen(type) + 1, 1, l->e);
    if (!name) return false;
    memcpy(name, type, strlen(type) - strlen("_call"));         /* local_shell, shell, ... */
    if (!yyjson_is_str(id)) id = yyjson_obj_get(v, "id");
    draft_call(l, yyjson_get_str(id), name, yyjson_is_obj(action) ? action : yyjson_obj_get(v, "operation"));
    return true;
}

/* The result of a call. */
static bool item_output(message_list *l, yyjson_val *v)
{
    char where[MESSAGE_WHERE];
    yyjson_val *call = yyjson_obj_get(v, "call_id"), *output = yyjson_obj_get(v, "output");
    if (!yyjson_is_str(call) && yyjson_is_str(yyjson_obj_get(v, "id"))) call = yyjson_obj_get(v, "id");
    draft_begin(l, "tool");
    message_where(l, "call_id", where);
    if (call && !yyjson_is_null(call) && !(l->draft.call_id = request_text(call, where, l->e))) return false;
    message_where(l, "output", where);
    if (!output) return request_missing(l->e, where);
    return (l->draft.content = message_content(l, output, "tool", where)) != NULL;
}

/* Any other item becomes text of the assistant, so that nothing of a past turn is lost. */
static bool item_readable(message_list *l, yyjson_val *v)
{
    serve_text text = { 0 };
    part_readable(&text, v);
    const char *kept = request_keep(l->r, &text, l->e);
    return kept && draft_text(l, "assistant", kept);
}

static bool item_known(message_list *l, yyjson_val *v);

static void *item_alloc(void *user, size_t size)
{
    message_list *l = user;
    return request_alloc(l->r, size, 1, l->e);
}
static void *item_realloc(void *user, void *old, size_t old_size, size_t size)
{
    void *more = item_alloc(user, size);
    if (more) memcpy(more, old, old_size < size ? old_size : size);
    return more;
}
static void item_free(void *user, void *old) { (void)user, (void)old; }

/* A reference to an item of a stored response. */
static bool item_reference(message_list *l, yyjson_val *v)
{
    const yyjson_alc alc = { item_alloc, item_realloc, item_free, l };
    const char *id = yyjson_get_str(yyjson_obj_get(v, "id"));
    const kept_response *k = id && l->r->kept ? kept_responses_of_item(l->r->kept, id, l->r->key) : NULL;
    size_t i, n;
    yyjson_val *item;
    if (!k) return message_ignore(l, "item_reference");
    /* The request's allocator: its strings may point into the document. */
    yyjson_doc *doc = yyjson_read_opts(k->json.bytes, k->json.len, 0, &alc, NULL);
    yyjson_val *output = yyjson_obj_get(yyjson_doc_get_root(doc), "output");
    if (!doc) return false;
    yyjson_arr_foreach(output, i, n, item)
        if (yyjson_equals_str(yyjson_obj_get(item, "id"), id)) return item_known(l, item);
    return message_ignore(l, "item_reference");
}

static bool item_known(message_list *l, yyjson_val *v)
{
    static const char *const actions[] = { "local_shell_call", "shell_call", "apply_patch_call" };
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    if (!type || !strcmp(type, "message")) return message_chat(l, v);
    if (!strcmp(type, "reasoning")) return item_reasoning(l, v);
    if (!strcmp(type, "function_call")) return item_call(l, v, false);
    if (!strcmp(type, "custom_tool_call")) return item_call(l, v, true);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(type, actions[i])) return item_action(l, v, type);
    const size_t n = strlen(type);
    const bool function = !strcmp(type, "function_call_output") || !strcmp(type, "custom_tool_call_output");
    if (function || (n > 7 && !strcmp(type + n - 7, "_output") && yyjson_obj_get(v, "output")))
        return item_output(l, v);
    return item_readable(l, v);
}

bool message_item(message_list *l, yyjson_val *v)
{
    const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
    const bool id_alone = !type && !yyjson_obj_get(v, "role") && yyjson_is_str(yyjson_obj_get(v, "id"));
    return id_alone || (type && !strcmp(type, "item_reference")) ? item_reference(l, v) : item_known(l, v);
}
