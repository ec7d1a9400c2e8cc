/* JSON for the converter: yyjson with a depth limit, and getters that tell "missing" from "of the
 * wrong type".
 * SPDX-License-Identifier: MIT
 *
 * Everything needs QSF_HAVE_YYJSON. */
#ifndef QSF_CONVERT_JSON_H
#define QSF_CONVERT_JSON_H

#include "base/host.h"

#ifdef QSF_HAVE_YYJSON
#include <yyjson.h>

enum { JSON_MAX_DEPTH = 64 };

typedef struct json_text {
    yyjson_doc *doc;
    yyjson_val *root;
} json_text;

/* Parses text[0..len) as one value.  what names it in messages ("config.json").  On an error *out
 * is empty. QSF_E_CORRUPT: not JSON, or nested deeper than JSON_MAX_DEPTH. */
qsf_status qsf_json_parse(const qsf_platform *p, const char *text, size_t len, const char *what,
                          json_text *out, qsf_error *err);
void       qsf_json_free(json_text *j);      /* takes an empty one */

/* A member, or NULL if it is missing, it is null, or obj is not an object. */
yyjson_val *qsf_json_get(yyjson_val *obj, const char *key);
/* A string without a 0 inside, or NULL. */
const char *qsf_json_str(yyjson_val *v, size_t *len);
const char *qsf_json_get_str(yyjson_val *obj, const char *key);

/* Each key and value of an object; does nothing if obj is not an object (yyjson's own loop would
 * step from NULL). */
#  define json_members(obj, idx, max, key, val)                                                              \
      if (yyjson_obj_size(obj)) yyjson_obj_foreach(obj, idx, max, key, val)

/* Members with a default, or NULL if they are absent or null.  what names the file, and the object
 * in it: "config.json: rope_scaling".  A value of another type, or a number out of [lo, hi], is
 * QSF_E_CORRUPT. */
qsf_status qsf_json_get_obj(yyjson_val *obj, const char *what, const char *key, yyjson_val **out,
                            qsf_error *err);
qsf_status qsf_json_get_arr(yyjson_val *obj, const char *what, const char *key, yyjson_val **out,
                            qsf_error *err);
qsf_status qsf_json_get_text(yyjson_val *obj, const char *what, const char *key, const char **out,
                             qsf_error *err);
qsf_status qsf_json_get_u32(yyjson_val *obj, const char *what, const char *key, uint32_t absent, uint32_t lo,
                            uint32_t hi, uint32_t *out, qsf_error *err);
qsf_status qsf_json_get_f32(yyjson_val *obj, const char *what, const char *key, float absent, float *out,
                            qsf_error *err);
qsf_status qsf_json_get_number(yyjson_val *obj, const char *what, const char *key, float absent, double lo,
                               double hi, float *out, qsf_error *err);
qsf_status qsf_json_get_bool(yyjson_val *obj, const char *what, const char *key, bool absent, bool *out,
                             qsf_error *err);
/* "what: "key" is the text "abc", expected ...": QSF_E_CORRUPT.  v may be NULL. */
qsf_status qsf_json_refuse(yyjson_val *v, const char *what, const char *key, const char *expected,
                           qsf_error *err);
/* A file's outermost value is an object. */
qsf_status qsf_json_check_object(yyjson_val *root, const char *what, qsf_error *err);
/* The value as an integer: also 2.0.  False if it is not one, or below 0 or above 2^53. */
bool       qsf_json_u64(yyjson_val *v, uint64_t *out);

#endif
#endif
