/* JSON for the converter: the depth limit that yyjson lacks, memory from the platform, typed
 * getters.
 * SPDX-License-Identifier: MIT */
#include "read/json.h"

#ifdef QSF_HAVE_YYJSON

/* yyjson parses nested values without recursion, but the depth that its callers walk is not
 * bounded: excessive depth is rejected before parsing, in one pass that recognises only strings and
 * brackets. */
static bool json_too_deep(const char *s, size_t len)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        const char c = s[i];
        if (in_string) {
            if (c == '\\') i++;
            else if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_MAX_DEPTH) return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

/* yyjson's memory comes from the platform, which wants to hear a
 * block's size again when it gets it back. */
enum { JSON_BLOCK_HEAD = 16 };

static void *json_malloc(void *ctx, size_t size)
{
    if (size > SIZE_MAX - JSON_BLOCK_HEAD) return NULL;
    char *mem = qsf_alloc(ctx, (uint64_t)size + JSON_BLOCK_HEAD, "JSON", NULL);
    if (!mem) return NULL;
    memcpy(mem, &size, sizeof size);
    return mem + JSON_BLOCK_HEAD;
}
static void json_free_block(void *ctx, void *ptr)
{
    size_t size;
    if (!ptr) return;
    char *mem = (char *)ptr - JSON_BLOCK_HEAD;
    memcpy(&size, mem, sizeof size);
    qsf_dealloc(ctx, mem, (uint64_t)size + JSON_BLOCK_HEAD);
}
static void *json_realloc(void *ctx, void *ptr, size_t old_size, size_t size)
{
    void *mem = json_malloc(ctx, size);
    if (!mem) return NULL;
    memcpy(mem, ptr, QSF_MIN(old_size, size));
    json_free_block(ctx, ptr);
    return mem;
}

qsf_status qsf_json_parse(const qsf_platform *p, const char *text, size_t len, const char *what,
                          json_text *out, qsf_error *err)
{
    yyjson_alc alc = { json_malloc, json_realloc, json_free_block, NULL };
    yyjson_read_err je;
    memset(out, 0, sizeof *out);
    alc.ctx = (void *)(uintptr_t)p;
    if (json_too_deep(text, len))
        return qsf_fail(err, QSF_E_CORRUPT, "%s: nested deeper than %d", what, (int)JSON_MAX_DEPTH);
    /* Without the in-situ flag the text is only read. */
    out->doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NOFLAG, &alc, &je);
    if (!out->doc && je.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return qsf_fail(err, QSF_E_MEMORY, "%s: out of memory while reading %zu bytes of JSON", what, len);
    if (!out->doc) return qsf_fail(err, QSF_E_CORRUPT, "%s: not JSON at byte %zu: %s", what, je.pos, je.msg);
    out->root = yyjson_doc_get_root(out->doc);
    return QSF_OK;
}

void qsf_json_free(json_text *j)
{
    yyjson_doc_free(j->doc);
    memset(j, 0, sizeof *j);
}

yyjson_val *qsf_json_get(yyjson_val *obj, const char *key)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    return yyjson_is_null(v) ? NULL : v;
}

const char *qsf_json_str(yyjson_val *v, size_t *len)
{
    const char *s = yyjson_get_str(v);
    const size_t n = yyjson_get_len(v);
    if (!s || memchr(s, 0, n)) return NULL;
    if (len) *len = n;
    return s;
}

const char *qsf_json_get_str(yyjson_val *obj, const char *key)
{
    return qsf_json_str(qsf_json_get(obj, key), NULL);
}

bool qsf_json_u64(yyjson_val *v, uint64_t *out)
{
    if (yyjson_is_uint(v)) {
        *out = yyjson_get_uint(v);
        return *out <= (uint64_t)1 << 53;
    }
    if (yyjson_is_real(v)) {
        const double d = yyjson_get_real(v);
        if (!(d >= 0 && d <= 9007199254740992.0) || d != floor(d)) return false;
        *out = (uint64_t)d;
        return true;
    }
    return false;
}

