/* A request's JSON as a struct.  One table names all fields: of which interface they are, what they
 * may be and where they go.  A field that is not in the table is refused by name.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool serve_refuse(serve_error *e, int status, const char *code, const char *param, const char *format, ...)
{
    va_list args;
    if (e->status) return false;
    e->status = status;
    e->code = code;
    e->type = status == 401 ? "authentication_error" : status == 403 ? "permission_error"
              : status == 404 ? "not_found_error" : status == 429 ? "rate_limit_error"
              : status == 503 ? "overloaded_error" : status >= 500 ? "server_error" : "invalid_request_error";
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return false;
}

/* ---- memory of a request ---- */

typedef struct owned_piece { struct owned_piece *next; } owned_piece;

void *request_alloc(serve_request *r, size_t n, size_t size, serve_error *e)
{
    owned_piece *p = n > SIZE_MAX / 2 / size ? NULL : calloc(1, sizeof *p + n * size + 16);
    if (!p) return serve_refuse(e, 503, NULL, NULL, "there is no memory for the request"), NULL;
    p->next = r->owned;
    r->owned = p;
    return p + 1;
}

void serve_request_free(serve_request *r)
{
    for (owned_piece *p = r->owned, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    yyjson_doc_free(r->doc);
    r->owned = r->doc = NULL;
}

const char *request_keep(serve_request *r, serve_text *text, serve_error *e)
{
    char *kept = text->failed ? NULL : request_alloc(r, text->len + 1, 1, e);
    if (kept && text->len) memcpy(kept, text->bytes, text->len);
    if (text->failed) serve_refuse(e, 503, NULL, NULL, "there is no memory for the request");
    text_free(text);
    return kept;
}

/* ---- fields ---- */

typedef struct field field;
typedef bool (*field_fn)(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
/* COUNT: uint32_t, where -1 is the most; REAL: float. */
typedef enum field_kind { FIELD_BOOL, FIELD_WHOLE, FIELD_COUNT, FIELD_NUMBER, FIELD_REAL, FIELD_TEXT,
                          FIELD_OTHER } field_kind;
struct field {
    const char *name;
    unsigned    apis;
    field_kind  kind;
    size_t      at;
    double      least, most;
    field_fn    take;
};

bool request_wrong_type(serve_error *e, const char *name, const char *wanted, yyjson_val *v)
{
    return serve_refuse(e, 400, "invalid_type", name, "\"%s\" has to be %s, not %s", name, wanted,
                        v ? yyjson_get_type_desc(v) : "missing");
}

bool request_unsupported(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "unsupported_parameter", name, "\"%.60s\" is not supported here", name);
}

bool request_missing(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "missing_required_parameter", name, "\"%s\" is missing", name);
}

const char *request_text(yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a text", v), NULL;
    if (strlen(yyjson_get_str(v)) == yyjson_get_len(v)) return yyjson_get_str(v);
    return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has a zero byte in it", name), NULL;
}

void request_json(serve_text *out, yyjson_val *v)
{
    size_t len;
    char *json = yyjson_val_write(v, 0, &len);
    if (json) text_add(out, json, len);
    else out->failed = true;
    free(json);
}

bool request_is_empty(yyjson_val *v)
{
    return yyjson_is_null(v) || yyjson_is_false(v) || ((yyjson_is_arr(v) || yyjson_is_obj(v))
                                                       && !unsafe_yyjson_get_len(v));
}

/* Changes no answer: any value is taken. */
static bool take_any(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r, (void)name, (void)v, (void)e;
    return true;
}
/* Would change an answer. */
static bool take_none(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r;
    return request_is_empty(v) || request_unsupported(e, name);
}

