/* Fields of a fill-in-the-middle completion besides its prompt.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

bool request_suffix(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (request_is_empty(v)) return true;
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v);
    r->suffix = (serve_words){ yyjson_get_str(v), yyjson_get_len(v) };
    return true;
}

bool request_middle(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v);
    r->middle = (serve_words){ yyjson_get_str(v), yyjson_get_len(v) };
    return true;
}

/* Other files: [{"filename": ..., "text": ...}, ...].  The list, even if empty, makes the request a
 * fill-in-the-middle completion. */
bool request_extra(serve_request *r, yyjson_val *v, const char *name, serve_error *e)
{
    size_t i, n;
    yyjson_val *file;
    if (!yyjson_is_arr(v)) return request_wrong_type(e, name, "a list of files", v);
    r->infill = true;
    if (yyjson_arr_size(v) > SERVE_TEXTS)
        return serve_refuse(e, 400, "array_above_max_length", name, "\"%s\" has %zu files; the maximum is %d",
                            name, yyjson_arr_size(v), SERVE_TEXTS);
    if (!(r->extra = request_alloc(r, 2 * yyjson_arr_size(v), sizeof *r->extra, e))) return false;
    yyjson_arr_foreach(v, i, n, file) {
        yyjson_val *parts[] = { yyjson_obj_get(file, "filename"), yyjson_obj_get(file, "text") };
        for (int k = 0; k < 2; k++) {
            if (!yyjson_is_str(parts[k]) && (k || parts[k]))
                return request_wrong_type(e, name, "a list of {\"filename\", \"text\"}", parts[k]);
            r->extra[r->n_extra++] = (serve_words){ parts[k] ? yyjson_get_str(parts[k]) : "",
                                                    yyjson_get_len(parts[k]) };
        }
    }
    return true;
}
