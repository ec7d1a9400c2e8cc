/* What the files that read requests share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_REQUEST_OWN_H
#define QSF_SERVE_REQUEST_OWN_H

#include "request.h"
#include "text.h"

#include <yyjson.h>

/* ---- request.c ---- */
/* Zeroed memory that lives as long as the request.  NULL: *e says that there is none. */
void *request_alloc(serve_request *r, size_t n, size_t size, serve_error *e);
/* The same with a text that was put together, which is freed. */
const char *request_keep(serve_request *r, serve_text *text, serve_error *e);
/* Refusals; false always. */
bool request_wrong_type(serve_error *e, const char *name, const char *wanted, yyjson_val *v);
bool request_unsupported(serve_error *e, const char *name);
bool request_missing(serve_error *e, const char *name);
/* Whether a value asks for nothing: null, false, an empty list or object. */
bool request_is_empty(yyjson_val *v);
/* A text without zero bytes; NULL: refused. */
const char *request_text(yyjson_val *v, const char *name, serve_error *e);
/* A value as JSON. */
void request_json(serve_text *out, yyjson_val *v);

bool request_prompts(serve_request *r, yyjson_val *v, const char *name, serve_error *e);

/* ---- request_embeddings.c ---- */
bool request_encoding(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_query(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_documents(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
/* Whether a query and documents are there. */
bool request_rerank(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_messages.c ---- */
/* The conversation of a request, to r->messages. */
bool request_messages(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_tools.c ---- */
/* Tools, the choice among them, and variables of the template. */
bool request_tools(serve_request *r, yyjson_val *root, serve_error *e);
bool request_kwargs(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_defaults.c ---- */
/* The server's variables of the template (NULL: none), where the request has none of the name. */
bool request_default_kwargs(serve_request *r, const char *kwargs, serve_error *e);

/* ---- request_lora.c ---- */
bool request_scales(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_lora_path(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_lora_name(serve_request *r, yyjson_val *v, const char *name, serve_error *e);

/* ---- request_shape.c ---- */
bool request_shape(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_sampling.c ---- */
bool request_biases(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_bans(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_breakers(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_logprobs(serve_request *r, yyjson_val *root, serve_error *e);

#endif
