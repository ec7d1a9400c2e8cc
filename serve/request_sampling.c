/* Sampling parameters that are not numbers: biases, strings, the order of samplers.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- biases ---- */

static bool bias_add(serve_request *r, long long token, yyjson_val *v, const char *name, serve_error *e)
{
    const double bias = yyjson_is_false(v) ? -INFINITY : yyjson_get_num(v);
    if (!yyjson_is_num(v) && !yyjson_is_false(v)) return request_wrong_type(e, name, "one of numbers", v);
    if (token < 0 || token > INT32_MAX)
        return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has an invalid token id", name);
    if (isnan(bias) || bias > 1e9)
        return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has an invalid bias, %g", name, bias);
    r->biases[r->n_biases++] = (qsf_logit_bias){ (int32_t)token, (float)bias };
    return true;
}

/* {"id": bias}, or llama-server's [[id, bias], ...], where false forbids a token. */
bool request_biases(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *key, *value;
    const bool list = yyjson_is_arr(v);
    const size_t count = list ? yyjson_arr_size(v) : yyjson_obj_size(v);
    if (request_is_empty(v)) return true;
    if (!list && !yyjson_is_obj(v)) return request_wrong_type(e, name, "an object of biases by token", v);
    if (count > SERVE_BIASES)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu biases; the maximum is %d",
                                                                    
                            name, count, SERVE_BIASES);
    if (count && !(r->biases = request_alloc(r, count, sizeof *r->biases, e))) return false;
    if (list) {
        yyjson_arr_foreach(v, i, n, value) {
            yyjson_val *id = yyjson_arr_get(value, 0), *bias = yyjson_arr_get(value, 1);
            if (yyjson_arr_size(value) != 2 || !yyjson_is_int(id))
                return request_wrong_type(e, name, "a list of [token id, bias]", value);
            if (!bias_add(r, yyjson_is_uint(id) && yyjson_get_uint(id) > INT32_MAX ? -1 : yyjson_get_sint(id),
                          bias, name, e)) return false;
        }
        return true;
    }
    yyjson_obj_foreach(v, i, n, key, value) {
        char *end;
        const char *text = unsafe_yyjson_get_str(key);
        const long long id = strtoll(text, &end, 10);
        if (!*text || *end)
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has the key \"%.40s\", which is not a "
                                "token id", name, text);
        if (!bias_add(r, id, value, name, e)) return false;
    }
    return true;
}

/* ---- texts ---- */

static bool texts_read(serve_request *r, yyjson_val *v, const char *name, serve_words **out, size_t *n_out,
                       serve_error *e)
{
    size_t i, n;
    yyjson_val *text;
    if (request_is_empty(v)) return true;
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of strings", v);
    if (yyjson_arr_size(v) > SERVE_TEXTS)
        return serve_refuse(e, 400, "array_above_max_length", name, "\"%s\" has %zu strings; the maximum is "
                                                                    "%d",
                            name, yyjson_arr_size(v), SERVE_TEXTS);
    if (!(*out = request_alloc(r, yyjson_arr_size(v), sizeof **out, e))) return false;
    yyjson_arr_foreach(v, i, n, text) {
        const size_t len = yyjson_get_len(text);
        if (!yyjson_is_str(text)) return request_wrong_type(e, name, "a list of strings", text);
        if (!len || len > 1024)
            return serve_refuse(e, 400, "invalid_value", name,
                                "\"%s\" has a string of %zu bytes; the range is 1 to 1024", name, len);
        (*out)[(*n_out)++] = (serve_words){ yyjson_get_str(text), len };
    }
    return true;
}

bool request_bans(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    return texts_read(r, v, name, &r->bans, &r->n_bans, e);
}

bool request_breakers(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    r->own_breakers = true;
    return texts_read(r, v, name, &r->breakers, &r->n_breakers, e);
}

/* ---- the order of samplers ---- */

/* Adds stages to the order; one that the library lacks is ignored. */
static bool samplers_add(serve_request *r, const char *text, const char *name, serve_error *e)
{
    qsf_sampler_options one;
    qsf_sampler_defaults(&one);
    if (qsf_sampler_set(&one, name, text, NULL)) return request_ignore(r, name, text, e);
    const size_t have = strlen(r->sampler.samplers), more = strlen(one.samplers);
    if (have + more >= sizeof one.samplers)
        return serve_refuse(e, 400, "array_above_max_length", name, "\"%s\" has more than %d stages", name,
                            QSF_SAMPLER_ORDER - 1);
    memcpy(r->sampler.samplers + have, one.samplers, more + 1);
    return true;
}

/* A list of names, or a string of letters. */
bool request_samplers(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *item;
    const char *text;
    const bool list = yyjson_is_arr(v);
    if (request_is_empty(v) || (yyjson_is_str(v) && !yyjson_get_len(v))) return true;
    if (!list && !yyjson_is_str(v)) return request_wrong_type(e, name, "a list of names or a string", v);
    if (!list) {
        if (!(text = request_text(v, name, e))) return false;
        if (!qsf_sampler_set(&r->sampler, name, text, NULL)) return true;
    }
    r->sampler.samplers[0] = 0;
    for (i = 0; !list && text[i]; i++) {
        const char letter[2] = { text[i], 0 };
        if (!samplers_add(r, letter, name, e)) return false;
    }
    if (list) yyjson_arr_foreach(v, i, n, item)
        if (!(text = request_text(item, name, e)) || !samplers_add(r, text, name, e)) return false;
    return true;
}
