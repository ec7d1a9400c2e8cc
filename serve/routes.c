/* The paths of the server, and what answers each.
 * SPDX-License-Identifier: MIT */
#include "routes.h"

#include <stdio.h>
#include <string.h>

struct route {
    const char *method, *path;
    bool        open, below;               /* open: needs no key; below: also matches longer paths */
    void      (*answer)(const route_call *call);
    serve_api   api;                       /* of the body */
    const front_form *form;                /* NULL: the API's own */
};

/* Requests that a model, tokenizer or template answers.  No new answers while draining. */
static void route_ask(const route_call *call)
{
    serve_error e = { 0 };
    char more[ACCESS_LINES + 64];
    const unsigned begins = API_ANSWERS | API_EMBEDDED | API_LORA_LOAD | API_LORA_UNLOAD;
    if (call->f->drains && call->route->api & begins) {
        serve_refuse(&e, 503, "draining", NULL, "the server is shutting down");
        snprintf(more, sizeof more, "Retry-After: 5\r\n%s", call->cors);
        front_refuse(call->f, call->c, &e, route_errors(call->r->head.path), more);
        return;
    }
    front_answer(call->f, call->c, call->r, call->route->api, call->route->form, call->key, call->cors);
}

/* A stored response; its id follows the path. */
static void route_kept(const route_call *call)
{
    const char *id = *call->rest ? call->rest + 1 : "";
    const kept_response *k = kept_responses_find(call->f->responses, id, call->key);
    serve_error e = { 0 };
    if (!k) {
        serve_refuse(&e, 404, "not_found", NULL, "unknown response \"%.80s\"", id);
        route_refuse(call, &e);
    } else if (!strcmp(call->r->head.method, "DELETE")) {
        text_clear(&call->f->out);
        text_format(&call->f->out, "{\"id\":\"%s\",\"object\":\"response\",\"deleted\":true}", k->id);
        kept_responses_drop(call->f->responses, id, call->key);
        route_reply(call);
    } else {
        http_reply(call->c, 200, "application/json", call->cors, k->json.bytes, k->json.len);
    }
}

static void route_page(const route_call *call) { page_reply(call->c, &call->r->head, call->page); }

#define GET(path, answer) { "GET", path, false, false, answer, 0, NULL }
#define OPEN(path, answer) { "GET", path, true, false, answer, 0, NULL }
#define POST(path, api) { "POST", path, false, false, route_ask, api, NULL }
#define FORM(path, api, form) { "POST", path, false, false, route_ask, api, &form }
static const route routes[] = {
    OPEN("/health", route_health), OPEN("/v1/health", route_health), OPEN("/ping", route_ping),
    { "POST", "/ping", true, false, route_ping, 0, NULL },
    OPEN("/version", route_version),
    { "GET", "/v1/models", false, true, route_models, 0, NULL },
    { "GET", "/models", false, true, route_models, 0, NULL },
    GET("/metrics", route_metrics), GET("/slots", route_slots), GET("/props", route_props),
    FORM("/models/load", API_TOKENIZE, form_load),
    { "POST", "/models/unload", false, false, route_unload, 0, NULL },
    POST("/v1/chat/completions", API_CHAT), POST("/chat/completions", API_CHAT),
    POST("/v1/completions", API_COMPLETIONS), POST("/completions", API_COMPLETIONS),
    POST("/v1/responses", API_RESPONSES), POST("/responses", API_RESPONSES),
    POST("/v1/responses/input_tokens", API_COUNT_RESPONSES),
    POST("/v1/chat/completions/input_tokens", API_COUNT_CHAT),
    { "GET", "/v1/responses", false, true, route_kept, 0, NULL },
    { "DELETE", "/v1/responses", false, true, route_kept, 0, NULL },
    POST("/v1/messages", API_MESSAGES), POST("/v1/messages/count_tokens", API_COUNT),
    POST("/generate", API_GENERATE),
    FORM("/completion", API_GENERATE, form_completion), FORM("/infill", API_GENERATE, form_infill),
    FORM("/tokenize", API_TOKENIZE, form_tokenize), POST("/detokenize", API_DETOKENIZE),
    POST("/apply-template", API_TEMPLATE),
    POST("/v1/embeddings", API_EMBEDDINGS), POST("/embeddings", API_EMBEDDINGS),
    FORM("/embedding", API_EMBEDDINGS, form_embedding),
    POST("/v1/rerank", API_RERANK), POST("/rerank", API_RERANK), POST("/v2/rerank", API_RERANK),
    POST("/v1/reranking", API_RERANK), POST("/reranking", API_RERANK),
    FORM("/v1/score", API_RERANK, form_score), FORM("/score", API_RERANK, form_score),
    GET("/lora-adapters", route_lora_list),
    { "POST", "/lora-adapters", false, false, route_lora_scales, 0, NULL },
    POST("/v1/load_lora_adapter", API_LORA_LOAD), POST("/v1/unload_lora_adapter", API_LORA_UNLOAD),
    FORM("/api/chat", API_CHAT, form_ollama_chat), FORM("/api/generate", API_CHAT, form_ollama_generate),
    FORM("/api/embed", API_EMBEDDINGS, form_ollama_embed),
    FORM("/api/embeddings", API_EMBEDDINGS, form_ollama_embeddings),
    FORM("/api/show", API_TOKENIZE, form_ollama_show),
    GET("/api/tags", route_ollama_tags), GET("/api/ps", route_ollama_ps),
    OPEN("/api/version", route_ollama_version),
    { "POST", "/api/pull", false, false, route_pull, 0, NULL },
    { "POST", "/api/push", false, false, route_ollama_none, 0, NULL },
    { "POST", "/api/create", false, false, route_ollama_none, 0, NULL },
    { "POST", "/api/copy", false, false, route_ollama_none, 0, NULL },
    { "DELETE", "/api/delete", false, false, route_delete, 0, NULL },
    { "POST", "/api/blobs", false, true, route_ollama_none, 0, NULL },
};
#undef FORM
#undef POST
#undef OPEN
#undef GET

