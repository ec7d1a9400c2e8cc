/* Answers in the format of Ollama's API.
 * SPDX-License-Identifier: MIT
 *
 * Streams are lines of JSON.  Calls come whole, with their arguments as objects; the last line has
 * the reason of the end and how long everything took, in nanoseconds. */
#include "formats.h"

#include <event2/util.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yyjson.h>

static bool of_chat(const front_job *j) { return j->form == &form_ollama_chat; }

static const char *empty_text(const front_job *j)
{
    return of_chat(j) ? "\"message\":{\"role\":\"assistant\",\"content\":\"\"}," : "\"response\":\"\",";
}

/* {"model":...,"created_at":..., */
static void write_head(const front_job *j, serve_text *out)
{
    struct timeval now;
    evutil_gettimeofday(&now, NULL);
    text_str(out, "{\"model\":");
    text_json_str(out, j->model);
    text_str(out, ",\"created_at\":\"");
    text_time(out, (long long)now.tv_sec, (long)now.tv_usec);
    text_str(out, "\",");
}

static uint64_t since(uint64_t from, uint64_t to) { return from && to > from ? to - from : 0; }

/* The members at the end of an answer. */
static void write_end(const front_job *j, serve_text *out)
{
    const front_choice *ch = &j->choices[0];
    const uint64_t now = serve_now();
    text_format(out, "\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%llu,\"load_duration\":%llu,"
                "\"prompt_eval_count\":%u,\"prompt_eval_duration\":%llu,\"eval_count\":%u,"
                "\"eval_duration\":%llu}", format_cut(ch) ? "length" : "stop",
                (unsigned long long)since(j->job.arrived_ns, now),
                (unsigned long long)since(j->job.arrived_ns, j->ready_ns), (unsigned)ch->n_prompt,
                (unsigned long long)since(ch->begun_ns, ch->first_ns ? ch->first_ns : now),
                (unsigned)ch->n_tokens, (unsigned long long)since(ch->first_ns, ch->last_ns));
}

/* The log probabilities since the last line. */
static void write_logprobs(front_choice *ch, serve_text *out)
{
    if (ch->logprobs[0].len) text_format(out, "\"logprobs\":[%s],", format_bytes(&ch->logprobs[0]));
    out->failed |= ch->logprobs[0].failed;
    format_logprobs_clear(ch);
}

/* Arguments as one line of JSON; {} if the answer was cut off in them. */
static void write_arguments(const front_item *item, serve_text *out)
{
    yyjson_doc *doc = item->text.len ? yyjson_read(item->text.bytes, item->text.len, 0) : NULL;
    yyjson_val *root = yyjson_doc_get_root(doc);
    size_t len = 0;
    char *json = yyjson_is_obj(root) ? yyjson_val_write(root, YYJSON_WRITE_ESCAPE_UNICODE, &len) : NULL;
    if (json) text_add(out, json, len);
    else text_str(out, "{}");
    free(json);
    yyjson_doc_free(doc);
}

static void write_call(const front_item *item, unsigned index, serve_text *out)
{
    text_str(out, "{\"id\":");
    text_json_str(out, item->id);
    text_format(out, ",\"function\":{\"index\":%u,\"name\":", index);
    text_json(out, format_bytes(&item->name), item->name.len);
    text_str(out, ",\"arguments\":");
    write_arguments(item, out);
    text_str(out, "}}");
}

/* ---- streams ---- */

/* A line of a stream: text, reasoning ("thinking") or, with item, a call. */
static void write_line(front_job *j, const char *name, const char *text, size_t len, const front_item *call,
                       serve_text *out)
{
    unsigned index = 0;
    write_head(j, out);
    text_str(out, of_chat(j) ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":");
    if (name) text_str(out, "\"\"");
    else text_json(out, text, len);
    if (name && !call) {
        text_format(out, ",\"%s\":", name);
        text_json(out, text, len);
    } else if (call) {
        for (unsigned i = 0; i < call->index; i++) index += j->choices[0].items[i].kind == ITEM_CALL;
        text_str(out, ",\"tool_calls\":[");
        write_call(call, index, out);
        text_str(out, "]");
    }
    text_str(out, of_chat(j) ? "}," : ",");
    write_logprobs(&j->choices[0], out);
    text_str(out, "\"done\":false}\n");
}

static void ollama_text(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out)
{
    (void)choice;
    write_line(j, NULL, text, len, NULL, out);
}

