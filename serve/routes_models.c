/* Lists of models and their adapters.
 * SPDX-License-Identifier: MIT */
#include "routes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* In the format of llama-server with several models. */
static void write_status(const model_entry *m, serve_text *out)
{
    static const char *const states[] = { "unloaded", "loading", "loading", "loaded", "unloaded" };
    text_format(out, "\"status\":{\"value\":\"%s\"", states[m->state]);
    if (m->state == MODEL_OFF && m->err.status) {
        text_str(out, ",\"failed\":true,\"error\":");
        text_json_str(out, m->err.text);
    }
    text_str(out, "}");
}

/* Adds an adapter's members to its model's entry; NULL: the model itself. */
static void write_adapter(const model_entry *m, const serve_adapter *a, serve_text *out)
{
    if (a) {
        text_str(out, ",\"parent\":");
        text_json_str(out, m->name);
    }
    text_str(out, ",\"meta\":{");
    if (!a) return;
    text_format(out, "\"lora\":{\"id\":%u,\"scale\":%.9g", (unsigned)a->id, (double)a->scale);
    if (m->state == MODEL_READY)            /* otherwise the loader may be using it */
        text_format(out, ",\"rank\":%u,\"alpha\":%.9g,\"n_matrices\":%u,\"size\":%llu",
                    (unsigned)a->info.rank, (double)a->info.alpha, (unsigned)a->info.n_matrices,
                    (unsigned long long)a->info.bytes);
    text_str(out, "},");
}

static void write_model(const serve_front *f, const model_entry *m, const serve_adapter *a, serve_text *out)
{
    struct stat file;
    char name[SERVE_NAME + ADAPTER_NAME];
    snprintf(name, sizeof name, "%s%s%s", m->name, a ? ":" : "", a ? a->name : "");
    text_str(out, "{\"id\":");
    text_json_str(out, name);
    /* Members of Anthropic's API. */
    text_str(out, ",\"type\":\"model\",\"created_at\":\"1970-01-01T00:00:00Z\",\"display_name\":");
    text_json_str(out, name);
    text_format(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"qsf\",", f->started);
    write_status(m, out);
    write_adapter(m, a, out);
    if (m->n_ctx) {
        text_str(out, "\"arch\":");
        text_json_str(out, m->arch);
        text_format(out, ",\"n_ctx\":%u,\"n_ctx_train\":%u,\"n_vocab\":%u,\"n_embd\":%u,\"n_params\":%llu,"
                    "\"size\":%llu", (unsigned)m->n_ctx, (unsigned)m->info.n_ctx_train,
                    (unsigned)m->info.n_vocab, (unsigned)m->info.n_embd,
                    (unsigned long long)m->info.n_params, (unsigned long long)m->info.weight_bytes);
    } else if (!stat(m->path, &file)) {
        text_format(out, "\"size\":%llu", (unsigned long long)file.st_size);
    }
    text_str(out, "}");
    /* vLLM's member. */
    if (m->n_ctx) text_format(out, ",\"max_model_len\":%u", (unsigned)m->n_seq);
    text_str(out, "}");
}

static void write_with_adapters(serve_front *f, const model_entry *m)
{
    const lora_list *l = &m->adapters;
    write_model(f, m, NULL, &f->out);
    for (unsigned i = 0; i < l->n; i++) {
        if (!lora_list_numbered(l, l->items[i]->id)) continue;
        text_str(&f->out, ",");
        write_model(f, m, l->items[i], &f->out);
    }
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 32) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes a name from a path: %2F is a slash. */
static void path_name(const char *path, char *out, size_t cap)
{
    size_t n = 0;
    for (; *path && n + 1 < cap; path++) {
        const int high = *path == '%' ? hex_digit(path[1]) : -1, low = high < 0 ? -1 : hex_digit(path[2]);
        out[n++] = low < 0 ? *path : (char)(16 * high + low);
        if (low >= 0) path += 2;
    }
    out[n] = 0;
}

void route_models(const route_call *call)
{
    serve_front *f = call->f;
    serve_error e = { 0 };
    char name[SERVE_NAME + ADAPTER_NAME + 1];
    text_clear(&f->out);
    if (call->rest[0] && call->rest[1]) {
        path_name(call->rest + 1, name, sizeof name);
        const char *adapter;
        const model_entry *m = models_find(f->models, name, false, &adapter, &e);
        if (m) write_model(f, m, adapter ? lora_list_named(&m->adapters, adapter) : NULL, &f->out);
    } else {
        text_str(&f->out, "{\"object\":\"list\",\"data\":[");
        models_refresh(f->models);
        for (unsigned i = 0, n = 0; i < models_count(f->models); i++) {
            if (models_hidden(models_at(f->models, i))) continue;
            if (n++) text_str(&f->out, ",");
            write_with_adapters(f, models_at(f->models, i));
        }
        text_str(&f->out, "],\"has_more\":false}");
    }
    if (e.status) route_refuse(call, &e);
    else route_reply(call);
}

/* ---- adapters ---- */

void route_lora_list(const route_call *call)
{
    text_clear(&call->f->out);
    lora_write(call->f, &call->f->out);
    route_reply(call);
}

void route_lora_scales(const route_call *call)
{
    static const char said[] = "{\"success\":true}";
    serve_error e = { 0 };
    if (!lora_scales(call->f, call->r, &e)) route_refuse(call, &e);
    else http_reply(call->c, 200, "application/json", call->cors, said, sizeof said - 1);
}
