/* Parses a request's JSON into a struct, and checks rules across fields.  The table of fields is in
 * request_fields.c.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

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
                          .n_queries = 1, .logprobs = -1, .prompt_logprobs = -1,
                          .generate = true, .parallel = true, .store = true,
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
