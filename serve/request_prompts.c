/* The prompts of a request: strings, or token ids.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

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

bool request_tokens(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of token ids", v);
    if (!(r->prompts = request_alloc(r, 1, sizeof *r->prompts, e))) return false;
    r->n_prompts = 1;
    return take_ids(r, v, name, r->prompts, e);
}

bool request_content(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a text", v);
    if (yyjson_get_len(v) > SERVE_CONTENT)
        return serve_refuse(e, 400, "string_above_max_length", name, "\"%s\" has %zu bytes; %d are possible",
                            name, yyjson_get_len(v), SERVE_CONTENT);
    return request_prompts(r, v, name, e);
}