static bool take_stop(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    const size_t n = yyjson_is_arr(v) ? yyjson_arr_size(v) : 1;
    if (n > SERVE_STOPS - 2)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu texts; %d are possible",
                            name, n, SERVE_STOPS - 2);
    yyjson_val *stop = yyjson_is_arr(v) ? yyjson_arr_get_first(v) : v;
    for (size_t i = 0; i < n; i++, stop = unsafe_yyjson_get_next(stop)) {
        if (!yyjson_is_str(stop)) return request_wrong_type(e, name, "a text or a list of texts", stop);
        const size_t len = yyjson_get_len(stop);
        if (!len || len > 4096)
            return serve_refuse(e, 400, "invalid_value", name,
                                "\"%s\" has a text of %zu bytes; 1 to 4096 are possible", name, len);
        r->stops[r->n_stops] = yyjson_get_str(stop);
        r->stop_lengths[r->n_stops++] = len;
    }
    return true;
}

static bool take_stream_options(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(v)) return request_wrong_type(e, name, "an object", v);
    yyjson_obj_foreach(v, i, n, key, value) {
        const char *part = unsafe_yyjson_get_str(key);
        if (!strcmp(part, "include_usage")) {
            if (!yyjson_is_bool(value))
                return request_wrong_type(e, "stream_options.include_usage", "true or false", value);
            r->usage = yyjson_get_bool(value);
        } else if (strcmp(part, "include_obfuscation")) {
            return request_unsupported(e, "stream_options");
        }
    }
    return true;
}

static bool take_seed(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_int(v)) return request_wrong_type(e, name, "a whole number", v);
    r->seed = yyjson_get_sint(v);
    return r->seeded = true;
}

/* ---- prompts ---- */

static bool take_ids(serve_request *r, yyjson_val *v, const char *name, serve_prompt *out,
                     serve_error *e)
{
    const size_t n = yyjson_arr_size(v);
    int32_t *ids = request_alloc(r, n, sizeof *ids, e);
    if (!ids) return false;
    yyjson_val *id = yyjson_arr_get_first(v);
    for (size_t i = 0; i < n; i++, id = unsafe_yyjson_get_next(id)) {
        if (!yyjson_is_int(id)) return request_wrong_type(e, name, "a list of token ids", id);
        if (!yyjson_is_uint(id) || yyjson_get_uint(id) > INT32_MAX)
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has a token id that is none",
                                name);
        ids[i] = (int32_t)yyjson_get_uint(id);
    }
    *out = (serve_prompt){ .text = "", .ids = ids, .n_ids = n };
    return true;
}

bool request_prompts(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    static const char wanted[] = "a text, a list of texts, a list of token ids, or a list of such lists";
    yyjson_val *item = yyjson_arr_get_first(v);
    const bool list = yyjson_is_arr(v) && (!item || yyjson_is_str(item) || yyjson_is_arr(item));
    const size_t n = list ? yyjson_arr_size(v) : 1;
    if (list && !n) return serve_refuse(e, 400, "invalid_value", name, "\"%s\" is an empty list", name);
    const size_t most = r->api == API_EMBEDDINGS ? SERVE_INPUTS : SERVE_CHOICES;
    if (n > most)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu texts; %zu are possible", name, n, most);
    if (!(r->prompts = request_alloc(r, n, sizeof *r->prompts, e))) return false;
    if (!list) item = v;
    for (r->n_prompts = 0; r->n_prompts < n; r->n_prompts++, item = unsafe_yyjson_get_next(item)) {
        serve_prompt *p = &r->prompts[r->n_prompts];
        if (yyjson_is_str(item))
            *p = (serve_prompt){ .text = yyjson_get_str(item), .len = yyjson_get_len(item) };
        else if (!yyjson_is_arr(item)) return request_wrong_type(e, name, wanted, item);
        else if (!take_ids(r, item, name, p, e)) return false;
    }
    return true;
}

static bool take_tokens(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of token ids", v);
    if (!(r->prompts = request_alloc(r, 1, sizeof *r->prompts, e))) return false;
    r->n_prompts = 1;
    return take_ids(r, v, name, r->prompts, e);
}

static bool take_suffix(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (request_is_empty(v)) return true;
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a text", v);
    r->suffix = (serve_words){ yyjson_get_str(v), yyjson_get_len(v) };
    return true;
}

static bool take_content(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a text", v);
    if (yyjson_get_len(v) > SERVE_CONTENT)
        return serve_refuse(e, 400, "string_above_max_length", name, "\"%s\" has %zu bytes; %d are possible",
                            name, yyjson_get_len(v), SERVE_CONTENT);
    return request_prompts(r, v, name, e);
}

