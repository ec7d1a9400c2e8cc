/* Answers of OpenAI's chat and completions, and of /generate; and the choice of the other formats.
 * SPDX-License-Identifier: MIT */
#include "formats.h"

#include <string.h>
#include <yyjson.h>

static void error_member(const char *name, const char *text, serve_text *out)
{
    text_format(out, ",\"%s\":", name);
    if (text && *text) text_json_str(out, text);
    else text_str(out, "null");
}

void format_error(serve_text *out, const serve_error *e, error_form form)
{
    if (form == ERRORS_OLLAMA) {
        text_str(out, "{\"error\":");
        text_json_str(out, e->text);
        text_str(out, "}");
    } else if (form == ERRORS_ANTHROPIC) {
        text_str(out, "{\"type\":\"error\",\"error\":{\"type\":");
        text_json_str(out, e->type);
        error_member("message", e->text, out);
        text_str(out, "}}");
    } else {
        text_str(out, "{\"error\":{\"message\":");
        text_json_str(out, e->text);
        error_member("type", e->type, out);
        error_member("param", e->param, out);
        error_member("code", e->code, out);
        text_str(out, "}}");
    }
}

static bool is_chat(const front_job *j) { return j->job.request.api == API_CHAT; }

static const char *finish_word(const front_job *j, const front_choice *ch)
{
    return format_cut(ch) ? "length" : !format_calls(ch) ? "stop"
           : j->job.request.legacy_calls ? "function_call" : "tool_calls";
}

/* {"id":...,"object":...,"created":...,"model":..., */
static void write_head(const front_job *j, bool chunk, serve_text *out)
{
    text_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", j->id,
                !is_chat(j) ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion",
                    j->created);
    text_json_str(out, j->model);
    text_str(out, ",");
}

/* ---- streams ---- */

/* A chunk of one choice of a chat, a completion or /generate, up to what it says; and its end. */
static void chunk_begin(const front_job *j, unsigned choice, serve_text *out)
{
    text_str(out, "data: ");
    if (j->job.request.api != API_GENERATE) {
        write_head(j, true, out);
        text_str(out, "\"choices\":[");
    }
    text_format(out, "{\"index\":%u,", choice);
}

static void chunk_end(front_job *j, unsigned choice, const char *finish, serve_text *out)
{
    text_str(out, ",");
    format_logprobs(j, &j->choices[choice], out);
    format_logprobs_clear(&j->choices[choice]);
    text_str(out, ",\"finish_reason\":");
    if (finish) text_json_str(out, finish);
    else text_str(out, "null");
    if (j->job.request.api != API_GENERATE) text_str(out, "}]");
    if (j->job.request.timings) {
        text_str(out, ",");
        format_timings(&j->choices[choice], out);
    }
    text_str(out, "}\n\n");
}

static void delta_chunk(front_job *j, unsigned choice, const char *name, const char *text, size_t len,
                        serve_text *out)
{
    chunk_begin(j, choice, out);
    text_format(out, "\"delta\":{\"%s\":", name);
    text_json(out, text, len);
    text_str(out, "}");
    chunk_end(j, choice, NULL, out);
}

static void text_chunk(front_job *j, unsigned choice, const char *text, size_t len, const char *finish,
                       serve_text *out)
{
    chunk_begin(j, choice, out);
    text_str(out, "\"text\":");
    text_json(out, text, len);
    chunk_end(j, choice, finish, out);
}

/* The number of a call among the calls. */
static unsigned call_number(const front_choice *ch, const front_item *item)
{
    unsigned n = 0;
    for (unsigned i = 0; i < item->index; i++) n += ch->items[i].kind == ITEM_CALL;
    return n;
}

/* The deprecated "function_call", for a request that has "functions". */
static void function_call(const front_item *item, const char *text, size_t len, serve_text *out)
{
    text_str(out, "\"function_call\":{");
    if (!text) {
        text_str(out, "\"name\":");
        text_json(out, format_bytes(&item->name), item->name.len);
        text_str(out, ",\"arguments\":\"\"}");
    } else {
        text_str(out, "\"arguments\":");
        text_json(out, text, len);
        text_str(out, "}");
    }
}

