/* The paths of the server, and what answers each.
 * SPDX-License-Identifier: MIT */
#include "formats.h"
#include "page.h"
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct route_call {
    serve_front        *f;
    http_conn          *c;
    const http_request *r;
    const char         *rest;              /* of the path, behind the route's */
    const char         *cors;
    const page_file    *page;
    unsigned            key;
} route_call;

void front_refuse(serve_front *f, http_conn *c, const serve_error *e, bool anthropic, const char *more)
{
    text_clear(&f->out);
    format_error(&f->out, e, anthropic);
    http_reply(c, e->status, "application/json", more, f->out.bytes, f->out.len);
}

void front_refusal(void *front, serve_text *body, int status, const char *why)
{
    serve_error e = { 0 };
    (void)front;
    serve_refuse(&e, status, NULL, NULL, "%s", why);
    format_error(body, &e, false);
}

static void reply_json(const route_call *call)
{
    serve_text *out = &call->f->out;
    if (out->failed) http_break(call->c);
    else http_reply(call->c, 200, "application/json", call->cors, out->bytes, out->len);
}

/* ---- what is asked without a model's answer ---- */

static void route_health(const route_call *call)
{
    const char *text = call->f->drains ? "{\"status\":\"draining\"}" : "{\"status\":\"ok\"}";
    http_reply(call->c, call->f->drains ? 503 : 200, "application/json", call->cors, text, strlen(text));
}

/* A line of each model, where there are several. */
static void write_model_metrics(serve_front *f)
{
    static const char *const names[] = { "model_loaded", "model_loads_total", "model_failures_total" };
    static const char *const helps[] = { "Whether the model is loaded", "Times that the model was loaded",
                                         "Times that it could not be loaded" };
    for (int k = 0; k < 3; k++) {
        text_format(&f->out, "# HELP qsf_%s %s\n# TYPE qsf_%s %s\n", names[k], helps[k], names[k],
                    k ? "counter" : "gauge");
        for (unsigned i = 0; i < models_count(f->models); i++) {
            model_entry *m = models_at(f->models, i);
            const uint64_t values[] = { m->state == MODEL_READY, metric_get(&m->n_loaded),
                                        metric_get(&m->n_failed) };
            text_format(&f->out, "qsf_%s{model=", names[k]);
            text_json_str(&f->out, m->name);
            text_format(&f->out, "} %llu\n", (unsigned long long)values[k]);
        }
    }
}

/* Of each model, of each rank that has it. */
static void write_metrics(serve_front *f)
{
    const unsigned n = models_count(f->models), ranks = ranks_count(f), all = n * ranks;
    serve_metrics **of = calloc(all, sizeof *of);
    const char **labels = calloc(all, sizeof *labels);
    serve_text *text = calloc(all, sizeof *text);
    f->out.failed |= !of || !labels || !text;
    for (unsigned i = 0; !f->out.failed && i < all; i++) {
        const unsigned model = i % n, rank = i / n;
        if (n > 1) {
            text_str(&text[i], "model=");
            text_json_str(&text[i], models_at(f->models, model)->name);
        }
        if (ranks > 1) text_format(&text[i], "%srank=\"%u\"", n > 1 ? "," : "", rank);
        of[i] = rank ? ranks_metrics(f, rank, model) : &models_at(f->models, model)->metrics;
        labels[i] = text[i].bytes ? text[i].bytes : "";
    }
    if (!f->out.failed) metrics_write(of, labels, all, &f->out);
    for (unsigned i = 0; text && i < all; i++) text_free(&text[i]);
    free(of);
    free(labels);
    free(text);
    write_model_metrics(f);
    if (ranks_lead(f)) ranks_write(f, &f->out);
}