#define AT(member) offsetof(serve_request, member)
#define SAMPLED API_ANSWERS
#define TEXTS (API_COMPLETIONS | API_GENERATE)
#define FREE (API_CHAT | TEXTS)
#define NUMBER(name, member, least, most) { name, SAMPLED, FIELD_REAL, AT(sampler.member), least, most, NULL }
#define COUNT(name, member, least, most) { name, SAMPLED, FIELD_COUNT, AT(sampler.member), least, most, NULL }
/* Read together with others, behind the table. */
#define LATER(name, apis) { name, apis, FIELD_OTHER, 0, 0, 0, take_any }
static const field fields[] = {
    { "model", ~0u, FIELD_TEXT, AT(model), 0, 0, NULL },
    { "prompt", TEXTS, FIELD_OTHER, 0, 0, 0, request_prompts },
    { "content", API_TOKENIZE, FIELD_OTHER, 0, 0, 0, take_content },
    { "tokens", API_DETOKENIZE, FIELD_OTHER, 0, 0, 0, take_tokens },
    { "input", API_EMBEDDINGS, FIELD_OTHER, 0, 0, 0, request_prompts },
    { "encoding_format", API_EMBEDDINGS, FIELD_OTHER, 0, 0, 0, request_encoding },
    { "dimensions", API_EMBEDDINGS, FIELD_WHOLE, AT(dimensions), 1, 1 << 20, NULL },
    { "query", API_RERANK, FIELD_OTHER, 0, 0, 0, request_query },
    { "documents", API_RERANK, FIELD_OTHER, 0, 0, 0, request_documents },
    { "top_n", API_RERANK, FIELD_WHOLE, AT(top_n), 1, 1e9, NULL },
    { "return_documents", API_RERANK, FIELD_BOOL, AT(documents), 0, 0, NULL },
    LATER("messages", API_CHAT | API_MESSAGES | API_TEMPLATE),
    LATER("input", API_RESPONSES),
    LATER("system", API_MESSAGES),
    LATER("instructions", API_RESPONSES),
    { "max_tokens", API_COMPLETIONS | API_CHAT | API_MESSAGES | API_GENERATE, FIELD_WHOLE, AT(max_tokens), 0,
      1e9, NULL },
    { "max_completion_tokens", API_CHAT, FIELD_WHOLE, AT(max_tokens), 0, 1e9, NULL },
    { "max_output_tokens", API_RESPONSES, FIELD_WHOLE, AT(max_tokens), 0, 1e9, NULL },
    { "n_predict", API_GENERATE, FIELD_WHOLE, AT(max_tokens), -1, 1e9, NULL },
    { "min_tokens", SAMPLED, FIELD_WHOLE, AT(min_tokens), 0, 1e9, NULL },
    NUMBER("temperature", temperature, 0, 100),
    NUMBER("top_p", top_p, 0, 1),
    COUNT("top_k", top_k, -1, 1e9),
    NUMBER("min_p", min_p, 0, 1),
    NUMBER("typical_p", typical_p, 0, 1),
    NUMBER("top_n_sigma", top_n_sigma, -1, 100),
    NUMBER("repeat_penalty", repeat_penalty, 0.01, 100),
    NUMBER("repetition_penalty", repeat_penalty, 0.01, 100),
    COUNT("repeat_last_n", repeat_last_n, -1, 1 << 20),
    NUMBER("frequency_penalty", frequency_penalty, -2, 2),
    NUMBER("presence_penalty", presence_penalty, -2, 2),
    NUMBER("dry_multiplier", dry_multiplier, 0, 100),
    NUMBER("dry_base", dry_base, 1, 10),
    COUNT("dry_allowed_length", dry_allowed_length, 1, 1 << 20),
    COUNT("dry_penalty_last_n", dry_last_n, -1, 1 << 20),
    { "dry_sequence_breakers", SAMPLED, FIELD_OTHER, 0, 0, 0, request_breakers },
    NUMBER("xtc_probability", xtc_probability, 0, 1),
    NUMBER("xtc_threshold", xtc_threshold, 0, 1),
    NUMBER("dynatemp_range", dynatemp_range, 0, 1000),
    NUMBER("dynatemp_exponent", dynatemp_exponent, 0, 100),
    COUNT("mirostat", mirostat, 0, 2),
    NUMBER("mirostat_tau", mirostat_tau, 0, 100),
    NUMBER("mirostat_eta", mirostat_eta, 0, 1),
    { "bad_words", SAMPLED, FIELD_OTHER, 0, 0, 0, request_bans },
    { "seed", SAMPLED, FIELD_OTHER, 0, 0, 0, take_seed },
    { "stop", FREE, FIELD_OTHER, 0, 0, 0, take_stop },
    { "stop_sequences", API_MESSAGES, FIELD_OTHER, 0, 0, 0, take_stop },
    { "n", FREE, FIELD_WHOLE, AT(n), 1, SERVE_CHOICES, NULL },
    { "best_of", TEXTS, FIELD_WHOLE, AT(best_of), 1, SERVE_CHOICES, NULL },
    { "stream", API_ANSWERS, FIELD_BOOL, AT(stream), 0, 0, NULL },
    { "stream_options", FREE, FIELD_OTHER, 0, 0, 0, take_stream_options },
    { "echo", API_COMPLETIONS, FIELD_BOOL, AT(echo), 0, 0, NULL },
    { "suffix", API_COMPLETIONS, FIELD_OTHER, 0, 0, 0, take_suffix },
    { "ignore_eos", API_ANSWERS, FIELD_BOOL, AT(ignore_end), 0, 0, NULL },
    { "priority", API_ANSWERS, FIELD_WHOLE, AT(priority), -100, 100, NULL },
    { "session_id", API_ANSWERS, FIELD_TEXT, AT(session), 0, 0, NULL },
    { "timeout", API_ANSWERS | API_EMBEDDED, FIELD_NUMBER, AT(timeout), 0, 1e6, NULL },
    { "beam_width", TEXTS, FIELD_WHOLE, AT(beam_width), 0, 16, NULL },
    { "length_penalty", TEXTS, FIELD_NUMBER, AT(length_penalty), -10, 10, NULL },
    LATER("logprobs", FREE),
    LATER("top_logprobs", API_CHAT | API_RESPONSES),
    LATER("include", API_RESPONSES),
    { "logit_bias", SAMPLED, FIELD_OTHER, 0, 0, 0, request_biases },
    LATER("response_format", FREE),
    LATER("output_format", API_MESSAGES),
    LATER("output_config", API_MESSAGES),
    LATER("text", API_RESPONSES),
    LATER("json_schema", FREE),
    LATER("grammar", SAMPLED),
    LATER("regex", SAMPLED),
    LATER("choices", SAMPLED),
    LATER("guided_json", FREE),
    LATER("guided_regex", FREE),
    LATER("guided_choice", FREE),
    LATER("guided_grammar", FREE),
    LATER("structured_outputs", FREE),
    LATER("tools", API_MESSAGE_LISTS),
    LATER("tool_choice", API_CHAT | API_RESPONSES | API_MESSAGES),
    { "functions", API_CHAT, FIELD_OTHER, 0, 0, 0, take_none },
    { "function_call", API_CHAT, FIELD_OTHER, 0, 0, 0, take_none },
    { "lora", API_ANSWERS | API_EMBEDDED, FIELD_OTHER, 0, 0, 0, request_scales },
    { "lora_name", API_LORA_LOAD | API_LORA_UNLOAD, FIELD_OTHER, 0, 0, 0, request_lora_name },
    { "lora_path", API_LORA_LOAD, FIELD_OTHER, 0, 0, 0, request_lora_path },
    { "scale", API_LORA_LOAD, FIELD_NUMBER, AT(lora_scale), -1e6, 1e6, NULL },
    { "parallel_tool_calls", API_CHAT | API_RESPONSES, FIELD_BOOL, AT(parallel), 0, 0, NULL },
    LATER("chat_template_kwargs", API_MESSAGE_LISTS),
    LATER("reasoning_effort", API_CHAT | API_TEMPLATE),
    LATER("enable_thinking", API_CHAT | API_TEMPLATE),
    LATER("reasoning", API_RESPONSES),
    LATER("thinking", API_MESSAGES),
    { "continue_final_message", API_CHAT | API_TEMPLATE, FIELD_BOOL, AT(continue_final), 0, 0, NULL },
    { "user", API_COMPLETIONS | API_CHAT | API_RESPONSES | API_EMBEDDED, FIELD_OTHER, 0, 0, 0, take_any },
    { "safety_identifier", API_CHAT | API_RESPONSES, FIELD_OTHER, 0, 0, 0, take_any },
    { "prompt_cache_key", API_CHAT | API_RESPONSES, FIELD_OTHER, 0, 0, 0, take_any },
    { "prompt_cache_retention", API_CHAT | API_RESPONSES, FIELD_OTHER, 0, 0, 0, take_any },
    { "cache_control", API_MESSAGES, FIELD_OTHER, 0, 0, 0, take_any },
    { "metadata", API_CHAT | API_RESPONSES | API_MESSAGES, FIELD_OTHER, 0, 0, 0, take_any },
    { "store", API_CHAT | API_RESPONSES, FIELD_OTHER, 0, 0, 0, take_any },
    { "service_tier", API_CHAT | API_RESPONSES | API_MESSAGES, FIELD_OTHER, 0, 0, 0, take_any },
    { "add_special", API_TOKENIZE, FIELD_BOOL, AT(add_special), 0, 0, NULL },
    { "parse_special", API_TOKENIZE, FIELD_BOOL, AT(parse_special), 0, 0, NULL },
    { "add_generation_prompt", API_CHAT | API_TEMPLATE, FIELD_BOOL, AT(generate), 0, 0, NULL },
};
#undef LATER
#undef COUNT
#undef NUMBER
#undef FREE
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

