/* Answers of /v1/responses.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

/* Names for each kind of item: its type, its part's type, and the prefixes of its events and of its
 * id. */
typedef struct item_words { const char *type, *part, *event, *prefix; } item_words;
static const item_words kinds[] = {
    [ITEM_TEXT] = { "message", "output_text", "response.output_text", "msg" },
    [ITEM_REASONING] = { "reasoning", "reasoning_text", "response.reasoning_text", "rs" },
    [ITEM_CALL] = { "function_call", "", "response.function_call_arguments", "fc" },
};
static const item_words custom_words = { "custom_tool_call", "", "response.custom_tool_call_input", "ctc" };

static bool item_custom(const front_job *j, const front_item *item)
{
    const serve_tool *tool = item->kind == ITEM_CALL ? format_tool(j, item) : NULL;
    return tool && tool->custom;
}

static const item_words *words_of(const front_job *j, const front_item *item)
{
    return item_custom(j, item) ? &custom_words : &kinds[item->kind];
}

/* "arguments": or "input": of a call, as a JSON string. */
static void write_arguments(const front_job *j, const front_item *item, bool whole, serve_text *out)
{
    serve_text input = { 0 };
    const bool custom = item_custom(j, item);
    if (custom && whole) format_input(item, &input);
    text_str(out, custom ? "\"input\":" : "\"arguments\":");
    if (custom) text_json(out, format_bytes(&input), input.len);
    else text_json(out, format_bytes(&item->text), whole ? item->text.len : 0);
    out->failed |= input.failed;
    text_free(&input);
}

/* {"type":...,"text":...} */
static void write_part(const front_job *j, const front_item *item, bool whole, serve_text *out)
{
    text_format(out, "{\"type\":\"%s\",", kinds[item->kind].part);
    if (item->kind == ITEM_TEXT)
        text_format(out, "\"annotations\":[],\"logprobs\":[%s],",
                    whole ? format_bytes(&j->choices[0].logprobs[0]) : "");
    text_str(out, "\"text\":");
    text_json(out, format_bytes(&item->text), whole ? item->text.len : 0);
    text_str(out, "}");
}

/* An item: as it begins in a stream, or whole. */
static void write_item(const front_job *j, const front_item *item, bool whole, serve_text *out)
{
    const front_choice *ch = &j->choices[0];
    const bool last = item->index + 1 >= ch->n_items;
    const bool part = item->dropped || item->cut || (last && ch->over && format_cut(ch));
    const char *status = !whole ? "in_progress" : part ? "incomplete" : "completed";
    const item_words *words = words_of(j, item);
    text_format(out, "{\"type\":\"%s\",\"id\":\"%s_%s_%u\",\"status\":\"%s\"", words->type, words->prefix,
                j->id, item->index, status);
    if (item->kind == ITEM_CALL) {
        const serve_tool *tool = format_tool(j, item);
        text_str(out, ",\"call_id\":");
        text_json_str(out, item->id);
        text_str(out, ",");
        format_name(j, item, out);
        if (tool && tool->space) {
            text_str(out, ",\"namespace\":");
            text_json_str(out, tool->space);
        }
        text_str(out, ",");
        write_arguments(j, item, whole, out);
    } else {
        text_str(out, item->kind == ITEM_TEXT ? ",\"role\":\"assistant\"" : ",\"summary\":[]");
        text_str(out, ",\"content\":[");
        if (whole) write_part(j, item, true, out);
        text_str(out, "]");
    }
    text_str(out, "}");
}

static void write_choice_of_tool(const serve_request *r, serve_text *out)
{
    const char *choice = r->tools ? r->tool_choice : "none";
    const bool word = !strcmp(choice, "none") || !strcmp(choice, "auto") || !strcmp(choice, "required");
    text_str(out, word ? "" : "{\"type\":\"function\",\"name\":");
    text_json_str(out, choice);
    text_str(out, word ? "" : "}");
}

/* "name":... as in the request, or the API's default. */
static void write_asked(const serve_request *r, const char *name, const char *otherwise, serve_text *out)
{
    yyjson_val *v = yyjson_obj_get(yyjson_doc_get_root(r->doc), name);
    char *json = v && !yyjson_is_null(v) ? yyjson_val_write(v, 0, NULL) : NULL;
    text_str(out, ",");
    text_json_str(out, name);
    text_str(out, ":");
    text_str(out, json ? json : otherwise);
    free(json);
}