static void route_metrics(const route_call *call)
{
    serve_front *f = call->f;
    text_clear(&f->out);
    write_metrics(f);
    for (unsigned i = 0; i < models_count(f->models); i++) {
        qsf_usage used = { .size = sizeof used };
        if (models_at(f->models, i)->state != MODEL_READY) continue;
        qsf_model_get_usage(models_at(f->models, i)->model, &used);
        text_format(&f->out, "# HELP qsf_resident_bytes Resident memory\n# TYPE qsf_resident_bytes gauge\n"
                    "qsf_resident_bytes %llu\n", (unsigned long long)used.resident);
        break;                              /* it is the process's */
    }
    text_format(&f->out, "# HELP qsf_sent_bytes_total Bytes sent to clients\n"
                "# TYPE qsf_sent_bytes_total counter\nqsf_sent_bytes_total %llu\n"
                "# HELP qsf_connections Open connections\n# TYPE qsf_connections gauge\nqsf_connections %u\n",
                (unsigned long long)http_bytes_sent(f->http), http_connections(f->http));
    http_reply(call->c, 200, "text/plain; version=0.0.4; charset=utf-8", call->cors, f->out.bytes,
               f->out.len);
}

/* ---- models ---- */

/* As clients of servers with several models know it. */
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

/* What an adapter adds to the entry of its model; NULL: it is the model itself. */
static void write_adapter(const model_entry *m, const serve_adapter *a, serve_text *out)
{
    if (a) {
        text_str(out, ",\"parent\":");
        text_json_str(out, m->name);
    }
    text_str(out, ",\"meta\":{");
    if (!a) return;
    text_format(out, "\"lora\":{\"id\":%u,\"scale\":%.9g", (unsigned)a->id, (double)a->scale);
    if (m->state == MODEL_READY)            /* else the loader may have it */
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
    /* What Anthropic's interface calls them, too. */
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
    text_str(out, "}}");
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

/* A name from a path: %2F is a slash. */
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

static void route_models(const route_call *call)
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
        for (unsigned i = 0; i < models_count(f->models); i++) {
            if (i) text_str(&f->out, ",");
            write_with_adapters(f, models_at(f->models, i));
        }
        text_str(&f->out, "],\"has_more\":false}");
    }
    if (e.status) front_refuse(f, call->c, &e, false, call->cors);
    else reply_json(call);
}

static void write_slot(serve_front *f, unsigned rank, unsigned model, unsigned id, bool first)
{
    static const char *const states[] = { "idle", "prompt", "answer", "paused" };
    const model_entry *m = models_at(f->models, model);
    serve_slot s;
    if (rank) s = ranks_slots(f, rank, model)[id];
    else serve_engine_slot(m->engine, id, &s);
    text_format(&f->out, "%s{\"id\":%u,", first ? "" : ",", id);
    if (f->set->link) text_format(&f->out, "\"rank\":%u,", rank);
    text_str(&f->out, "\"model\":");
    text_json_str(&f->out, m->name);
    text_format(&f->out, ",\"state\":\"%s\",\"is_processing\":%s,\"n_prompt\":%u,\"n_prompt_done\":%u,"
                "\"n_tokens\":%u}", states[s.state & 3], s.state ? "true" : "false", s.n_prompt, s.n_done,
                s.n_tokens);
}

static void route_slots(const route_call *call)
{
    serve_front *f = call->f;
    bool first = true;
    text_clear(&f->out);
    text_str(&f->out, "[");
    for (unsigned rank = 0; rank < ranks_count(f); rank++)
        for (unsigned i = 0; i < models_count(f->models); i++) {
            if (models_at(f->models, i)->state != MODEL_READY) continue;
            for (unsigned id = 0; id < f->set->engine.slots; id++, first = false)
                write_slot(f, rank, i, id, first);
        }
    text_str(&f->out, "]");
    reply_json(call);
}

/* ---- adapters ---- */

static void route_lora_list(const route_call *call)
{
    text_clear(&call->f->out);
    lora_write(call->f, &call->f->out);
    reply_json(call);
}

static void route_lora_scales(const route_call *call)
{
    static const char said[] = "{\"success\":true}";
    serve_error e = { 0 };
    if (!lora_scales(call->f, call->r, &e)) front_refuse(call->f, call->c, &e, false, call->cors);
    else http_reply(call->c, 200, "application/json", call->cors, said, sizeof said - 1);
}