static bool take_number(serve_request *r, const field *f, yyjson_val *v, serve_error *e)
{
    const double x = yyjson_get_num(v);
    const bool whole = f->kind == FIELD_WHOLE || f->kind == FIELD_COUNT;
    void *to = (char *)r + f->at;
    if (whole ? !yyjson_is_int(v) : !yyjson_is_num(v))
        return request_wrong_type(e, f->name, whole ? "a whole number" : "a number", v);
    if (!(x >= f->least && x <= f->most))
        return serve_refuse(e, 400, x < f->least ? "integer_below_min_value" : "integer_above_max_value",
                            f->name,
                            "\"%s\" is %g; %g to %g are possible", f->name, x, f->least, f->most);
    if (f->kind == FIELD_WHOLE) *(int64_t *)to = yyjson_get_sint(v);
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

/* ---- the whole ---- */

/* Whether brackets nest deeper than any request needs. */
static bool too_deep(const char *text, size_t len)
{
    size_t depth = 0;
    bool inside = false;
    for (size_t i = 0; i < len; i++) {
        if (inside) {
            if (text[i] == '\\') i++;
            else inside = text[i] != '"';
        } else if (text[i] == '"') {
            inside = true;
        } else if (text[i] == '[' || text[i] == '{') {
            if (++depth > SERVE_DEPTH) return true;
        } else if ((text[i] == ']' || text[i] == '}') && depth) {
            depth--;
        }
    }
    return false;
}

/* What several fields say together. */
static bool request_together(serve_request *r, yyjson_val *root, serve_error *e)
{
    const bool prompts = r->api & (API_COMPLETIONS | API_GENERATE | API_TOKENIZE | API_DETOKENIZE
                                   | API_EMBEDDED);
    const char *needs = r->api == API_TOKENIZE ? "content" : r->api == API_DETOKENIZE ? "tokens"
                        : r->api == API_EMBEDDINGS ? "input" : "prompt";
    if (r->api == API_RERANK) return request_rerank(r, root, e);
    if (r->api & (API_LORA_LOAD | API_LORA_UNLOAD)) {
        if (!r->lora_name) return request_missing(e, "lora_name");
        return r->api == API_LORA_UNLOAD || r->lora_path || request_missing(e, "lora_path");
    }
    if (prompts ? !r->prompts : !request_messages(r, root, e)) return request_missing(e, needs);
    if (r->api == API_MESSAGES && r->max_tokens < 0) return request_missing(e, "max_tokens");
    if (!prompts && (!request_tools(r, root, e) || !request_kwargs(r, root, e))) return false;
    if (!(r->api & API_ANSWERS)) return true;
    if (!request_shape(r, root, e) || !request_logprobs(r, root, e)) return false;
    if (r->sampler.top_n_sigma < 0) r->sampler.top_n_sigma = 0;
    if (r->best_of && r->best_of < r->n)
        return serve_refuse(e, 400, "invalid_value", "best_of", "\"best_of\" is %lld, \"n\" %lld",
                            (long long)r->best_of, (long long)r->n);
    if (r->best_of > r->n && (r->stream || r->beam_width > 1))
        return serve_refuse(e, 400, "invalid_value", "best_of", "\"best_of\" does not go with \"%s\"",
                            r->stream ? "stream" : "beam_width");
    if (r->beam_width > 1 && (r->n_biases || r->n_bans))
        return serve_refuse(e, 400, "unsupported_parameter", "beam_width",
                            "\"beam_width\" does not go with biases and banned texts");
    if (serve_request_each(r) * (r->n_prompts ? r->n_prompts : 1) > SERVE_CHOICES)
        return serve_refuse(e, 400, "integer_above_max_value", "n",
                            "%u answers to each of %zu prompts; %d answers are possible",
                            serve_request_each(r), r->n_prompts, SERVE_CHOICES);
    return true;
}

static bool read_fields(serve_request *r, yyjson_val *root, serve_error *e)
{
    bool seen[N_FIELDS] = { false };
    size_t i, n;
    yyjson_val *key, *value;
    if (!yyjson_is_obj(root))
        return serve_refuse(e, 400, "invalid_json", NULL, "the body has to be a JSON object, not %s",
                            yyjson_get_type_desc(root));
    yyjson_obj_foreach(root, i, n, key, value) {
        const field *f = field_find(r->api, yyjson_get_str(key));
        if (!f && (yyjson_is_null(value) || yyjson_is_false(value))) continue;
        if (!f) return request_unsupported(e, yyjson_get_str(key));
        if (seen[f - fields])
            return serve_refuse(e, 400, "invalid_value", f->name, "\"%s\" stands twice in the body", f->name);
        seen[f - fields] = true;
        if (!take_field(r, f, value, e)) return false;
    }
    return request_together(r, root, e);
}

bool serve_request_read(serve_request *r, serve_api api, const char *text, size_t len,
                        const serve_defaults *d, serve_error *e)
{
    yyjson_read_err err;
    *e = (serve_error){ 0 };
    *r = (serve_request){ .api = api == API_COUNT ? API_MESSAGES : api, .counts = api == API_COUNT,
                          .max_tokens = d->max_tokens, .n = 1, .length_penalty = 1, .lora_scale = 1,
                          .logprobs = -1, .generate = true, .parallel = true };
    r->defaults = d;
    r->sampler = d->sampler;
    r->sampler.seed = 0;
    r->seed = (int64_t)d->sampler.seed;
    r->seeded = d->sampler.seed != 0;
    r->reasoning_budget = d->reasoning_budget;
    if (api == API_COMPLETIONS) r->max_tokens = 16;
    if (r->api == API_MESSAGES) r->max_tokens = r->counts ? 0 : -1;
    if (too_deep(text, len))
        return serve_refuse(e, 400, "invalid_json", NULL, "the body nests deeper than %d", SERVE_DEPTH);
    r->doc = yyjson_read_opts((char *)(size_t)text, len, 0, NULL, &err);
    if (!r->doc)
        return serve_refuse(e, 400, "invalid_json", NULL, "the body is no JSON: %s at byte %zu", err.msg,
                            err.pos);
    if (read_fields(r, yyjson_doc_get_root(r->doc), e) && request_default_kwargs(r, d->kwargs, e))
        return true;
    serve_request_free(r);
    return false;
}
