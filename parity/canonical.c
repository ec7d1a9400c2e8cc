/* The canonical form: members sorted by the bytes of their names, no blanks, numbers as they were
 * written, and in texts only what must be escaped is.
 * SPDX-License-Identifier: MIT */
#include "canonical.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "engine.h"

enum { CANONICAL_DEPTH = 32 };

typedef struct growing { char *text; size_t n, cap; bool failed; } growing;

static void growing_add(growing *g, const char *bytes, size_t n)
{
    if (g->failed) return;
    if (g->cap - g->n < n) {
        const size_t cap = 2 * g->cap + n + 256;
        char *more = realloc(g->text, cap);
        if (!more) {
            g->failed = true;
            return;
        }
        g->text = more, g->cap = cap;
    }
    memcpy(g->text + g->n, bytes, n);
    g->n += n;
}

static void growing_text(growing *g, yyjson_val *v)
{
    const char *s = unsafe_yyjson_get_str(v);
    const size_t n = unsafe_yyjson_get_len(v);
    growing_add(g, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        char escape[8];
        if (c == '"' || c == '\\') growing_add(g, c == '"' ? "\\\"" : "\\\\", 2);
        else if (c >= ' ') growing_add(g, s + i, 1);
        else growing_add(g, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
    }
    growing_add(g, "\"", 1);
}

static int canonical_order(const void *a, const void *b)
{
    yyjson_val *x = *(yyjson_val *const *)a, *y = *(yyjson_val *const *)b;
    const size_t n = unsafe_yyjson_get_len(x), m = unsafe_yyjson_get_len(y);
    const int order = memcmp(unsafe_yyjson_get_str(x), unsafe_yyjson_get_str(y), n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static const char *canonical_value(growing *g, yyjson_val *v, int depth);

static const char *canonical_object(growing *g, yyjson_val *v, int depth)
{
    const size_t size = yyjson_obj_size(v);
    yyjson_val **keys = malloc((size + 1) * sizeof *keys), *key, *value;
    const char *wrong = NULL;
    size_t i, n, left = 0;
    if (!keys) return g->failed = true, "out of memory";
    yyjson_obj_foreach(v, i, n, key, value) {
        if (depth || !yyjson_equals_str(key, "signature")) keys[left++] = key;
    }
    qsort(keys, left, sizeof *keys, canonical_order);
    growing_add(g, "{", 1);
    for (i = 0; i < left && !wrong; i++) {
        if (i && !canonical_order(&keys[i - 1], &keys[i])) wrong = "a member occurs twice";
        if (i) growing_add(g, ",", 1);
        growing_text(g, keys[i]);
        growing_add(g, ":", 1);
        if (!wrong) wrong = canonical_value(g, yyjson_obj_iter_get_val(keys[i]), depth + 1);
    }
    growing_add(g, "}", 1);
    free(keys);
    return wrong;
}

static const char *canonical_value(growing *g, yyjson_val *v, int depth)
{
    const char *wrong = NULL;
    yyjson_val *item;
    size_t i, n;
    if (depth > CANONICAL_DEPTH) return "it is nested too deep";
    if (yyjson_is_obj(v)) return canonical_object(g, v, depth);
    if (yyjson_is_str(v)) growing_text(g, v);
    else if (yyjson_is_raw(v)) growing_add(g, yyjson_get_raw(v), yyjson_get_len(v));
    else if (yyjson_is_bool(v)) growing_add(g, yyjson_get_bool(v) ? "true" : "false", yyjson_get_bool(v) ? 4
                                            : 5);
    else if (yyjson_is_null(v)) growing_add(g, "null", 4);
    else {
        growing_add(g, "[", 1);
        yyjson_arr_foreach(v, i, n, item) {
            if (i) growing_add(g, ",", 1);
            if ((wrong = canonical_value(g, item, depth + 1))) return wrong;
        }
        growing_add(g, "]", 1);
    }
    return wrong;
}

qsf_status canonical_text(const char *text, size_t len, char **out, size_t *n, qsf_error *err)
{
    growing g = { 0 };
    yyjson_read_err why;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NUMBER_AS_RAW, NULL, &why);
    *out = NULL, *n = 0;
    if (!doc) return parity_fail(err, QSF_E_CORRUPT, "byte %zu: %s", why.pos, why.msg);
    const char *wrong = yyjson_is_obj(yyjson_doc_get_root(doc))
        ? canonical_value(&g, yyjson_doc_get_root(doc), 0) : "it is not an object";
    yyjson_doc_free(doc);
    if (g.failed) wrong = "out of memory";
    if (!wrong) return *out = g.text, *n = g.n, QSF_OK;
    free(g.text);
    return parity_fail(err, g.failed ? QSF_E_MEMORY : QSF_E_CORRUPT, "%s", wrong);
}
