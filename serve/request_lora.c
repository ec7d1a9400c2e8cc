/* The adapters (LoRA) of a request.
 * SPDX-License-Identifier: MIT */
#include "lora_list.h"
#include "request_own.h"

#include <string.h>

/* [{"id": 0, "scale": 0.5}, ...], in scales[SERVE_SCALES]. */
static bool scales_take(yyjson_val *v, const char *name, serve_scale *scales, size_t *n, serve_error *e)
{
    static const char wanted[] = "a list of {\"id\": ..., \"scale\": ...}";
    size_t i, count;
    yyjson_val *item;
    *n = 0;
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, wanted, v);
    if (yyjson_arr_size(v) > SERVE_SCALES)
        return serve_refuse(e, 400, "array_above_max_length", name,
                            "\"%s\" has %zu adapters; the maximum is %d", name, yyjson_arr_size(v),
                            SERVE_SCALES);
    yyjson_arr_foreach(v, i, count, item) {
        yyjson_val *id = yyjson_obj_get(item, "id"), *scale = yyjson_obj_get(item, "scale");
        const double x = yyjson_get_num(scale);
        if (!yyjson_is_obj(item)) return request_wrong_type(e, name, wanted, item);
        if (yyjson_obj_size(item) > 2 || !yyjson_is_uint(id) || !yyjson_is_num(scale))
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" must be %s: a whole number and a "
                                "number", name, wanted);
        if (!(x >= -1e6 && x <= 1e6))
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" has a scale of %g; the range is -1e6 "
                                "to 1e6", name, x);
        for (size_t k = 0; k < *n; k++)
            if (scales[k].id == yyjson_get_uint(id))
                return serve_refuse(e, 400, "invalid_value", name, "\"%s\" lists the adapter %llu twice",
                                                                   name,
                                    (unsigned long long)scales[k].id);
        scales[(*n)++] = (serve_scale){ yyjson_get_uint(id), (float)x };
    }
    return true;
}

bool request_scales(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (request_is_empty(v)) return true;
    if (!(r->scales = request_alloc(r, SERVE_SCALES, sizeof *r->scales, e))) return false;
    return scales_take(v, name, r->scales, &r->n_scales, e);
}

bool serve_scales_read(const char *text, size_t len, serve_scale *scales, size_t *n, serve_error *e)
{
    yyjson_read_err err;
    yyjson_doc *doc = yyjson_read_opts((char *)(size_t)text, len, 0, NULL, &err);
    if (!doc)
        return serve_refuse(e, 400, "invalid_json", NULL,
                            "the request body is not valid JSON: %s at byte %zu",
                                                          err.msg,
                            err.pos);
    const bool ok = scales_take(yyjson_doc_get_root(doc), "body", scales, n, e);
    yyjson_doc_free(doc);
    return ok;
}

bool request_lora_name(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    const char *text = r->lora_name = request_text(v, name, e);
    if (!text) return false;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" contains a control character", name);
    return (*text && strlen(text) < ADAPTER_NAME)
        || serve_refuse(e, 400, "invalid_value", name, "\"%s\" has %zu bytes; the range is 1 to %d", name,
                        strlen(text), ADAPTER_NAME - 1);
}

/* A path that stays below the folder that it is relative to, on every system. */
static bool path_stays(const char *path)
{
    if (!*path || strpbrk(path, "\\:")) return false;
    for (;;) {
        const size_t n = strcspn(path, "/");
        if (!n || *path == '.') return false;
        if (!path[n]) return true;
        path += n + 1;
    }
}

bool request_lora_path(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    const char *text = r->lora_path = request_text(v, name, e);
    if (!text) return false;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            return serve_refuse(e, 400, "invalid_value", name, "\"%s\" contains a control character", name);
    return (path_stays(text) && strlen(text) < 1024)
        || serve_refuse(e, 400, "invalid_value", name, "\"%s\" must be a path within the folder of "
                        "--lora-dir: \"style.gguf\", \"team/style.gguf\"", name);
}