static void ollama_item_text(front_job *j, unsigned choice, const front_item *item, const char *text,
                             size_t len, serve_text *out)
{
    (void)choice;
    if (item->kind != ITEM_CALL)
        write_line(j, item->kind == ITEM_REASONING ? "thinking" : NULL, text, len, NULL, out);
}

static void ollama_item_end(front_job *j, unsigned choice, const front_item *item, serve_text *out)
{
    (void)choice;
    if (item->kind == ITEM_CALL && !item->dropped) write_line(j, "tool_calls", "", 0, item, out);
}

static void ollama_choice_end(front_job *j, unsigned choice, serve_text *out)
{
    write_head(j, out);
    text_str(out, empty_text(j));
    write_logprobs(&j->choices[choice], out);
    write_end(j, out);
    text_str(out, "\n");
}

static void ollama_end(front_job *j, serve_text *out)
{
    if (!j->error.status) return;
    format_error(out, &j->error, ERRORS_OLLAMA);
    text_str(out, "\n");
}

/* ---- whole answers ---- */

/* All items of a kind, concatenated. */
static void join_items(const front_choice *ch, item_kind kind, serve_text *out)
{
    for (unsigned i = 0; i < ch->n_items; i++)
        if (ch->items[i].kind == kind)
            text_add(out, format_bytes(&ch->items[i].text), ch->items[i].text.len);
}

static void write_calls(const front_choice *ch, serve_text *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < ch->n_items; i++) {
        if (ch->items[i].kind != ITEM_CALL || ch->items[i].dropped) continue;
        text_str(out, n ? "," : ",\"tool_calls\":[");
        write_call(&ch->items[i], n++, out);
    }
    if (n) text_str(out, "]");
}

static void ollama_whole(front_job *j, serve_text *out)
{
    front_choice *ch = &j->choices[0];
    serve_text text = { 0 }, thinking = { 0 };
    if (ch->talk) join_items(ch, ITEM_TEXT, &text);
    else text_add(&text, format_bytes(&ch->text), ch->text.len);
    join_items(ch, ITEM_REASONING, &thinking);
    write_head(j, out);
    text_str(out, of_chat(j) ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"response\":");
    text_json(out, format_bytes(&text), text.len);
    if (thinking.len) {
        text_str(out, ",\"thinking\":");
        text_json(out, format_bytes(&thinking), thinking.len);
    }
    write_calls(ch, out);
    text_str(out, of_chat(j) ? "}," : ",");
    write_logprobs(ch, out);
    write_end(j, out);
    out->failed |= text.failed | thinking.failed;
    text_free(&text);
    text_free(&thinking);
}

static void ollama_embed_whole(front_job *j, serve_text *out)
{
    const uint64_t arrived = j->job.arrived_ns;
    text_str(out, "{\"model\":");
    text_json_str(out, j->model);
    text_str(out, ",\"embeddings\":[");
    for (unsigned i = 0; i < j->job.n_prompts; i++) {
        if (i) text_str(out, ",");
        format_vector(j, i, out);
    }
    text_format(out, "],\"total_duration\":%llu,\"load_duration\":%llu,\"prompt_eval_count\":%u}",
                (unsigned long long)since(arrived, serve_now()),
                (unsigned long long)since(arrived, j->ready_ns), (unsigned)j->choices[0].n_prompt);
}

static void ollama_embeddings_whole(front_job *j, serve_text *out)
{
    text_str(out, "{\"embedding\":");
    format_vector(j, 0, out);
    text_str(out, "}");
}

/* ---- requests without a prompt ---- */

/* Answers a request that only loads or unloads the model. */
static bool ollama_load(front_job *j, serve_text *out, serve_error *e)
{
    const bool leaves = j->body.asks & REWRITE_UNLOAD;
    (void)e;
    write_head(j, out);
    text_str(out, empty_text(j));
    text_format(out, "\"done\":true,\"done_reason\":\"%s\"}", leaves ? "unload" : "load");
    if (leaves) models_unload(j->front->models, j->entry);
    return true;
}

static bool ollama_embed_none(front_job *j, serve_text *out, serve_error *e)
{
    (void)e;
    if (j->form == &form_ollama_embeddings) {
        text_str(out, "{\"embedding\":[]}");
    } else {
        text_str(out, "{\"model\":");
        text_json_str(out, j->model);
        text_str(out, ",\"embeddings\":[]}");
    }
    if (j->body.asks & REWRITE_UNLOAD) models_unload(j->front->models, j->entry);
    return true;
}

