/* Server settings for what a request leaves unset.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <string.h>

enum { LAYERS = 3 };

/* Adds the members of layer i that no earlier layer has. */
static void variables_add(serve_text *out, yyjson_doc *const docs[LAYERS], int i)
{
    yyjson_val *key, *value;
    size_t k, n;
    if (!docs[i]) return;
    yyjson_obj_foreach(yyjson_doc_get_root(docs[i]), k, n, key, value) {
        const char *name = unsafe_yyjson_get_str(key);
        serve_text json = { 0 };
        int above = 0;
        while (above < i && !yyjson_obj_get(yyjson_doc_get_root(docs[above]), name)) above++;
        if (above < i) continue;
        request_json(&json, value);
        text_str(out, out->len > 1 ? "," : "");
        text_json_str(out, name);
        text_format(out, ":%s", json.bytes ? json.bytes : "null");
        out->failed |= json.failed;
        text_free(&json);
    }
}

bool request_default_kwargs(serve_request *r, const char *kwargs, serve_error *e)
{
    /* Templates that can turn reasoning off then give the prompt that the model was trained on. */
    static const char no_reasoning[] = "{\"enable_thinking\":false,\"thinking\":false}";
    const char *layers[LAYERS] = { r->kwargs, kwargs, r->reasoning_budget == 0 ? no_reasoning : NULL };
    yyjson_doc *docs[LAYERS] = { NULL };
    serve_text out = { 0 };
    if (!layers[1] && !layers[2]) return true;
    text_str(&out, "{");
    for (int i = 0; i < LAYERS; i++) {
        if (layers[i]) docs[i] = yyjson_read(layers[i], strlen(layers[i]), 0);
        variables_add(&out, docs, i);
    }
    text_str(&out, "}");
    for (int i = 0; i < LAYERS; i++) yyjson_doc_free(docs[i]);
    return (r->kwargs = request_keep(r, &out, e)) != NULL;
}

bool serve_is_object(const char *json)
{
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
    const bool is = yyjson_is_obj(yyjson_doc_get_root(doc));
    yyjson_doc_free(doc);
    return is;
}