static const route page_route = { "GET", "/", true, false, route_page, 0, NULL };
/* Without the web page: Ollama's clients look for this text. */
static const route running_route = { "GET", "/", true, false, route_ollama_running, 0, NULL };

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
    if (f->set->no_page) return strcmp(path, "/") ? NULL : &running_route;
    return (call->page = page_find(path)) ? &page_route : NULL;
}

/* Extra header lines of a refusal that no handler has seen. */
static const char *refusal_lines(const serve_front *f, const http_head *h, const serve_error *e, char *out,
                                 size_t cap)
{
    char cors[ACCESS_LINES];
    snprintf(out, cap, "%s%s", e->status == 401 ? "WWW-Authenticate: Bearer\r\n" : "",
             access_cors(f->access, h, cors, sizeof cors));
    return out;
}

/* A client without permission need not send a body either. */
bool front_admitted(void *front, http_conn *c, const http_request *r)
{
    serve_front *f = front;
    serve_error e = { 0 };
    char more[ACCESS_LINES + 64];
    route_call call = { .f = f, .c = c, .r = r };
    const route *found = route_find(f, &call);
    if (access_allowed(f->access, &r->head, found && found->open, &call.key, &e)) return true;
    front_refuse(f, c, &e, route_errors(r->head.path), refusal_lines(f, &r->head, &e, more, sizeof more));
    return false;
}

void front_request(void *front, http_conn *c, const http_request *r)
{
    serve_front *f = front;
    serve_error e = { 0 };
    char cors[ACCESS_LINES], more[ACCESS_LINES + 64];
    const error_form form = route_errors(r->head.path);
    route_call call = { .f = f, .c = c, .r = r, .cors = cors };
    const route *found = call.route = route_find(f, &call);
    access_cors(f->access, &r->head, cors, sizeof cors);
    if (f->set->log_requests && r->n_body) fprintf(stderr, "%s\n", r->body);
    if (!access_allowed(f->access, &r->head, found && found->open, &call.key, &e)) {
        front_refuse(f, c, &e, form, refusal_lines(f, &r->head, &e, more, sizeof more));
    } else if (!found) {
        serve_refuse(&e, 404, "not_found", NULL, "unknown path %.100s", r->head.path);
        front_refuse(f, c, &e, form, cors);
    } else if (!strcmp(r->head.method, "OPTIONS")) {
        http_reply(c, 204, "text/plain", cors, "", 0);
    } else if (!route_method(found, r->head.method)) {
        serve_refuse(&e, 405, "method_not_allowed", NULL, "%s takes %s", found->path, found->method);
        snprintf(more, sizeof more, "Allow: %s%s, OPTIONS\r\n%s", found->method,
                 strcmp(found->method, "GET") ? "" : ", HEAD", cors);
        front_refuse(f, c, &e, form, more);
    } else {
        call.rest = r->head.path + strlen(found->path);
        found->answer(&call);
    }
}
