/* Answers of /v1/responses.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <string.h>

/* What each kind of item is called: its type, that of its part, and the prefix of its events. */
static const struct { const char *type, *part, *event, *prefix; } kinds[] = {
    [ITEM_TEXT] = { "message", "output_text", "response.output_text", "msg" },
    [ITEM_REASONING] = { "reasoning", "reasoning_text", "response.reasoning_text", "rs" },
    [ITEM_CALL] = { "function_call", "", "response.function_call_arguments", "fc" },
};

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
    text_format(out, "{\"type\":\"%s\",\"id\":\"%s_%s_%u\",\"status\":\"%s\"", kinds[item->kind].type,
                kinds[item->kind].prefix, j->id, item->index, status);
    if (item->kind == ITEM_CALL) {
        text_str(out, ",\"call_id\":");
        text_json_str(out, item->id);
        text_str(out, ",\"name\":");
        text_json(out, format_bytes(&item->name), item->name.len);
        text_str(out, ",\"arguments\":");
        text_json(out, format_bytes(&item->text), whole ? item->text.len : 0);
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

static void write_response(const front_job *j, bool over, serve_text *out)
{
    static const front_item empty = { .kind = ITEM_TEXT };
    const front_choice *ch = &j->choices[0];
    const serve_request *r = &j->job.request;
    const bool cut = over && format_cut(ch);
    bool any = false;
    text_format(out, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
                "\"error\":null,\"incomplete_details\":%s,\"instructions\":null,\"max_output_tokens\":null,"
                "\"model\":", j->id, j->created, !over ? "in_progress" : cut ? "incomplete" : "completed",
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
    text_format(out, ",\"tools\":[],\"top_p\":%g,\"metadata\":{},", (double)r->sampler.top_p);
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
    text_format(out, "\"item_id\":\"%s_%s_%u\",\"output_index\":%u", kinds[item->kind].prefix, j->id,
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

void format_responses_item_end(front_job *j, const front_item *item, serve_text *out)
{
    const bool call = item->kind == ITEM_CALL;
    if (!item->dropped) {
        write_event(j, kinds[item->kind].event, ".done", out);
        write_place(j, item, out);
        if (item->kind == ITEM_TEXT)
            text_format(out, ",\"logprobs\":[%s]", format_bytes(&j->choices[0].logprobs[0]));
        if (call) {
            text_str(out, ",\"name\":");
            text_json(out, format_bytes(&item->name), item->name.len);
        }
        text_str(out, call ? ",\"arguments\":" : ",\"text\":");
        text_json(out, format_bytes(&item->text), item->text.len);
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
