/* One log line per finished request: client, result and timings.
 * SPDX-License-Identifier: MIT
 *
 * Names and texts of clients are written as JSON strings, so that no request can forge a line.
 * What requests say is left out unless --log-requests is given. */
#include "front.h"

#include <event2/util.h>
#include <stdio.h>
#include <string.h>

void front_note(http_conn *c, const serve_error *e)
{
    http_note *n = http_note_of(c);
    snprintf(n->code, sizeof n->code, "%s", e->code ? e->code : e->type ? e->type : "");
    snprintf(n->why, sizeof n->why, "%s", e->text);
}

/* A field of the line: name=value, or "name":value. */
static void log_name(const char *name, bool json, serve_text *out)
{
    text_format(out, json ? ",\"%s\":" : " %s=", name);
}

static void log_count(const char *name, uint32_t n, bool json, serve_text *out)
{
    log_name(name, json, out);
    text_format(out, "%u", (unsigned)n);
}

static void log_ms(const char *name, uint64_t ns, bool json, serve_text *out)
{
    log_name(name, json, out);
    text_format(out, "%.1f", (double)ns / 1e6);
}

static void log_text(const char *name, const char *text, bool json, serve_text *out)
{
    log_name(name, json, out);
    text_json_str(out, text);
}

static void log_head(const http_record *r, bool json, serve_text *out)
{
    struct timeval now;
    const char *method = r->head->method && *r->head->method ? r->head->method : "-";
    const char *path = r->head->path ? r->head->path : "-";
    evutil_gettimeofday(&now, NULL);
    if (json) text_str(out, "{\"time\":\"");
    text_time(out, (long long)now.tv_sec, (long)now.tv_usec);
    if (json) text_str(out, "\"");
    if (json) {
        log_text("client", r->client, true, out);
        log_text("method", method, true, out);
        log_text("path", path, true, out);
        log_name("status", true, out);
        text_format(out, "%d", r->status);
    } else {
        text_format(out, " %s %s ", r->client, method);
        /* Unchanged and unquoted, unless it contains bytes that could control a terminal. */
        if (path[strcspn(path, "\"\\")] || !text_is_utf8(path, strlen(path))) text_json_str(out, path);
        else text_str(out, path);
        text_format(out, " %d", r->status);
    }
}

/* A reason without quoted parts of the request.  Field names stay: short words of lower-case
 * letters, digits and a few signs. */
static void log_reason(const char *why, bool json, serve_text *out)
{
    serve_text text = { 0 };
    while (*why) {
        const size_t plain = strcspn(why, "\"");
        text_add(&text, why, plain);
        why += plain;
        if (!*why) break;
        const size_t name = strspn(++why, "abcdefghijklmnopqrstuvwxyz0123456789_.[]-");
        const size_t all = strcspn(why, "\"");
        if (name == all && name <= 40) text_format(&text, "\"%.*s\"", (int)name, why);
        else text_str(&text, "\"...\"");
        why += all + (why[all] == '"');
    }
    log_text("error", text.bytes ? text.bytes : "", json, out);
    out->failed |= text.failed;
    text_free(&text);
}

void front_log(void *front, const http_record *r)
{
    const serve_front *f = front;
    const http_note *n = r->note;
    const bool json = f->set->log_json;
    serve_text out = { 0 };
    if (f->set->quiet) return;
    log_head(r, json, &out);
    if (*n->model) log_text("model", n->model, json, &out);
    if (*n->code || r->cut) log_text("code", *n->code ? n->code : "client_closed", json, &out);
    if (n->counted) {
        log_count("prompt", n->n_prompt, json, &out);
        log_count("cached", n->n_kept, json, &out);
        log_count("answer", n->n_tokens, json, &out);
    }
    if (n->first_ns) log_ms("first_ms", n->first_ns, json, &out);
    log_ms("total_ms", r->ns, json, &out);
    if (*n->why && f->set->log_requests) log_text("error", n->why, json, &out);
    else if (*n->why) log_reason(n->why, json, &out);
    if (f->set->verbose && *n->ignored) log_text("ignored", n->ignored, json, &out);
    text_str(&out, json ? "}\n" : "\n");
    if (!out.failed) fwrite(out.bytes, 1, out.len, stderr);
    text_free(&out);
}