/* A custom tool's call: first its head, then its input when it ends. */
static void custom_chunk(front_job *j, unsigned choice, const front_item *item, bool ends, serve_text *out)
{
    serve_text input = { 0 };
    chunk_begin(j, choice, out);
    text_format(out, "\"delta\":{\"tool_calls\":[{\"index\":%u,", call_number(&j->choices[choice], item));
    if (ends) {
        format_input(item, &input);
        text_str(out, "\"custom\":{\"input\":");
        text_json(out, format_bytes(&input), input.len);
    } else {
        text_str(out, "\"id\":");
        text_json_str(out, item->id);
        text_str(out, ",\"type\":\"custom\",\"custom\":{");
        format_name(j, item, out);
        text_str(out, ",\"input\":\"\"");
    }
    text_str(out, "}}]}");
    chunk_end(j, choice, NULL, out);
    out->failed |= input.failed;
    text_free(&input);
}

static void call_chunk(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                       serve_text *out)
{
    const serve_tool *tool = format_tool(j, item);
    if (tool && tool->custom) {
        if (!text) custom_chunk(j, choice, item, false, out);
        return;
    }
    chunk_begin(j, choice, out);
    if (j->job.request.legacy_calls) {
        text_str(out, "\"delta\":{");
        function_call(item, text, len, out);
        text_str(out, "}");
        chunk_end(j, choice, NULL, out);
        return;
    }
    text_format(out, "\"delta\":{\"tool_calls\":[{\"index\":%u,", call_number(&j->choices[choice], item));
    if (!text) {
        text_str(out, "\"id\":");
        text_json_str(out, item->id);
        text_str(out, ",\"type\":\"function\",\"function\":{\"name\":");
        text_json(out, format_bytes(&item->name), item->name.len);
        text_str(out, ",\"arguments\":\"\"}}]}");
    } else {
        text_str(out, "\"function\":{\"arguments\":");
        text_json(out, text, len);
        text_str(out, "}}]}");
    }
    chunk_end(j, choice, NULL, out);
}

/* The prompt of an answer, if it is to be echoed: its text, or that of its tokens. */
static void echo_add(const front_job *j, unsigned choice, serve_text *out)
{
    const serve_request *r = &j->job.request;
    const unsigned prompt = choice / serve_request_each(r);
    const serve_tokens *t = &j->job.prompts[prompt];
    const char *piece;
    if (!r->echo) return;
    if (!r->prompts[prompt].ids) text_add(out, r->prompts[prompt].text, r->prompts[prompt].len);
    for (size_t i = 0; r->prompts[prompt].ids && i < t->n; i++) {
        const size_t len = qsf_token_piece(j->entry->model, t->ids[i], false, &piece);
        text_add(out, piece, len);
    }
}

static void echo_chunk(front_job *j, unsigned choice, serve_text *out)
{
    serve_text text = { 0 };
    echo_add(j, choice, &text);
    text_chunk(j, choice, format_bytes(&text), text.len, NULL, out);
    out->failed |= text.failed;
    text_free(&text);
}

/* Whether the answer has another server's format rather than that of the request's API. */
static bool writes_itself(const front_job *j) { return j->form && j->form->text; }