/* ---- texts and tokens ---- */

static void route_texts(const route_call *call, serve_api api)
{
    front_answer(call->f, call->c, call->r, api, call->key, call->cors);
}

static void route_tokenize(const route_call *call) { route_texts(call, API_TOKENIZE); }
static void route_detokenize(const route_call *call) { route_texts(call, API_DETOKENIZE); }
static void route_template(const route_call *call) { route_texts(call, API_TEMPLATE); }

/* ---- answers ---- */

static void route_answer(const route_call *call, serve_api api)
{
    serve_error e = { 0 };
    if (call->f->drains) {
        serve_refuse(&e, 503, "draining", NULL, "the server is about to end");
        front_refuse(call->f, call->c, &e, api == API_MESSAGES, "Retry-After: 5\r\n");
        return;
    }
    front_answer(call->f, call->c, call->r, api, call->key, call->cors);
}
static void route_completions(const route_call *call) { route_answer(call, API_COMPLETIONS); }
static void route_chat(const route_call *call) { route_answer(call, API_CHAT); }
static void route_responses(const route_call *call) { route_answer(call, API_RESPONSES); }
static void route_messages(const route_call *call) { route_answer(call, API_MESSAGES); }
static void route_generate(const route_call *call) { route_answer(call, API_GENERATE); }

static void route_count_chat(const route_call *call) { route_texts(call, API_COUNT_CHAT); }
static void route_count_responses(const route_call *call) { route_texts(call, API_COUNT_RESPONSES); }

/* A response that is kept, by the id behind the path. */
static void route_kept(const route_call *call)
{
    const char *id = *call->rest ? call->rest + 1 : "";
    const kept_response *k = kept_responses_find(call->f->responses, id, call->key);
    serve_error e = { 0 };
    if (!k) {
        serve_refuse(&e, 404, "not_found", NULL, "there is no response \"%.80s\" here", id);
        front_refuse(call->f, call->c, &e, false, call->cors);
    } else if (!strcmp(call->r->head.method, "DELETE")) {
        text_clear(&call->f->out);
        text_format(&call->f->out, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}", k->id);
        kept_responses_drop(call->f->responses, id, call->key);
        reply_json(call);
    } else {
        http_reply(call->c, 200, "application/json", call->cors, k->json.bytes, k->json.len);
    }
}

static void route_count(const route_call *call) { route_texts(call, API_COUNT); }
static void route_embeddings(const route_call *call) { route_answer(call, API_EMBEDDINGS); }
static void route_rerank(const route_call *call) { route_answer(call, API_RERANK); }

static void route_lora_load(const route_call *call) { route_answer(call, API_LORA_LOAD); }
static void route_lora_unload(const route_call *call) { route_answer(call, API_LORA_UNLOAD); }

static void route_page(const route_call *call) { page_reply(call->c, &call->r->head, call->page); }

/* ---- the table ---- */

typedef struct route {
    const char *method, *path;
    bool        open, below;               /* without a key; paths below it, too */
    void      (*answer)(const route_call *call);
} route;
static const route routes[] = {
    { "GET", "/health", true, false, route_health },
    { "GET", "/v1/health", true, false, route_health },
    { "GET", "/v1/models", false, true, route_models },
    { "GET", "/metrics", false, false, route_metrics },
    { "GET", "/slots", false, false, route_slots },
    { "POST", "/v1/chat/completions", false, false, route_chat },
    { "POST", "/v1/completions", false, false, route_completions },
    { "POST", "/v1/responses", false, false, route_responses },
    { "POST", "/v1/responses/input_tokens", false, false, route_count_responses },
    { "POST", "/v1/chat/completions/input_tokens", false, false, route_count_chat },
    { "GET", "/v1/responses", false, true, route_kept },
    { "DELETE", "/v1/responses", false, true, route_kept },
    { "POST", "/v1/messages", false, false, route_messages },
    { "POST", "/v1/messages/count_tokens", false, false, route_count },
    { "POST", "/generate", false, false, route_generate },
    { "POST", "/tokenize", false, false, route_tokenize },
    { "POST", "/detokenize", false, false, route_detokenize },
    { "POST", "/apply-template", false, false, route_template },
    { "POST", "/v1/embeddings", false, false, route_embeddings },
    { "POST", "/v1/rerank", false, false, route_rerank },
    { "POST", "/rerank", false, false, route_rerank },
    { "GET", "/lora-adapters", false, false, route_lora_list },
    { "POST", "/lora-adapters", false, false, route_lora_scales },
    { "POST", "/v1/load_lora_adapter", false, false, route_lora_load },
    { "POST", "/v1/unload_lora_adapter", false, false, route_lora_unload },
};

