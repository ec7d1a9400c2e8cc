/* The fields of all APIs: one table gives each field's type, range and destination.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdio.h>
#include <string.h>

typedef struct field field;
typedef bool (*field_fn)(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
/* COUNT: uint32_t, -1 is the maximum.  LIMIT: negative means no limit, and any large number is
 * valid.  REAL: float. */
typedef enum field_kind { FIELD_BOOL, FIELD_WHOLE, FIELD_COUNT, FIELD_LIMIT, FIELD_NUMBER, FIELD_REAL,
                          FIELD_TEXT, FIELD_OTHER } field_kind;
struct field {
    const char *name;
    unsigned    apis;
    field_kind  kind;
    size_t      at;
    double      least, most;
    field_fn    take;
};

/* Read later, together with other fields. */
static bool take_later(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r, (void)name, (void)v, (void)e;
    return true;
}

/* Published fields without an effect here: accepted under --strict too. */
static bool take_idle(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r, (void)name, (void)v, (void)e;
    return true;
}

/* Of other servers, without a counterpart: reported as ignored, refused under --strict. */
static bool take_unused(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    return request_is_empty(v) || request_ignore(r, NULL, name, e);
}

/* Would change the answer: refused unless it asks for nothing. */
static bool take_none(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r;
    return request_is_empty(v) || request_unsupported(e, name);
}

/* ---- values ---- */

static bool take_stop(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    const size_t n = yyjson_is_arr(v) ? yyjson_arr_size(v) : 1;
    if (request_is_empty(v)) return true;
    if (n > SERVE_STOPS - 2)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu strings; the maximum is %d", name, n, SERVE_STOPS - 2);
    yyjson_val *stop = yyjson_is_arr(v) ? yyjson_arr_get_first(v) : v;
    for (size_t i = 0; i < n; i++, stop = unsafe_yyjson_get_next(stop)) {
        const size_t len = yyjson_get_len(stop);
        if (yyjson_is_null(stop) || (yyjson_is_str(stop) && !len)) continue;
        if (!yyjson_is_str(stop)) return request_wrong_type(e, name, "a string or a list of strings", stop);
        if (len > 4096)
            return serve_refuse(e, 400, "invalid_value", name,
                                "\"%s\" has a string of %zu bytes; the maximum is 4096", name, len);
        if (r->n_stops == SERVE_STOPS - 2) break;
        r->stops[r->n_stops] = yyjson_get_str(stop);
        r->stop_lengths[r->n_stops++] = len;
    }
    return true;
}

static bool take_stream_options(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (request_is_empty(v)) return true;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, name, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *part = unsafe_yyjson_get_str(key);
        if (strcmp(part, "include_usage")) {
            if (strcmp(part, "include_obfuscation") && !request_is_empty(value)
                && !request_ignore(r, name, part, e)) return false;
            continue;
        }
        if (!yyjson_is_null(value) && !yyjson_is_bool(value))
            return request_wrong_type(e, "stream_options.include_usage", "true or false", value);
        r->usage = yyjson_is_true(value);
    }
    return true;
}

/* -1: random, as in llama-server. */
static bool take_seed(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!request_whole(v, &r->seed)) return request_wrong_type(e, name, "a whole number", v);
    if (yyjson_is_uint(v)) r->seed = (int64_t)yyjson_get_uint(v);
    r->seeded = yyjson_is_uint(v) || r->seed != -1;
    return true;
}

static bool take_stop_ids(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *id;
    int64_t number;
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of token ids", v);
    if (yyjson_arr_size(v) > SERVE_STOPS)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu token ids; the maximum is %d", name, yyjson_arr_size(v),
                            SERVE_STOPS);
    yyjson_arr_foreach(v, i, n, id) {
        if (!request_whole(id, &number)) return request_wrong_type(e, name, "a list of token ids", id);
        if (number >= 0 && number <= INT32_MAX) r->stop_ids[r->n_stop_ids++] = (int32_t)number;
    }
    return true;
}

