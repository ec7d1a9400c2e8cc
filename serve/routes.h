/* Internals shared by the routes' files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_ROUTES_H
#define QSF_SERVE_ROUTES_H

#include "formats.h"
#include "page.h"

typedef struct route route;
typedef struct route_call {
    serve_front        *f;
    http_conn          *c;
    const http_request *r;
    const route        *route;
    const char         *rest;              /* of the path, after the route's part */
    const char         *cors;
    const page_file    *page;
    unsigned            key;
} route_call;

/* ---- routes_reply.c ---- */
/* Errors have the format of the path's API. */
error_form route_errors(const char *path);
/* Sends the front's output buffer. */
void route_reply(const route_call *call);
void route_refuse(const route_call *call, const serve_error *e);

/* ---- routes_status.c: server status ---- */
void route_health(const route_call *call);
void route_ping(const route_call *call);
void route_version(const route_call *call);
void route_metrics(const route_call *call);
void route_slots(const route_call *call);
void route_props(const route_call *call);

/* ---- routes_models.c: models ---- */
void route_models(const route_call *call);
void route_lora_list(const route_call *call);
void route_lora_scales(const route_call *call);

/* ---- routes_ollama.c: Ollama's server and model requests ---- */
void route_ollama_running(const route_call *call);
void route_ollama_version(const route_call *call);
void route_ollama_tags(const route_call *call);
void route_ollama_ps(const route_call *call);
/* The model that a body names; NULL: *e says why not.  name[cap]: as in the body; asks: its
 * REWRITE_ bits. */
model_entry *route_model(const route_call *call, char *name, size_t cap, unsigned *asks, serve_error *e);
void route_unload(const route_call *call);
void route_ollama_none(const route_call *call);

/* ---- routes_pull.c: downloads and removals ---- */
void route_pull(const route_call *call);
void route_delete(const route_call *call);

#endif
