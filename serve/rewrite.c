/* Helpers shared by the rewriters: reading an object, writing another one.
 * SPDX-License-Identifier: MIT */
#include "rewrite_own.h"

#include <string.h>

yyjson_val *rewrite_begin(const char *text, size_t len, yyjson_doc **doc, serve_rewritten *out,
                          serve_error *e)
{
    yyjson_read_err err;
    *doc = yyjson_read_opts((char *)(size_t)text, len, 0, NULL, &err);
    yyjson_val *root = yyjson_doc_get_root(*doc);
    if (!*doc)
        serve_refuse(e, 400, "invalid_json", NULL, "the request body is not valid JSON: %s at byte %zu",
                                                   err.msg,
                     err.pos);
    else if (!yyjson_is_obj(root))
        serve_refuse(e, 400, "invalid_json", NULL, "the request body must be a JSON object, not %s",
                     request_type(root));
    text_str(&out->json, "{");
    return yyjson_is_obj(root) ? root : NULL;
}

bool rewrite_end(yyjson_doc *doc, serve_rewritten *out, bool ok, serve_error *e)
{
    text_str(&out->json, "}");
    yyjson_doc_free(doc);
    if (ok && out->json.failed) serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    return ok && !out->json.failed;
}

void rewrite_name(serve_text *out, const char *name)
{
    const char last = out->len ? out->bytes[out->len - 1] : '{';
    if (last != '{' && last != '[') text_str(out, ",");
    text_json_str(out, name);
    text_str(out, ":");
}

void rewrite_value(serve_text *out, const char *name, yyjson_val *v)
{
    if (!v || yyjson_is_null(v)) return;
    rewrite_name(out, name);
    request_json(out, v);
}

void rewrite_text(serve_text *out, const char *name, const char *text)
{
    rewrite_name(out, name);
    text_json_str(out, text);
}

void rewrite_rest(serve_text *out, yyjson_val *root, const char *const *known)
{
    size_t i, n;
    yyjson_val *key, *value;
    yyjson_obj_foreach(root, i, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        size_t k = 0;
        while (known[k] && strcmp(known[k], name)) k++;
        if (!known[k]) rewrite_value(out, name, value);
    }
}

bool rewrite_flag(yyjson_val *root, const char *name, bool otherwise, bool *value, serve_error *e)
{
    yyjson_val *v = yyjson_obj_get(root, name);
    *value = otherwise;
    if (!v || yyjson_is_null(v)) return true;
    if (!yyjson_is_bool(v)) return request_wrong_type(e, name, "true or false", v);
    *value = yyjson_get_bool(v);
    return true;
}