/* false: the answer includes the text of control tokens.  In chats they would be parsed as
 * calls. */
static bool take_skip_special(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_bool(v)) return request_wrong_type(e, name, "true or false", v);
    r->show_special = yyjson_is_false(v);
    return true;
}

static bool take_modalities(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *item;
    bool text = !yyjson_arr_size(v);
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of strings", v);
    yyjson_arr_foreach(v, i, n, item) text |= yyjson_equals_str(item, "text");
    if (!text) return serve_refuse(e, 400, "unsupported_parameter", name, "only text output is supported");
    return yyjson_arr_size(v) < 2 || request_ignore(r, NULL, name, e);
}

/* ---- the table ---- */

#define AT(member) offsetof(serve_request, member)
#define SAMPLED API_ANSWERS
#define TEXTS (API_COMPLETIONS | API_GENERATE)
#define CHATS (API_CHAT | API_RESPONSES | API_MESSAGES)
#define OPENAI (API_CHAT | API_COMPLETIONS | API_RESPONSES)
#define NUMBER(name, member, least, most) { name, SAMPLED, FIELD_REAL, AT(sampler.member), least, most, NULL }
#define COUNT(name, member, least, most) { name, SAMPLED, FIELD_COUNT, AT(sampler.member), least, most, NULL }
#define LIMIT(name, apis) { name, apis, FIELD_LIMIT, AT(max_tokens), 0, 1e9, NULL }
#define BOOL(name, apis, member) { name, apis, FIELD_BOOL, AT(member), 0, 0, NULL }
#define TAKE(name, apis, take) { name, apis, FIELD_OTHER, 0, 0, 0, take }
#define LATER(name, apis) TAKE(name, apis, take_later)
#define IDLE(name, apis) TAKE(name, apis, take_idle)
#define UNUSED(name, apis) TAKE(name, apis, take_unused)
#define REFUSED(name, apis) TAKE(name, apis, take_none)
static const field fields[] = {
    { "model", ~0u, FIELD_TEXT, AT(model), 0, 0, NULL },
    /* prompt and model */
    TAKE("prompt", TEXTS, request_prompts),
    TAKE("content", API_TOKENIZE, request_content),
    TAKE("tokens", API_DETOKENIZE, request_tokens),
    TAKE("input", API_EMBEDDINGS, request_prompts),
    TAKE("encoding_format", API_EMBEDDINGS, request_encoding),
    { "dimensions", API_EMBEDDINGS, FIELD_WHOLE, AT(dimensions), 1, 1 << 20, NULL },
    TAKE("query", API_RERANK, request_query),
    TAKE("queries", API_RERANK, request_queries),
    TAKE("documents", API_RERANK, request_documents),
    { "top_n", API_RERANK, FIELD_WHOLE, AT(top_n), 1, 1e9, NULL },
    BOOL("return_documents", API_RERANK, documents),
    LATER("messages", API_CHAT | API_MESSAGES | API_TEMPLATE),
    LATER("input", API_RESPONSES),
    LATER("system", API_MESSAGES),
    LATER("instructions", API_RESPONSES),
    LATER("previous_response_id", API_RESPONSES),
    BOOL("store", API_RESPONSES, store),
    BOOL("echo", API_COMPLETIONS, echo),
    TAKE("suffix", TEXTS, request_suffix),
    TAKE("middle", API_GENERATE, request_middle),
    TAKE("input_extra", API_GENERATE, request_extra),
    BOOL("truncate", API_EMBEDDINGS, truncate),
    BOOL("timings_per_token", API_CHAT | TEXTS, timings),
    BOOL("return_progress", API_CHAT | TEXTS, progress),
    REFUSED("prompt", API_RESPONSES),
    REFUSED("conversation", API_RESPONSES),
    REFUSED("prompt_embeds", TEXTS | API_CHAT),
    REFUSED("images", API_ANSWERS),
    /* length and stopping */
    LIMIT("max_tokens", SAMPLED),
    LIMIT("max_completion_tokens", OPENAI),
    LIMIT("max_output_tokens", API_RESPONSES),
    LIMIT("n_predict", SAMPLED),
    LIMIT("num_predict", SAMPLED),
    { "reasoning_budget", CHATS, FIELD_LIMIT, AT(reasoning_budget), 0, 1e9, NULL },
    { "thinking_budget_tokens", CHATS, FIELD_LIMIT, AT(reasoning_budget), 0, 1e9, NULL },
    { "min_tokens", SAMPLED, FIELD_WHOLE, AT(min_tokens), 0, 1e9, NULL },
    TAKE("stop", SAMPLED, take_stop),
    TAKE("stop_sequences", API_MESSAGES, take_stop),
    TAKE("stop_token_ids", SAMPLED, take_stop_ids),
    BOOL("include_stop_str_in_output", SAMPLED, show_stops),
    BOOL("ignore_eos", API_ANSWERS, ignore_end),
    { "timeout", API_ANSWERS | API_EMBEDDED, FIELD_NUMBER, AT(timeout), 0, 1e6, NULL },
    /* sampling */
    NUMBER("temperature", temperature, 0, 100),
    NUMBER("top_p", top_p, 0, 1),
    COUNT("top_k", top_k, -1, 1e9),
    NUMBER("min_p", min_p, 0, 1),
    NUMBER("typical_p", typical_p, 0, 1),
    NUMBER("typ_p", typical_p, 0, 1),
    NUMBER("top_n_sigma", top_n_sigma, -1, 100),
    NUMBER("repeat_penalty", repeat_penalty, 0.01, 100),
    NUMBER("repetition_penalty", repeat_penalty, 0.01, 100),
    NUMBER("penalty_repeat", repeat_penalty, 0.01, 100),
    COUNT("repeat_last_n", repeat_last_n, -1, 1 << 20),
    COUNT("penalty_last_n", repeat_last_n, -1, 1 << 20),
    NUMBER("frequency_penalty", frequency_penalty, -2, 2),
    NUMBER("penalty_freq", frequency_penalty, -2, 2),
    NUMBER("presence_penalty", presence_penalty, -2, 2),
    NUMBER("penalty_present", presence_penalty, -2, 2),
    NUMBER("dry_multiplier", dry_multiplier, 0, 100),
    NUMBER("dry_base", dry_base, 1, 10),
    COUNT("dry_allowed_length", dry_allowed_length, 1, 1 << 20),
    COUNT("dry_penalty_last_n", dry_last_n, -1, 1 << 20),
    TAKE("dry_sequence_breakers", SAMPLED, request_breakers),
    NUMBER("xtc_probability", xtc_probability, 0, 1),
    NUMBER("xtc_threshold", xtc_threshold, 0, 1),
    NUMBER("dynatemp_range", dynatemp_range, 0, 1000),
    NUMBER("dynatemp_exponent", dynatemp_exponent, 0, 100),
    COUNT("mirostat", mirostat, 0, 2),
    NUMBER("mirostat_tau", mirostat_tau, 0, 100),
    NUMBER("mirostat_eta", mirostat_eta, 0, 1),
    TAKE("bad_words", SAMPLED, request_bans),
    TAKE("logit_bias", SAMPLED, request_biases),
    TAKE("seed", SAMPLED, take_seed),
    LATER("options", SAMPLED),
    TAKE("samplers", SAMPLED, request_samplers),
    REFUSED("allowed_token_ids", SAMPLED),
    /* number of answers, streaming */
    { "n", TEXTS | API_CHAT, FIELD_WHOLE, AT(n), 1, SERVE_CHOICES, NULL },
    { "n_cmpl", TEXTS | API_CHAT, FIELD_WHOLE, AT(n), 1, SERVE_CHOICES, NULL },
    { "best_of", TEXTS, FIELD_WHOLE, AT(best_of), 0, SERVE_CHOICES, NULL },
    { "beam_width", TEXTS, FIELD_WHOLE, AT(beam_width), 0, 16, NULL },
    { "length_penalty", TEXTS, FIELD_NUMBER, AT(length_penalty), -10, 10, NULL },
    BOOL("stream", API_ANSWERS, stream),
    TAKE("stream_options", SAMPLED, take_stream_options),
    LATER("logprobs", API_CHAT | TEXTS),
    LATER("top_logprobs", API_CHAT | API_RESPONSES),
    LATER("n_probs", API_CHAT | TEXTS),
    { "prompt_logprobs", API_CHAT | TEXTS, FIELD_WHOLE, AT(prompt_logprobs), 0, QSF_LOGPROBS_MOST, NULL },
    LATER("include", API_RESPONSES),
    TAKE("skip_special_tokens", TEXTS, take_skip_special),
    TAKE("modalities", API_CHAT, take_modalities),
    { "priority", API_ANSWERS, FIELD_WHOLE, AT(priority), -100, 100, NULL },
    { "session_id", API_ANSWERS, FIELD_TEXT, AT(session), 0, 0, NULL },
    /* answer format */
    LATER("response_format", SAMPLED),
    LATER("output_format", API_MESSAGES),
    LATER("output_config", API_MESSAGES),
    LATER("text", API_RESPONSES),
    LATER("json_schema", SAMPLED),
    LATER("grammar", SAMPLED),
    LATER("regex", SAMPLED),
    LATER("choices", SAMPLED),
    LATER("guided_json", SAMPLED),
    LATER("guided_regex", SAMPLED),
    LATER("guided_choice", SAMPLED),
    LATER("guided_grammar", SAMPLED),
    LATER("structured_outputs", SAMPLED),
    /* tools */
    LATER("tools", API_MESSAGE_LISTS),
    LATER("tool_choice", CHATS),
    LATER("functions", API_CHAT),
    LATER("function_call", API_CHAT),
    BOOL("parallel_tool_calls", API_CHAT | API_RESPONSES, parallel),
    /* the chat template */
    LATER("chat_template_kwargs", API_MESSAGE_LISTS),
    LATER("reasoning_effort", API_MESSAGE_LISTS),
    LATER("enable_thinking", API_MESSAGE_LISTS),
    LATER("think", API_MESSAGE_LISTS),
    LATER("thinking", API_MESSAGE_LISTS),
    LATER("reasoning", API_MESSAGE_LISTS),
    LATER("verbosity", API_MESSAGE_LISTS),
    LATER("documents", API_CHAT | API_TEMPLATE),
    BOOL("continue_final_message", API_CHAT | API_TEMPLATE, continue_final),
    BOOL("add_generation_prompt", API_CHAT | API_TEMPLATE, generate),
    BOOL("add_special", API_TOKENIZE, add_special),
    BOOL("parse_special", API_TOKENIZE, parse_special),
    /* adapters */
    TAKE("lora", API_ANSWERS | API_EMBEDDED, request_scales),
    TAKE("lora_name", API_LORA_LOAD | API_LORA_UNLOAD, request_lora_name),
    TAKE("lora_path", API_LORA_LOAD, request_lora_path),
    { "scale", API_LORA_LOAD, FIELD_NUMBER, AT(lora_scale), -1e6, 1e6, NULL },
    /* no effect on the answer */
    IDLE("user", OPENAI | API_EMBEDDED),
    IDLE("safety_identifier", API_CHAT | API_RESPONSES),
    IDLE("prompt_cache_key", API_CHAT | API_RESPONSES),
    IDLE("prompt_cache_retention", API_CHAT | API_RESPONSES),
    IDLE("prompt_cache_options", API_CHAT | API_RESPONSES),
    IDLE("cache_control", API_MESSAGES),
    IDLE("metadata", CHATS),
    IDLE("store", API_CHAT),
    IDLE("service_tier", CHATS),
    IDLE("background", API_RESPONSES),
    IDLE("truncation", API_RESPONSES),
    IDLE("prediction", API_CHAT),
    IDLE("speed", API_MESSAGES),
    IDLE("inference_geo", API_MESSAGES),
    IDLE("betas", API_MESSAGES),
    IDLE("user_profile_id", API_MESSAGES),
    IDLE("thread", API_MESSAGES),
    IDLE("request_id", API_ANSWERS),
    IDLE("add_special_tokens", API_ANSWERS | API_EMBEDDED),
    /* of other servers, without a counterpart here; reported as ignored */
    UNUSED("audio", API_CHAT),
    UNUSED("web_search_options", API_CHAT),
    UNUSED("moderation", OPENAI),
    UNUSED("max_tool_calls", API_RESPONSES),
    UNUSED("context_management", API_RESPONSES | API_MESSAGES),
    UNUSED("container", API_MESSAGES),
    UNUSED("mcp_servers", API_MESSAGES),
    UNUSED("cache_prompt", API_ANSWERS),
    UNUSED("id_slot", API_ANSWERS),
    UNUSED("n_keep", API_ANSWERS),
    UNUSED("n_discard", API_ANSWERS),
    UNUSED("n_indent", API_ANSWERS),
    UNUSED("min_keep", API_ANSWERS),
    UNUSED("num_ctx", API_ANSWERS),
    UNUSED("keep_alive", API_ANSWERS),
    UNUSED("t_max_predict_ms", API_ANSWERS),
    UNUSED("post_sampling_probs", API_ANSWERS),
    UNUSED("reasoning_format", API_ANSWERS),
    UNUSED("spaces_between_special_tokens", API_ANSWERS),
    UNUSED("prompt_logprobs", API_RESPONSES | API_MESSAGES),
    UNUSED("truncate_prompt_tokens", API_ANSWERS | API_EMBEDDED),
    UNUSED("chat_template", API_CHAT),
    UNUSED("use_beam_search", API_ANSWERS),
};
#undef REFUSED
#undef UNUSED
#undef IDLE
#undef LATER
#undef TAKE
#undef BOOL
#undef LIMIT
#undef COUNT
#undef NUMBER
#undef OPENAI
#undef CHATS
#undef TEXTS
#undef SAMPLED
#undef AT
enum { N_FIELDS = sizeof fields / sizeof *fields };