/* ---- model details ---- */

void format_ollama_details(const model_entry *m, serve_text *out)
{
    const double params = (double)m->info.n_params;
    text_str(out, "\"details\":{\"parent_model\":\"\",\"format\":");
    text_json_str(out, m->info.format && !strcmp(m->info.format, "QSF") ? "qsf" : "gguf");
    text_str(out, ",\"family\":");
    text_json_str(out, m->arch);
    text_str(out, ",\"families\":[");
    text_json_str(out, m->arch);
    text_format(out, "],\"parameter_size\":\"%.1f%c\",\"quantization_level\":\"", params >= 1e9 ? params / 1e9
                : params / 1e6, params >= 1e9 ? 'B' : 'M');
    if (params > 0) text_format(out, "%.1f bits", (double)m->info.weight_bytes * 8 / params);
    text_str(out, "\"}");
}

void format_ollama_time(const model_entry *m, serve_text *out)
{
    struct stat file;
    const long long seconds = stat(m->path, &file) ? 0 : (long long)file.st_mtime;
    text_str(out, "\"");
    text_time(out, seconds, 0);
    text_str(out, "\"");
}

/* "model_info": names begin with the architecture, as in GGUF. */
static void write_info(const model_entry *m, serve_text *out)
{
    const qsf_model_info *i = &m->info;
    const struct { const char *name; uint32_t n; } all[] = {
        { "context_length", m->n_seq }, { "embedding_length", i->n_embd }, { "block_count", i->n_layers },
        { "feed_forward_length", i->n_ff }, { "attention.head_count", i->n_heads },
        { "attention.head_count_kv", i->n_kv_heads }, { "attention.key_length", i->head_dim },
        { "vocab_size", i->n_vocab },
    };
    text_str(out, "\"model_info\":{\"general.architecture\":");
    text_json_str(out, m->arch);
    text_format(out, ",\"general.parameter_count\":%llu", (unsigned long long)i->n_params);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        text_format(out, ",\"%s.%s\":%u", m->arch, all[k].name, (unsigned)all[k].n);
    text_str(out, "}");
}

static void write_capabilities(const model_entry *m, serve_text *out)
{
    text_str(out, "\"capabilities\":[");
    text_str(out, m->info.encoder ? "\"embedding\"" : "\"completion\"");
    if (m->abilities & MODEL_TOOLS) text_str(out, ",\"tools\"");
    if (m->abilities & MODEL_REASONING) text_str(out, ",\"thinking\"");
    if (m->abilities & MODEL_INFILL) text_str(out, ",\"insert\"");
    text_str(out, "]");
}

static bool ollama_show(front_job *j, serve_text *out, serve_error *e)
{
    const model_entry *m = j->entry;
    (void)e;
    text_str(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"license\":\"\",\"template\":");
    text_json_str(out, front_template(j->front, m));
    text_str(out, ",");
    format_ollama_details(m, out);
    text_str(out, ",");
    write_info(m, out);
    text_str(out, ",");
    write_capabilities(m, out);
    text_str(out, ",\"modified_at\":");
    format_ollama_time(m, out);
    text_str(out, "}");
    return true;
}

/* ---- format tables ---- */

#define OLLAMA_ANSWERS .errors = ERRORS_OLLAMA, .stream_type = "application/x-ndjson", .lines = true, \
    .text = ollama_text, .item_text = ollama_item_text, .item_end = ollama_item_end, \
    .choice_end = ollama_choice_end, .end = ollama_end, .whole = ollama_whole, .reply = ollama_load
const front_form form_ollama_chat = { .rewrite = rewrite_ollama_chat, OLLAMA_ANSWERS };
const front_form form_ollama_generate = { .rewrite = rewrite_ollama_generate, OLLAMA_ANSWERS };
#undef OLLAMA_ANSWERS
const front_form form_ollama_embed = { .rewrite = rewrite_ollama_embed, .errors = ERRORS_OLLAMA,
                                       .reply = ollama_embed_none, .whole = ollama_embed_whole };
const front_form form_ollama_embeddings = { .rewrite = rewrite_ollama_embeddings, .errors = ERRORS_OLLAMA,
                                            .reply = ollama_embed_none, .whole = ollama_embeddings_whole };
const front_form form_ollama_show = { .rewrite = rewrite_ollama_model, .errors = ERRORS_OLLAMA,
                                      .reply = ollama_show };