void format_begin(front_job *j, serve_text *out)
{
    const serve_api api = j->job.request.api;
    if (writes_itself(j)) return;
    if (api == API_RESPONSES) format_responses_begin(j, out);
    if (api == API_MESSAGES) format_messages_begin(j, out);
    if (api & (API_RESPONSES | API_MESSAGES)) return;
    for (unsigned i = 0; i < j->job.n_branches; i++) {
        if (api == API_CHAT) {
            chunk_begin(j, i, out);
            text_str(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
            chunk_end(j, i, NULL, out);
        } else if (j->job.request.echo) {
            echo_chunk(j, i, out);
        }
    }
}

void format_text(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out)
{
    if (writes_itself(j)) j->form->text(j, choice, text, len, out);
    else text_chunk(j, choice, text, len, NULL, out);
}

void format_progress(front_job *j, unsigned choice, uint32_t n_done, serve_text *out)
{
    if (writes_itself(j)) {
        if (j->form->progress) j->form->progress(j, choice, n_done, out);
        return;
    }
    chunk_begin(j, choice, out);
    text_str(out, is_chat(j) ? "\"delta\":{}" : "\"text\":\"\"");
    text_str(out, j->job.request.api == API_GENERATE ? ",\"finish_reason\":null,"
                                                     : ",\"finish_reason\":null}],");
    format_progress_member(j, choice, n_done, out);
    text_str(out, "}\n\n");
}

void format_rest(front_job *j, unsigned choice, serve_text *out)
{
    if (j->job.request.api == API_RESPONSES || !j->choices[choice].logprobs[0].len) return;
    if (writes_itself(j)) return;           /* sent with the next piece of text */
    if (is_chat(j)) delta_chunk(j, choice, "content", "", 0, out);
    else text_chunk(j, choice, "", 0, NULL, out);
}

void format_item(front_job *j, unsigned choice, const front_item *item, serve_text *out)
{
    const serve_api api = j->job.request.api;
    if (writes_itself(j)) return;
    if (api == API_RESPONSES) format_responses_item(j, item, out);
    else if (api == API_MESSAGES) format_messages_item(j, item, out);
    else if (item->kind == ITEM_CALL) call_chunk(j, choice, item, NULL, 0, out);
}

void format_item_text(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                      serve_text *out)
{
    const serve_api api = j->job.request.api;
    if (writes_itself(j)) j->form->item_text(j, choice, item, text, len, out);
    else if (api == API_RESPONSES) format_responses_text(j, item, text, len, out);
    else if (api == API_MESSAGES) format_messages_text(item, text, len, out);
    else if (item->kind == ITEM_CALL) call_chunk(j, choice, item, text, len, out);
    else delta_chunk(j, choice, item->kind == ITEM_TEXT ? "content" : "reasoning_content", text, len, out);
}

void format_item_end(front_job *j, unsigned choice, const front_item *item, serve_text *out)
{
    const serve_tool *tool = item->kind == ITEM_CALL ? format_tool(j, item) : NULL;
    if (writes_itself(j)) j->form->item_end(j, choice, item, out);
    else if (j->job.request.api == API_RESPONSES) format_responses_item_end(j, item, out);
    else if (j->job.request.api == API_MESSAGES) format_messages_item_end(item, out);
    else if (tool && tool->custom && !item->dropped) custom_chunk(j, choice, item, true, out);
}

static void stream_error(front_job *j, serve_text *out)
{
    const error_form form = front_errors(j);
    text_str(out, form == ERRORS_ANTHROPIC ? "event: error\ndata: " : "data: ");
    format_error(out, &j->error, form);
    text_str(out, "\n\n");
}

void format_choice_end(front_job *j, unsigned choice, serve_text *out)
{
    const serve_api api = j->job.request.api;
    const char *finish = finish_word(j, &j->choices[choice]);
    if (writes_itself(j) && !j->error.status) j->form->choice_end(j, choice, out);
    if (j->error.status || api == API_RESPONSES || api == API_MESSAGES || writes_itself(j)) return;
    if (api != API_CHAT) {
        text_chunk(j, choice, "", 0, finish, out);
        return;
    }
    chunk_begin(j, choice, out);
    text_str(out, "\"delta\":{}");
    chunk_end(j, choice, finish, out);
}

void format_end(front_job *j, serve_text *out)
{
    const serve_api api = j->job.request.api;
    if (writes_itself(j)) {
        j->form->end(j, out);
    } else if (j->error.status) {
        stream_error(j, out);
    } else if (api == API_RESPONSES) {
        format_responses_end(j, out);
    } else if (api == API_MESSAGES) {
        format_messages_end(j, out);
    } else {
        if (j->job.request.usage || api == API_GENERATE) {
            text_str(out, "data: ");
            if (api == API_GENERATE) text_str(out, "{");
            else write_head(j, true, out);
            if (api != API_GENERATE) text_str(out, "\"choices\":[],");
            format_usage(j, out);
            text_str(out, "}\n\n");
        }
        text_str(out, "data: [DONE]\n\n");
    }
}

/* ---- whole answers ---- */

/* All items of a kind, concatenated; false: the answer has no such item. */
static bool write_items(const front_choice *ch, item_kind kind, serve_text *out)
{
    serve_text all = { 0 };
    bool any = false;
    for (unsigned i = 0; i < ch->n_items; i++) {
        const front_item *item = &ch->items[i];
        if (item->kind != kind) continue;
        text_add(&all, format_bytes(&item->text), item->text.len);
        any = true;
    }
    if (any) text_json(out, format_bytes(&all), all.len);
    out->failed |= all.failed;
    text_free(&all);
    return any;
}

/* A call, as an element of "tool_calls". */
static void write_call(const front_job *j, const front_item *item, serve_text *out)
{
    const serve_tool *tool = format_tool(j, item);
    const char *none = item->cut ? "" : "{}";
    text_str(out, "{\"id\":");
    text_json_str(out, item->id);
    text_str(out, tool && tool->custom ? ",\"type\":\"custom\",\"custom\":{"
                                       : ",\"type\":\"function\",\"function\":{");
    format_name(j, item, out);
    if (tool && tool->custom) {
        serve_text input = { 0 };
        format_input(item, &input);
        text_str(out, ",\"input\":");
        text_json(out, format_bytes(&input), input.len);
        text_free(&input);
    } else {
        text_str(out, ",\"arguments\":");
        text_json(out, item->text.len ? item->text.bytes : none, item->text.len ? item->text.len
                                                                                : strlen(none));
    }
    text_str(out, "}}");
}

static void write_message(const front_job *j, const front_choice *ch, serve_text *out)
{
    const bool legacy = j->job.request.legacy_calls;
    serve_text reasoning = { 0 };
    bool any = false, calls = false;
    text_str(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    for (unsigned i = 0; i < ch->n_items; i++) calls |= ch->items[i].kind == ITEM_CALL;
    if (!write_items(ch, ITEM_TEXT, out)) text_str(out, calls ? "null" : "\"\"");
    if (write_items(ch, ITEM_REASONING, &reasoning))
        text_format(out, ",\"reasoning_content\":%s", format_bytes(&reasoning));
    text_free(&reasoning);
    for (unsigned i = 0; i < ch->n_items && !(legacy && any); i++) {
        const front_item *item = &ch->items[i];
        if (item->kind != ITEM_CALL || item->dropped) continue;
        if (legacy) {
            text_str(out, ",\"function_call\":{\"name\":");
            text_json(out, format_bytes(&item->name), item->name.len);
            text_str(out, ",\"arguments\":");
            if (item->text.len || item->cut) text_json(out, format_bytes(&item->text), item->text.len);
            else text_json_str(out, "{}");
            text_str(out, "}");
        } else {
            text_str(out, any ? "," : ",\"tool_calls\":[");
            write_call(j, item, out);
        }
        any = true;
    }
    text_str(out, any && !legacy ? "],\"refusal\":null}" : ",\"refusal\":null}");
}

static void write_text(const front_job *j, unsigned choice, serve_text *out)
{
    const front_choice *ch = &j->choices[choice];
    serve_text text = { 0 };
    echo_add(j, choice, &text);
    text_add(&text, format_bytes(&ch->text), ch->text.len);
    text_str(out, "\"text\":");
    text_json(out, format_bytes(&text), text.len);
    out->failed |= text.failed | ch->text.failed;
    text_free(&text);
}

/* Omits the answers to each prompt that are not returned (best_of): those of lower probability. */
static void leave_out(front_job *j)
{
    const unsigned each = serve_request_each(&j->job.request), n = (unsigned)j->job.request.n;
    if (j->job.request.beam_width > 1) return;
    for (unsigned first = 0; first < j->job.n_branches; first += each)
        for (unsigned k = n; k < each; k++) {
            front_choice *worst = NULL;
            for (unsigned i = first; i < first + each; i++) {
                front_choice *ch = &j->choices[i];
                const double mean = ch->score / (ch->n_tokens ? ch->n_tokens : 1);
                if (!ch->left_out && (!worst || mean <= worst->score / (worst->n_tokens ? worst->n_tokens
                                                                                       : 1))) worst = ch;
            }
            if (worst) worst->left_out = true;
        }
}

static void write_choice(const front_job *j, unsigned choice, unsigned index, serve_text *out)
{
    const front_choice *ch = &j->choices[choice];
    text_format(out, "{\"index\":%u,", index);
    if (is_chat(j)) write_message(j, ch, out);
    else write_text(j, choice, out);
    text_str(out, ",");
    format_logprobs(j, ch, out);
    if (!is_chat(j)) format_prompt_logprobs(j, ch, out);
    if (j->job.request.beam_width > 1) text_format(out, ",\"score\":%.6f", ch->score);
    text_format(out, ",\"finish_reason\":\"%s\"}", finish_word(j, ch));
}

void format_whole(front_job *j, serve_text *out)
{
    unsigned n = 0;
    if (j->form && j->form->whole) {
        j->form->whole(j, out);
        return;
    }
    if (j->job.request.api == API_RESPONSES) {
        format_responses_whole(j, out);
        return;
    }
    if (j->job.request.api == API_MESSAGES) {
        format_messages_whole(j, out);
        return;
    }
    if (j->job.request.api & API_EMBEDDED) {
        format_embeddings(j, out);
        return;
    }
    leave_out(j);
    write_head(j, false, out);
    text_str(out, "\"choices\":[");
    for (unsigned i = 0; i < j->job.n_branches; i++) {
        if (j->choices[i].left_out) continue;
        if (n) text_str(out, ",");
        write_choice(j, i, n++, out);
    }
    text_str(out, "],");
    format_usage(j, out);
    if (is_chat(j)) format_prompt_logprobs(j, &j->choices[0], out);
    if (j->job.request.timings) {
        text_str(out, ",");
        format_timings(&j->choices[0], out);
    }
    text_str(out, "}");
}