static const field *field_find(serve_api api, const char *name)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if ((fields[i].apis & (unsigned)api) && !strcmp(fields[i].name, name)) return &fields[i];
    return NULL;
}

yyjson_val *request_field(const serve_request *r, yyjson_val *root, const char *name)
{
    yyjson_val *v = field_find(r->api, name) ? yyjson_obj_get(root, name) : NULL;
    return yyjson_is_null(v) ? NULL : v;
}

static bool take_number(serve_request *r, const field *f, yyjson_val *v, serve_error *e)
{
    const bool whole = f->kind == FIELD_WHOLE || f->kind == FIELD_COUNT || f->kind == FIELD_LIMIT;
    void *to = (char *)r + f->at;
    const double x = yyjson_get_num(v);
    int64_t n = 0;
    if (f->kind == FIELD_LIMIT && yyjson_is_num(v) && (x > f->most || x < 0))
        n = x < 0 ? -1 : (int64_t)f->most;
    else if (whole ? !request_whole(v, &n) : !yyjson_is_num(v))
        return request_wrong_type(e, f->name, whole ? "a whole number" : "a number", v);
    if (f->kind != FIELD_LIMIT && !(x >= f->least && x <= f->most))
        return serve_refuse(e, 400, x < f->least ? "integer_below_min_value" : "integer_above_max_value",
                            f->name,
                            "\"%s\" is %g; the range is %g to %g", f->name, x, f->least, f->most);
    if (f->kind == FIELD_WHOLE || f->kind == FIELD_LIMIT) *(int64_t *)to = n;
    else if (f->kind == FIELD_COUNT) *(uint32_t *)to = (uint32_t)(x < 0 ? f->most : x);
    else if (f->kind == FIELD_REAL) *(float *)to = (float)x;
    else *(double *)to = x;
    return true;
}

