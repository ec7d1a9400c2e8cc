/* The messages of a request, from each interface's form to that of OpenAI's chat, in JSON.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include "kept_responses.h"

#include <stdio.h>
#include <string.h>

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
        return serve_refuse(l->e, 400, "array_above_max_length", l->name, "%zu messages; %d are possible",
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
        || serve_refuse(l->e, 400, "array_above_max_length", l->name, "%zu messages; %d are possible",
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
