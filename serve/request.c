/* Parses a request's JSON into a struct: memory, prompts, and rules across fields.  The table of
 * fields is in request_fields.c.
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
    if (!p) return serve_refuse(e, 503, NULL, NULL, "out of memory for the request"), NULL;
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
    if (text->failed) serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    text_free(text);
    return kept;
}

/* ---- refusals and values ---- */

bool request_wrong_type(serve_error *e, const char *name, const char *wanted, yyjson_val *v)
{
    return serve_refuse(e, 400, "invalid_type", name, "\"%s\" must be %s, not %s", name, wanted,
                        v ? yyjson_get_type_desc(v) : "missing");
}

bool request_unsupported(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "unsupported_parameter", name, "\"%.60s\" is not supported here", name);
}

/* Names go into a header line and the log: other bytes are replaced by '_'. */
static void name_add(char *out, size_t cap, const char *name)
{
    static const char more[] = "-_.[]$@/:";
    size_t n = strlen(out);
    for (int i = 0; name[i] && i < 60 && n + 1 < cap; i++) {
        const char c = name[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        out[n++] = plain || strchr(more, c) ? c : '_';
    }
    out[n] = 0;
}

/* Whether a list "a, b" contains the name. */
static bool name_listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ',')) return true;
    return false;
}

bool request_ignore(serve_request *r, const char *where, const char *name, serve_error *e)
{
    char all[160] = "";
    if (where) name_add(all, sizeof all, where);
    if (where) name_add(all, sizeof all, ".");
    name_add(all, sizeof all, *name ? name : "_");
    if (r->strict)
        return serve_refuse(e, 400, "unsupported_parameter", all, "\"%s\" is not supported here", all);
    const size_t n = strlen(r->ignored);
    if (name_listed(r->ignored, all) || (n > 4 && !strcmp(r->ignored + n - 3, "..."))) return true;
    const bool room = n + strlen(all) + 8 < sizeof r->ignored;
    snprintf(r->ignored + n, sizeof r->ignored - n, "%s%s", n ? ", " : "", room ? all : "...");
    return true;
}

bool request_missing(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "missing_required_parameter", name, "\"%s\" is missing", name);
}

const char *request_text(yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v), NULL;
    if (strlen(yyjson_get_str(v)) == yyjson_get_len(v)) return yyjson_get_str(v);
    return serve_refuse(e, 400, "invalid_value", name, "\"%s\" contains a zero byte", name), NULL;
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
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has an invalid token id",
                                name);
        ids[i] = (int32_t)yyjson_get_uint(id);
    }
    *out = (serve_prompt){ .text = "", .ids = ids, .n_ids = n };
    return true;
}

bool request_prompts(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    static const char wanted[] = "a string, a list of strings, a list of token ids, or a list of such lists";
    yyjson_val *item = yyjson_arr_get_first(v);
    const bool list = yyjson_is_arr(v) && (!item || yyjson_is_str(item) || yyjson_is_arr(item));
    const size_t n = list ? yyjson_arr_size(v) : 1;
    if (list && !n) return serve_refuse(e, 400, "invalid_value", name, "\"%s\" is an empty list", name);
    const size_t most = r->api == API_EMBEDDINGS ? SERVE_INPUTS : SERVE_CHOICES;
    if (n > most)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu strings; the maximum is %zu", name, n, most);
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

bool request_tokens(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of token ids", v);
    if (!(r->prompts = request_alloc(r, 1, sizeof *r->prompts, e))) return false;
    r->n_prompts = 1;
    return take_ids(r, v, name, r->prompts, e);
}

bool request_content(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v);
    if (yyjson_get_len(v) > SERVE_CONTENT)
        return serve_refuse(e, 400, "string_above_max_length", name,
                            "\"%s\" has %zu bytes; the maximum is %d",
                                                                     
                            name, yyjson_get_len(v), SERVE_CONTENT);
    return request_prompts(r, v, name, e);
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
    if (!prompts && (!request_tools(r, root, e) || !request_kwargs(r, root, e))) return false;
    if (!(r->api & API_ANSWERS)) return true;
    if (!request_shape(r, root, e) || !request_logprobs(r, root, e)) return false;
    if (r->sampler.top_n_sigma < 0) r->sampler.top_n_sigma = 0;
    if (r->best_of && r->best_of < r->n)
        return serve_refuse(e, 400, "invalid_value", "best_of", "\"best_of\" is %lld, less than \"n\", %lld",
                            (long long)r->best_of, (long long)r->n);
    if (r->best_of > r->n && (r->stream || r->beam_width > 1))
        return serve_refuse(e, 400, "invalid_value", "best_of", "\"best_of\" cannot be combined with \"%s\"",
                            r->stream ? "stream" : "beam_width");
    if (r->beam_width > 1 && (r->n_biases || r->n_bans))
        return serve_refuse(e, 400, "unsupported_parameter", "beam_width",
                            "\"beam_width\" cannot be combined with biases and banned strings");
    if (serve_request_each(r) * (r->n_prompts ? r->n_prompts : 1) > SERVE_CHOICES)
        return serve_refuse(e, 400, "integer_above_max_value", "n",
                            "%u answers to each of %zu prompts; the maximum is %d answers",
                            serve_request_each(r), r->n_prompts, SERVE_CHOICES);
    return true;
}

bool serve_request_read(serve_request *r, serve_api api, const char *text, size_t len,
                        const serve_defaults *d, serve_error *e)
{
    yyjson_read_err err;
    *e = (serve_error){ 0 };
    const serve_api of = api == API_COUNT ? API_MESSAGES : api == API_COUNT_CHAT ? API_CHAT
                         : api == API_COUNT_RESPONSES ? API_RESPONSES : api;
    *r = (serve_request){ .api = of, .counts = api != of,
                          .max_tokens = d->max_tokens, .n = 1, .length_penalty = 1, .lora_scale = 1,
                          .n_queries = 1, .logprobs = -1, .generate = true, .parallel = true, .store = true,
                          .strict = d->strict, .kept = d->kept, .key = d->key, .sampler = d->sampler,
                          .seed = (int64_t)d->sampler.seed, .seeded = d->sampler.seed != 0,
                          .reasoning_budget = d->reasoning_budget, .prepare = d->prepare, .user = d->user };
    r->sampler.seed = 0;
    if (api == API_COMPLETIONS) r->max_tokens = 16;
    if (too_deep(text, len))
        return serve_refuse(e, 400, "invalid_json", NULL, "the request body nests deeper than %d levels",
                                                          SERVE_DEPTH);
    r->doc = yyjson_read_opts((char *)(size_t)text, len, 0, NULL, &err);
    if (!r->doc)
        return serve_refuse(e, 400, "invalid_json", NULL,
                            "the request body is not valid JSON: %s at byte %zu",
                                                          err.msg,
                            err.pos);
    yyjson_val *root = yyjson_doc_get_root(r->doc);
    if (request_fields(r, root, e) && request_together(r, root, e) && request_default_kwargs(r, d->kwargs, e))
        return true;
    serve_request_free(r);
    return false;
}
