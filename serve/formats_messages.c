/* Answers of Anthropic's interface.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <string.h>

static const char *stop_word(const front_job *j, const front_choice *ch)
{
    if (format_cut(ch)) return "max_tokens";
    if (format_calls(ch)) return "tool_use";
    return ch->end == QSF_TURN_STOP_TEXT && j->job.request.n_stops ? "stop_sequence" : "end_turn";
}

/* "stop_sequence":..., if exactly one was requested: the turn does not report which one it met. */
static void write_stop(const front_job *j, const front_choice *ch, bool over, serve_text *out)
{
    const serve_request *r = &j->job.request;
    text_str(out, ",\"stop_sequence\":");
    if (over && ch->end == QSF_TURN_STOP_TEXT && r->n_stops == 1)
        text_json(out, r->stops[0], r->stop_lengths[0]);
    else text_str(out, "null");
}

/* A block: as it begins in a stream, or whole. */
static void write_block(const front_job *j, const front_item *item, bool whole, serve_text *out)
{
    static const char *const heads[] = { "{\"type\":\"text\",\"text\":",
                                         "{\"type\":\"thinking\",\"thinking\":" };
    (void)j;
    if (item->kind == ITEM_CALL) {
        text_str(out, "{\"type\":\"tool_use\",\"id\":");
        text_json_str(out, item->id);
        text_str(out, ",\"name\":");
        text_json(out, format_bytes(&item->name), item->name.len);
        text_str(out, ",\"input\":");
        if (whole && !item->cut) format_arguments(item, out);
        else text_str(out, "{}");
    } else {
        text_str(out, heads[item->kind == ITEM_REASONING]);
        text_json(out, format_bytes(&item->text), whole ? item->text.len : 0);
        if (item->kind == ITEM_REASONING) text_str(out, ",\"signature\":\"\"");
    }
    text_str(out, "}");
}

static void write_message(const front_job *j, bool over, serve_text *out)
{
    static const front_item empty = { .kind = ITEM_TEXT };
    const front_choice *ch = &j->choices[0];
    bool any = false;
    text_format(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", j->id);
    text_json_str(out, j->model);
    text_str(out, ",\"content\":[");
    for (unsigned i = 0; over && i < ch->n_items; i++) {
        if (ch->items[i].dropped) continue;
        if (any) text_str(out, ",");
        write_block(j, &ch->items[i], true, out);
        any = true;
    }
    if (over && !any) write_block(j, &empty, true, out);
    text_str(out, "],\"stop_reason\":");
    if (over) text_json_str(out, stop_word(j, ch));
    else text_str(out, "null");
    write_stop(j, ch, over, out);
    text_str(out, ",");
    format_usage(j, out);
    text_str(out, "}");
}

void format_messages_begin(front_job *j, serve_text *out)
{
    text_str(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    write_message(j, false, out);
    text_str(out, "}\n\n");
}

void format_messages_item(const front_job *j, const front_item *item, serve_text *out)
{
    text_format(out, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%u,"
                "\"content_block\":", item->index);
    write_block(j, item, false, out);
    text_str(out, "}\n\n");
}

void format_messages_text(const front_item *item, const char *text, size_t len, serve_text *out)
{
    static const char *const deltas[] = { "text_delta\",\"text", "thinking_delta\",\"thinking",
                                          "input_json_delta\",\"partial_json" };
    text_format(out, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%u,"
                "\"delta\":{\"type\":\"%s\":", item->index, deltas[item->kind]);
    text_json(out, text, len);
    text_str(out, "}}\n\n");
}

void format_messages_item_end(const front_item *item, serve_text *out)
{
    text_format(out, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%u}\n\n",
                item->index);
}

void format_messages_end(front_job *j, serve_text *out)
{
    static const front_item empty = { .kind = ITEM_TEXT };
    if (!j->choices[0].n_items) {
        format_messages_item(j, &empty, out);
        format_messages_item_end(&empty, out);
    }
    text_format(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"
                "\"stop_reason\":\"%s\"", stop_word(j, &j->choices[0]));
    write_stop(j, &j->choices[0], true, out);
    text_str(out, "},");
    format_usage(j, out);
    text_str(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

void format_messages_whole(front_job *j, serve_text *out) { write_message(j, true, out); }