/* What a value is, in words. */
static void json_describe(yyjson_val *v, char *out, size_t cap)
{
    if (!v) qsf_format(out, cap, "missing");
    else if (yyjson_is_null(v)) qsf_format(out, cap, "null");
    else if (yyjson_is_bool(v)) qsf_format(out, cap, yyjson_get_bool(v) ? "true" : "false");
    else if (yyjson_is_uint(v))
        qsf_format(out, cap, "the number %llu", (unsigned long long)yyjson_get_uint(v));
    else if (yyjson_is_sint(v)) qsf_format(out, cap, "the number %lld", (long long)yyjson_get_sint(v));
    else if (yyjson_is_num(v)) qsf_format(out, cap, "the number %g", yyjson_get_num(v));
    else if (yyjson_is_str(v))
        qsf_format(out, cap, "the text \"%.*s\"", (int)QSF_MIN(yyjson_get_len(v), 40), yyjson_get_str(v));
    else if (yyjson_is_arr(v)) qsf_format(out, cap, "a list");
    else qsf_format(out, cap, "an object");
}

qsf_status qsf_json_refuse(yyjson_val *v, const char *what, const char *key, const char *expected,
                           qsf_error *err)
{
    char found[80];
    json_describe(v, found, sizeof found);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: \"%s\" is %s, expected %s", what, key, found, expected);
}

qsf_status qsf_json_check_object(yyjson_val *root, const char *what, qsf_error *err)
{
    char found[80];
    if (yyjson_is_obj(root)) return QSF_OK;
    json_describe(root, found, sizeof found);
    return qsf_fail(err, QSF_E_CORRUPT, "%s: is %s, expected an object", what, found);
}

qsf_status qsf_json_get_obj(yyjson_val *obj, const char *what, const char *key, yyjson_val **out,
                            qsf_error *err)
{
    *out = qsf_json_get(obj, key);
    return !*out || yyjson_is_obj(*out) ? QSF_OK : qsf_json_refuse(*out, what, key, "an object", err);
}

qsf_status qsf_json_get_arr(yyjson_val *obj, const char *what, const char *key, yyjson_val **out,
                            qsf_error *err)
{
    *out = qsf_json_get(obj, key);
    return !*out || yyjson_is_arr(*out) ? QSF_OK : qsf_json_refuse(*out, what, key, "a list", err);
}

qsf_status qsf_json_get_text(yyjson_val *obj, const char *what, const char *key, const char **out,
                             qsf_error *err)
{
    yyjson_val *v = qsf_json_get(obj, key);
    *out = qsf_json_str(v, NULL);
    return !v || *out ? QSF_OK : qsf_json_refuse(v, what, key, "a string", err);
}

qsf_status qsf_json_get_u32(yyjson_val *obj, const char *what, const char *key, uint32_t absent, uint32_t lo,
                            uint32_t hi, uint32_t *out, qsf_error *err)
{
    yyjson_val *v = qsf_json_get(obj, key);
    uint64_t n = absent;
    char expected[64];
    if ((v && !qsf_json_u64(v, &n)) || n < lo || n > hi) {
        qsf_format(expected, sizeof expected, "a whole number from %u to %u", (unsigned)lo, (unsigned)hi);
        return qsf_json_refuse(v, what, key, expected, err);
    }
    *out = (uint32_t)n;
    return QSF_OK;
}

qsf_status qsf_json_get_number(yyjson_val *obj, const char *what, const char *key, float absent, double lo,
                               double hi, float *out, qsf_error *err)
{
    yyjson_val *v = qsf_json_get(obj, key);
    const double d = v ? yyjson_get_num(v) : (double)absent;
    char expected[64];
    if (v && (!yyjson_is_num(v) || !(d >= lo && d <= hi))) {
        if (hi < (double)FLT_MAX) qsf_format(expected, sizeof expected, "a number from %g to %g", lo, hi);
        else if (lo > -(double)FLT_MAX)
            qsf_format(expected, sizeof expected, "a number from %g, in a float's range", lo);
        else qsf_format(expected, sizeof expected, "a number in a float's range");
        return qsf_json_refuse(v, what, key, expected, err);
    }
    *out = (float)d;
    return QSF_OK;
}

qsf_status qsf_json_get_f32(yyjson_val *obj, const char *what, const char *key, float absent, float *out,
                            qsf_error *err)
{
    return qsf_json_get_number(obj, what, key, absent, -(double)FLT_MAX, (double)FLT_MAX, out, err);
}

qsf_status qsf_json_get_bool(yyjson_val *obj, const char *what, const char *key, bool absent, bool *out,
                             qsf_error *err)
{
    yyjson_val *v = qsf_json_get(obj, key);
    *out = v ? yyjson_get_bool(v) : absent;
    return !v || yyjson_is_bool(v) ? QSF_OK : qsf_json_refuse(v, what, key, "true or false", err);
}

#endif