static const route page_route = { "GET", "/", true, false, route_page };

static bool route_at(const route *t, const char *path)
{
    const size_t n = strlen(t->path);
    return !strncmp(path, t->path, n) && (!path[n] || (t->below && path[n] == '/'));
}

static bool route_method(const route *t, const char *method)
{
    return !strcmp(method, t->method) || (!strcmp(method, "HEAD") && !strcmp(t->method, "GET"));
}

/* The route of a call's path, of its method if it can be; of a file of the page it fills
 * call->page, too. */
static const route *route_find(const serve_front *f, route_call *call)
{
    const char *path = call->r->head.path;
    const route *found = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!route_at(&routes[i], path)) continue;
        if (!found) found = &routes[i];
        if (route_method(&routes[i], call->r->head.method)) return &routes[i];
    }
    if (found) return found;
    return !f->set->no_page && (call->page = page_find(path)) ? &page_route : NULL;
}

/* Errors have the form of the interface that was asked. */
static bool route_anthropic(const char *path) { return !strncmp(path, "/v1/messages", 12); }

/* Who may not ask need not send a body either. */
bool front_admitted(void *front, http_conn *c, const http_request *r)
{
    serve_front *f = front;
    serve_error e = { 0 };
    route_call call = { .f = f, .c = c, .r = r };
    const route *found = route_find(f, &call);
    if (access_allowed(f->access, &r->head, found && found->open, &call.key, &e)) return true;
    if (!f->set->quiet) fprintf(stderr, "%s %s\n", r->head.method, r->head.path);
    front_refuse(f, c, &e, route_anthropic(r->head.path),
                 e.status == 401 ? "WWW-Authenticate: Bearer\r\n" : NULL);
    return false;
}

void front_request(void *front, http_conn *c, const http_request *r)
{
    serve_front *f = front;
    serve_error e = { 0 };
    char cors[600];
    const bool anthropic = route_anthropic(r->head.path);
    route_call call = { .f = f, .c = c, .r = r, .cors = cors };
    const route *found = route_find(f, &call);
    access_cors(f->access, &r->head, cors, sizeof cors);
    if (!f->set->quiet) fprintf(stderr, "%s %s\n", r->head.method, r->head.path);
    if (f->set->log_requests && r->n_body) fprintf(stderr, "%s\n", r->body);
    if (!access_allowed(f->access, &r->head, found && found->open, &call.key, &e)) {
        front_refuse(f, c, &e, anthropic, e.status == 401 ? "WWW-Authenticate: Bearer\r\n" : NULL);
    } else if (!found) {
        serve_refuse(&e, 404, "not_found", NULL, "there is no %.100s here", r->head.path);
        front_refuse(f, c, &e, anthropic, cors);
    } else if (!strcmp(r->head.method, "OPTIONS")) {
        http_reply(c, 204, "text/plain", cors, "", 0);
    } else if (!route_method(found, r->head.method)) {
        serve_refuse(&e, 405, "method_not_allowed", NULL, "%s takes %s", found->path, found->method);
        front_refuse(f, c, &e, anthropic, !strcmp(found->method, "GET") ? "Allow: GET, HEAD, OPTIONS\r\n"
                                                                    : "Allow: POST, OPTIONS\r\n");
    } else {
        call.rest = r->head.path + strlen(found->path);
        found->answer(&call);
    }
}