static bool take_field(serve_request *r, const field *f, yyjson_val *v, serve_error *e)
{
    void *to = (char *)r + f->at;
    if (yyjson_is_null(v)) return true;
    switch (f->kind) {
    case FIELD_BOOL:
        if (!yyjson_is_bool(v)) return request_wrong_type(e, f->name, "true or false", v);
        *(bool *)to = yyjson_get_bool(v);
        return true;
    case FIELD_TEXT:
        return (*(const char **)to = request_text(v, f->name, e)) != NULL;
    case FIELD_OTHER:
        return f->take(r, v, f->name, e);
    default:
        return take_number(r, f, v, e);
    }
}

/* Ollama's "options", numbers only.  Read first: the request's own fields override them. */
static bool take_options(serve_request *r, yyjson_val *root, serve_error *e)
{
    static const char name[] = "options";
    size_t i, n;
    yyjson_val *key, *value, *v = request_field(r, root, name);
    if (!v) return true;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, name, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *part = unsafe_yyjson_get_str(key);
        const field *f = field_find(r->api, part);
        const bool ours = f && (f->kind != FIELD_OTHER || f->take == take_stop || f->take == take_seed)
            && f->kind != FIELD_TEXT;
        if (yyjson_is_null(value) || (ours && f->take == take_stop && yyjson_obj_get(root, part))) continue;
        if (ours ? !take_field(r, f, value, e) : !request_ignore(r, name, part, e)) return false;
    }
    return true;
}

