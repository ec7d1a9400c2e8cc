/* The fields of requests for embeddings and for reranking.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

bool request_encoding(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v);
    r->base64 = yyjson_equals_str(v, "base64");
    if (r->base64 || yyjson_equals_str(v, "float")) return true;
    return serve_refuse(e, 400, "invalid_value", name, "\"%s\" is \"%.40s\"; it must be float or base64",
                        name, yyjson_get_str(v));
}

/* A document is a string, or an object that has one. */
static yyjson_val *document_text(yyjson_val *v)
{
    return yyjson_is_obj(v) ? yyjson_obj_get(v, "text") : v;
}

static void take_text(serve_prompt *to, yyjson_val *v)
{
    *to = (serve_prompt){ .text = yyjson_get_str(v), .len = yyjson_get_len(v) };
}

bool request_query(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    (void)r;
    return yyjson_is_str(v) || request_wrong_type(e, name, "a string", v);
}

/* One query for all documents, or one per document (vLLM's pair scores). */
bool request_queries(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *item;
    (void)r;
    if (yyjson_is_str(v)) return true;
    if (!yyjson_is_arr(v) || !yyjson_arr_size(v))
        return request_wrong_type(e, name, "a string or a list of strings", v);
    yyjson_arr_foreach(v, i, n, item)
        if (!yyjson_is_str(item)) return request_wrong_type(e, name, "a string or a list of strings", item);
    return true;
}

bool request_documents(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    const size_t n = yyjson_arr_size(v);
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of strings", v);
    if (!n) return serve_refuse(e, 400, "invalid_value", name, "\"%s\" is an empty list", name);
    if (n >= SERVE_INPUTS)
        return serve_refuse(e, 400, "array_above_max_length", name, "\"%s\" has %zu strings; the maximum is "
                                                                    "%d",
                            name, n, SERVE_INPUTS - 1);
    if (!(r->prompts = request_alloc(r, n + 1, sizeof *r->prompts, e))) return false;
    yyjson_val *item = yyjson_arr_get_first(v);
    for (size_t i = 0; i < n; i++, item = unsafe_yyjson_get_next(item)) {
        yyjson_val *text = document_text(item);
        if (!yyjson_is_str(text))
            return request_wrong_type(e, name, "a list of strings, or of objects with \"text\"", text);
        take_text(&r->prompts[1 + i], text);
    }
    r->n_prompts = 1 + n;
    return true;
}

/* Puts the queries before the n documents, which so far follow room for one query. */
static bool queries_place(serve_request *r, yyjson_val *list, serve_error *e)
{
    const size_t n = r->n_prompts - 1, many = yyjson_is_arr(list) ? yyjson_arr_size(list) : 1;
    serve_prompt *all = r->prompts;
    yyjson_val *item = yyjson_is_arr(list) ? yyjson_arr_get_first(list) : list;
    if (many != 1 && many != n)
        return serve_refuse(e, 400, "invalid_value", "queries", "%zu first and %zu second texts; give one "
                            "first text, or as many as second texts", many, n);
    if (many + n > SERVE_INPUTS)
        return serve_refuse(e, 400, "array_above_max_length", "queries", "%zu texts; the maximum is %d",
                            many + n, SERVE_INPUTS);
    if (many > 1 && !(all = request_alloc(r, many + n, sizeof *all, e))) return false;
    if (many > 1) memcpy(all + many, r->prompts + 1, n * sizeof *all);
    for (size_t i = 0; i < many; i++, item = unsafe_yyjson_get_next(item)) take_text(&all[i], item);
    r->prompts = all;
    r->n_queries = many;
    r->n_prompts = many + n;
    return true;
}

bool request_rerank(serve_request *r, yyjson_val *root, serve_error *e)
{
    yyjson_val *query = yyjson_obj_get(root, "query"), *queries = yyjson_obj_get(root, "queries");
    if (!query || yyjson_is_null(query)) query = queries;
    if (!query || yyjson_is_null(query)) return request_missing(e, "query");
    if (!r->prompts) return request_missing(e, "documents");
    return queries_place(r, query, e);
}
