/* Ollama's requests about the server and its models.
 * SPDX-License-Identifier: MIT */
#include "routes.h"
#include "rewrite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The version of Ollama's API implemented here: clients refuse older ones. */
static const char ollama_version[] = "0.13.0";

void route_ollama_running(const route_call *call)
{
    static const char text[] = "Ollama is running";
    http_reply(call->c, 200, "text/plain; charset=utf-8", call->cors, text, sizeof text - 1);
}

void route_ollama_version(const route_call *call)
{
    text_clear(&call->f->out);
    text_format(&call->f->out, "{\"version\":\"%s\",\"qsf\":\"%s\"}", ollama_version, qsf_version());
    route_reply(call);
}

/* 64 hexadecimal digits that change with the file.  They hash only its name, size and time: hashing
 * its content would take minutes. */
static void write_digest(const model_entry *m, const struct stat *file, serve_text *out)
{
    const unsigned long long parts[] = { (unsigned long long)file->st_size,
                                         (unsigned long long)file->st_mtime };
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = m->path; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 16; k++)
            h = (h ^ (parts[k / 8] >> 8 * (k % 8) & 0xff)) * 0x100000001b3u;
        text_format(out, "%016llx", (unsigned long long)h);
    }
}

static void write_model(const model_entry *m, serve_text *out)
{
    struct stat file;
    if (stat(m->path, &file)) memset(&file, 0, sizeof file);
    text_str(out, "{\"name\":");
    text_json_str(out, m->name);
    text_str(out, ",\"model\":");
    text_json_str(out, m->name);
    text_str(out, ",\"modified_at\":");
    format_ollama_time(m, out);
    text_format(out, ",\"size\":%llu,\"digest\":\"", (unsigned long long)file.st_size);
    write_digest(m, &file, out);
    text_str(out, "\",");
    format_ollama_details(m, out);
}

void route_ollama_tags(const route_call *call)
{
    serve_front *f = call->f;
    text_clear(&f->out);
    text_str(&f->out, "{\"models\":[");
    models_refresh(f->models);
    for (unsigned i = 0, n = 0; i < models_count(f->models); i++) {
        if (models_hidden(models_at(f->models, i))) continue;
        if (n++) text_str(&f->out, ",");
        write_model(models_at(f->models, i), &f->out);
        text_str(&f->out, "}");
    }
    text_str(&f->out, "]}");
    route_reply(call);
}

/* Loaded models; they stay until others need their memory. */
void route_ollama_ps(const route_call *call)
{
    serve_front *f = call->f;
    bool any = false;
    text_clear(&f->out);
    text_str(&f->out, "{\"models\":[");
    for (unsigned i = 0; i < models_count(f->models); i++) {
        const model_entry *m = models_at(f->models, i);
        if (m->state != MODEL_READY) continue;
        if (any) text_str(&f->out, ",");
        write_model(m, &f->out);
        text_format(&f->out, ",\"expires_at\":\"9999-12-31T23:59:59Z\",\"size_vram\":0,"
                    "\"context_length\":%u}", (unsigned)m->n_ctx);
        any = true;
    }
    text_str(&f->out, "]}");
    route_reply(call);
}

model_entry *route_model(const route_call *call, char *name, size_t cap, unsigned *asks, serve_error *e)
{
    serve_front *f = call->f;
    serve_rewritten body = { 0 };
    serve_request r = { 0 };
    const char *adapter;
    model_entry *m = NULL;
    if (rewrite_ollama_model(call->r->body, call->r->n_body, &body, e)
        && serve_request_read(&r, body.api, body.json.bytes, body.json.len, &f->set->defaults, e)) {
        snprintf(name, cap, "%s", r.model);
        m = models_find(f->models, r.model, false, &adapter, e);
    }
    *asks = body.asks;
    serve_request_free(&r);
    text_free(&body.json);
    return m;
}

void route_unload(const route_call *call)
{
    static const char done[] = "{\"success\":true}";
    serve_error e = { 0 };
    char name[SERVE_NAME];
    unsigned asks;
    model_entry *m = route_model(call, name, sizeof name, &asks, &e);
    if (!m) {
        route_refuse(call, &e);
        return;
    }
    models_unload(call->f->models, m);
    http_reply(call->c, 200, "application/json", call->cors, done, sizeof done - 1);
}

void route_ollama_none(const route_call *call)
{
    serve_error e = { 0 };
    serve_refuse(&e, 501, "not_implemented", NULL, "%.40s is not supported: models are chosen when qsf-serve "
                 "starts", call->r->head.path);
    route_refuse(call, &e);
}
