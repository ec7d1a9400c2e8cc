/* What the routes of the server share.
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
    const char         *rest;              /* of the path, after the route's */
    const char         *cors;
    const page_file    *page;
    unsigned            key;
} route_call;

/* ---- routes.c ---- */
/* Sends what is in the front's out. */
void route_reply(const route_call *call);
void route_refuse(const route_call *call, const serve_error *e);

/* ---- routes_status.c: the server itself ---- */
void route_health(const route_call *call);
void route_ping(const route_call *call);
void route_version(const route_call *call);
void route_metrics(const route_call *call);
void route_slots(const route_call *call);
void route_props(const route_call *call);

/* ---- routes_models.c: the models ---- */
void route_models(const route_call *call);
void route_lora_list(const route_call *call);
void route_lora_scales(const route_call *call);

/* ---- routes_ollama.c: what Ollama's clients ask about the server and its models ---- */
void route_ollama_running(const route_call *call);
void route_ollama_version(const route_call *call);
void route_ollama_tags(const route_call *call);
void route_ollama_ps(const route_call *call);
void route_ollama_pull(const route_call *call);
void route_unload(const route_call *call);
void route_ollama_none(const route_call *call);

#endif
