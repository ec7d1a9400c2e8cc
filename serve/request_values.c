/* What reading a request is made of: its memory, refusals, and single values.
 * SPDX-License-Identifier: MIT */
#include "request_own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool serve_refuse(serve_error *e, int status, const char *code, const char *param, const char *format, ...)
{
    va_list args;
    if (e->status) return false;
    e->status = status;
    e->code = code;
    e->type = status == 401 ? "authentication_error" : status == 403 ? "permission_error"
              : status == 404 ? "not_found_error" : status == 429 ? "rate_limit_error"
              : status == 503 ? "overloaded_error" : status >= 500 ? "server_error" : "invalid_request_error";
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return false;
}

/* ---- memory of a request ---- */

typedef struct owned_piece { struct owned_piece *next; } owned_piece;

void *request_alloc(serve_request *r, size_t n, size_t size, serve_error *e)
{
    owned_piece *p = n > SIZE_MAX / 2 / size ? NULL : calloc(1, sizeof *p + n * size + 16);
    if (!p) return serve_refuse(e, 503, NULL, NULL, "out of memory for the request"), NULL;
    p->next = r->owned;
    r->owned = p;
    return p + 1;
}

void serve_request_free(serve_request *r)
{
    for (owned_piece *p = r->owned, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    yyjson_doc_free(r->doc);
    r->owned = r->doc = NULL;
}

const char *request_keep(serve_request *r, serve_text *text, serve_error *e)
{
    char *kept = text->failed ? NULL : request_alloc(r, text->len + 1, 1, e);
    if (kept && text->len) memcpy(kept, text->bytes, text->len);
    if (text->failed) serve_refuse(e, 503, NULL, NULL, "out of memory for the request");
    text_free(text);
    return kept;
}

/* ---- refusals and values ---- */

const char *request_type(yyjson_val *v)
{
    if (!v) return "missing";
    return yyjson_is_num(v) ? "number" : yyjson_is_bool(v) ? "boolean" : yyjson_get_type_desc(v);
}

bool request_wrong_type(serve_error *e, const char *name, const char *wanted, yyjson_val *v)
{
    return serve_refuse(e, 400, "invalid_type", name, "\"%s\" must be %s, not %s", name, wanted,
                        request_type(v));
}

bool request_unsupported(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "unsupported_parameter", name, "\"%.60s\" is not supported here", name);
}

/* Names go into a header line and the log: other bytes are replaced by '_'. */
static void name_add(char *out, size_t cap, const char *name)
{
    static const char more[] = "-_.[]$@/:";
    size_t n = strlen(out);
    for (int i = 0; name[i] && i < 60 && n + 1 < cap; i++) {
        const char c = name[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        out[n++] = plain || strchr(more, c) ? c : '_';
    }
    out[n] = 0;
}

/* Whether a list "a, b" contains the name. */
static bool name_listed(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ',')) return true;
    return false;
}

enum { IGNORED_NAME = 160 };

static void ignored_name(const char *where, const char *name, char out[IGNORED_NAME])
{
    *out = 0;
    if (where) name_add(out, IGNORED_NAME, where);
    if (where) name_add(out, IGNORED_NAME, ".");
    name_add(out, IGNORED_NAME, *name ? name : "_");
}

void serve_request_ignored(serve_request *r, const char *where, const char *name)
{
    char all[IGNORED_NAME];
    const size_t n = strlen(r->ignored);
    ignored_name(where, name, all);
    if (name_listed(r->ignored, all) || (n > 4 && !strcmp(r->ignored + n - 3, "..."))) return;
    const bool room = n + strlen(all) + 8 < sizeof r->ignored;
    snprintf(r->ignored + n, sizeof r->ignored - n, "%s%s", n ? ", " : "", room ? all : "...");
}

bool request_ignore(serve_request *r, const char *where, const char *name, serve_error *e)
{
    char all[IGNORED_NAME];
    if (!r->strict) {
        serve_request_ignored(r, where, name);
        return true;
    }
    ignored_name(where, name, all);
    return serve_refuse(e, 400, "unsupported_parameter", all, "\"%s\" is not supported here", all);
}

bool request_missing(serve_error *e, const char *name)
{
    return serve_refuse(e, 400, "missing_required_parameter", name, "\"%s\" is missing", name);
}

const char *request_text(yyjson_val *v, const char *name, serve_error *e)
{
    if (!yyjson_is_str(v)) return request_wrong_type(e, name, "a string", v), NULL;
    if (strlen(yyjson_get_str(v)) == yyjson_get_len(v)) return yyjson_get_str(v);
    return serve_refuse(e, 400, "invalid_value", name, "\"%s\" contains a zero byte", name), NULL;
}

void request_json(serve_text *out, yyjson_val *v)
{
    size_t len;
    char *json = yyjson_val_write(v, 0, &len);
    if (json) text_add(out, json, len);
    else out->failed = true;
    free(json);
}

bool request_is_empty(yyjson_val *v)
{
    return yyjson_is_null(v) || yyjson_is_false(v) || ((yyjson_is_arr(v) || yyjson_is_obj(v))
                                                       && !unsafe_yyjson_get_len(v));
}

bool request_whole(yyjson_val *v, int64_t *out)
{
    const double x = yyjson_get_num(v);
    if (yyjson_is_int(v)) {
        *out = yyjson_is_uint(v) && yyjson_get_uint(v) > INT64_MAX ? INT64_MAX : yyjson_get_sint(v);
        return true;
    }
    if (!yyjson_is_real(v) || !(x > -9.0e15 && x < 9.0e15) || (double)(int64_t)x != x) return false;
    *out = (int64_t)x;
    return true;
}