bool request_fields(serve_request *r, yyjson_val *root, serve_error *e)
{
    bool seen[N_FIELDS] = { false };
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(root))
        return serve_refuse(e, 400, "invalid_json", NULL, "the request body must be a JSON object, not %s",
                            request_type(root));
    if (!take_options(r, root, e)) return false;
    yyjson_obj_foreach(root, i, n, key, value) {
        const field *f = field_find(r->api, unsafe_yyjson_get_str(key));
        if (!f && (yyjson_is_null(value) || yyjson_is_false(value))) continue;
        if (!f && !request_ignore(r, NULL, unsafe_yyjson_get_str(key), e)) return false;
        if (!f) continue;
        if (seen[f - fields])
            return serve_refuse(e, 400, "invalid_value", f->name, "\"%s\" occurs twice in the request body",
                                                                  f->name);
        seen[f - fields] = true;
        if (!take_field(r, f, value, e)) return false;
    }
    return true;
}

/* ---- the table for docs/serve.md ---- */

void serve_request_list(serve_text *out)
{
    static const serve_api columns[] = { API_CHAT, API_COMPLETIONS, API_RESPONSES, API_MESSAGES, API_GENERATE,
                                         API_EMBEDDINGS, API_RERANK };
    text_str(out, "| field | chat | completions | responses | messages | generate | embeddings | rerank |\n"
             "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < N_FIELDS; i++) {
        unsigned any = 0;
        size_t first = 0;
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) any |= fields[i].apis & columns[k];
        while (strcmp(fields[first].name, fields[i].name)) first++;
        if (!any || first < i) continue;
        text_format(out, "| `%s` |", fields[i].name);
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            const field *f = field_find(columns[k], fields[i].name);
            text_str(out, !f || f->take == take_unused || f->take == take_idle ? " ignored |"
                     : f->take == take_none ? " refused |" : " honoured |");
        }
        text_str(out, "\n");
    }
}