static void write_all_asked(const serve_request *r, serve_text *out)
{
    static const char *const names[][2] = {
        { "tools", "[]" }, { "metadata", "{}" }, { "instructions", "null" }, { "max_output_tokens", "null" },
        { "previous_response_id", "null" }, { "reasoning", "{\"effort\":null,\"summary\":null}" },
        { "text", "{\"format\":{\"type\":\"text\"}}" }, { "truncation", "\"disabled\"" },
        { "background", "false" }, { "user", "null" }, { "service_tier", "\"default\"" },
        { "max_tool_calls", "null" }, { "prompt_cache_key", "null" }, { "safety_identifier", "null" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) write_asked(r, names[i][0], names[i][1], out);
    text_format(out, ",\"store\":%s,\"top_logprobs\":%d", r->store ? "true" : "false",
                r->logprobs > 0 ? (int)r->logprobs : 0);
}

static void write_response(const front_job *j, bool over, serve_text *out)
{
    static const front_item empty = { .kind = ITEM_TEXT };
    const front_choice *ch = &j->choices[0];
    const serve_request *r = &j->job.request;
    const bool cut = over && format_cut(ch);
    bool any = false;
    text_format(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
                "\"error\":null,\"incomplete_details\":%s,\"model\":", j->id, j->created,
                !over ? "in_progress" : cut ? "incomplete" : "completed",
                cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    text_json_str(out, j->model);
    text_str(out, ",\"output\":[");
    for (unsigned i = 0; over && i < ch->n_items; i++) {
        if (ch->items[i].dropped && !r->stream) continue;
        if (any) text_str(out, ",");
        write_item(j, &ch->items[i], true, out);
        any = true;
    }
    if (over && !any) write_item(j, &empty, true, out);
    text_format(out, "],\"parallel_tool_calls\":%s,\"temperature\":%g,\"tool_choice\":",
                r->parallel ? "true" : "false", (double)r->sampler.temperature);
    write_choice_of_tool(r, out);
    text_format(out, ",\"top_p\":%g", (double)r->sampler.top_p);
    write_all_asked(r, out);
    text_str(out, ",");
    if (over) format_usage(j, out);
    else text_str(out, "\"usage\":null");
    text_str(out, "}");
}

/* ---- streams ---- */

/* event: NAME, data: {"type":NAME,"sequence_number":N, */
static void write_event(front_job *j, const char *name, const char *more, serve_text *out)
{
    text_format(out, "event: %s%s\ndata: {\"type\":\"%s%s\",\"sequence_number\":%u,", name, more, name, more,
                j->sequence++);
}

static void write_place(const front_job *j, const front_item *item, serve_text *out)
{
    text_format(out, "\"item_id\":\"%s_%s_%u\",\"output_index\":%u", words_of(j, item)->prefix, j->id,
                item->index, item->index);
    if (item->kind != ITEM_CALL) text_str(out, ",\"content_index\":0");
}

void format_responses_begin(front_job *j, serve_text *out)
{
    static const char *const names[] = { "response.created", "response.in_progress" };
    for (int i = 0; i < 2; i++) {
        write_event(j, names[i], "", out);
        text_str(out, "\"response\":");
        write_response(j, false, out);
        text_str(out, "}\n\n");
    }
}

void format_responses_item(front_job *j, const front_item *item, serve_text *out)
{
    write_event(j, "response.output_item.added", "", out);
    text_format(out, "\"output_index\":%u,\"item\":", item->index);
    write_item(j, item, false, out);
    text_str(out, "}\n\n");
    if (item->kind == ITEM_CALL) return;
    write_event(j, "response.content_part.added", "", out);
    write_place(j, item, out);
    text_str(out, ",\"part\":");
    write_part(j, item, false, out);
    text_str(out, "}\n\n");
}

void format_responses_text(front_job *j, const front_item *item, const char *text, size_t len,
                           serve_text *out)
{
    front_choice *ch = &j->choices[0];
    if (item_custom(j, item)) return;           /* the input is complete only when the call ends */
    write_event(j, kinds[item->kind].event, ".delta", out);
    write_place(j, item, out);
    if (item->kind == ITEM_TEXT) {
        const char *more = format_bytes(&ch->logprobs[0]) + ch->n_told;
        text_format(out, ",\"logprobs\":[%s]", *more == ',' ? more + 1 : more);
        ch->n_told = ch->logprobs[0].len;
    }
    text_str(out, ",\"delta\":");
    text_json(out, text, len);
    text_str(out, "}\n\n");
}

/* A custom call's whole input, as one delta. */
static void custom_delta(front_job *j, const front_item *item, serve_text *out)
{
    serve_text input = { 0 };
    format_input(item, &input);
    write_event(j, custom_words.event, ".delta", out);
    write_place(j, item, out);
    text_str(out, ",\"delta\":");
    text_json(out, format_bytes(&input), input.len);
    text_str(out, "}\n\n");
    out->failed |= input.failed;
    text_free(&input);
}

void format_responses_item_end(front_job *j, const front_item *item, serve_text *out)
{
    const bool call = item->kind == ITEM_CALL;
    if (!item->dropped) {
        if (item_custom(j, item)) custom_delta(j, item, out);
        write_event(j, words_of(j, item)->event, ".done", out);
        write_place(j, item, out);
        if (item->kind == ITEM_TEXT)
            text_format(out, ",\"logprobs\":[%s]", format_bytes(&j->choices[0].logprobs[0]));
        text_str(out, ",");
        if (call) {
            format_name(j, item, out);
            text_str(out, ",");
            write_arguments(j, item, true, out);
        } else {
            text_str(out, "\"text\":");
            text_json(out, format_bytes(&item->text), item->text.len);
        }
        text_str(out, "}\n\n");
    }
    if (!call) {
        write_event(j, "response.content_part.done", "", out);
        write_place(j, item, out);
        text_str(out, ",\"part\":");
        write_part(j, item, true, out);
        text_str(out, "}\n\n");
    }
    write_event(j, "response.output_item.done", "", out);
    text_format(out, "\"output_index\":%u,\"item\":", item->index);
    write_item(j, item, true, out);
    text_str(out, "}\n\n");
}

void format_responses_end(front_job *j, serve_text *out)
{
    static const front_item empty = { .kind = ITEM_TEXT };
    if (!j->choices[0].n_items) {
        format_responses_item(j, &empty, out);
        format_responses_item_end(j, &empty, out);
    }
    write_event(j, format_cut(&j->choices[0]) ? "response.incomplete" : "response.completed", "", out);
    text_str(out, "\"response\":");
    write_response(j, true, out);
    text_str(out, "}\n\n");
}

void format_responses_whole(front_job *j, serve_text *out) { write_response(j, true, out); }

/* ---- storing a response ---- */

static void keep_items(const front_choice *ch, item_kind kind, const char *name, serve_text *out)
{
    serve_text all = { 0 };
    for (unsigned i = 0; i < ch->n_items; i++) {
        const front_item *item = &ch->items[i];
        if (item->kind == kind) text_add(&all, format_bytes(&item->text), item->text.len);
    }
    if (all.len || kind == ITEM_TEXT) {
        text_format(out, ",\"%s\":", name);
        text_json(out, format_bytes(&all), all.len);
    }
    out->failed |= all.failed;
    text_free(&all);
}

/* The answer as an assistant message of a chat. */
static void keep_answer(const front_choice *ch, serve_text *out)
{
    bool any = false;
    text_str(out, out->len ? ",{\"role\":\"assistant\"" : "{\"role\":\"assistant\"");
    keep_items(ch, ITEM_TEXT, "content", out);
    keep_items(ch, ITEM_REASONING, "reasoning_content", out);
    for (unsigned i = 0; i < ch->n_items; i++) {
        const front_item *item = &ch->items[i];
        if (item->kind != ITEM_CALL || item->dropped || item->cut) continue;
        text_str(out, any ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":");
        text_json_str(out, item->id);
        text_str(out, ",\"type\":\"function\",\"function\":{\"name\":");
        text_json(out, format_bytes(&item->name), item->name.len);
        text_str(out, ",\"arguments\":");
        format_arguments(item, out);
        text_str(out, "}}");
        any = true;
    }
    text_str(out, any ? "]}" : "}");
}

void format_responses_keep(front_job *j)
{
    const serve_request *r = &j->job.request;
    serve_text json = { 0 }, messages = { 0 };
    if (!r->store || !j->front->responses) return;
    write_response(j, true, &json);
    /* All messages except the instructions, without the enclosing brackets. */
    size_t from = r->n_instructions, to = r->messages.len - 1;
    if (from < to && r->messages.text[from] == ',') from++;
    text_add(&messages, r->messages.text + from, to > from ? to - from : 0);
    keep_answer(&j->choices[0], &messages);
    kept_responses_add(j->front->responses, j->id, j->job.key, &json, &messages,
                       r->n_messages - r->n_system + 1);
}
