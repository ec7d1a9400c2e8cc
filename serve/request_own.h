/* What the files that read requests share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_REQUEST_OWN_H
#define QSF_SERVE_REQUEST_OWN_H

#include "request.h"
#include "text.h"

#include <yyjson.h>

/* ---- request_values.c ---- */
/* Zeroed memory that lives as long as the request.  NULL: out of memory; *e is set. */
void *request_alloc(serve_request *r, size_t n, size_t size, serve_error *e);
/* Copies a string that was built in text, and frees text. */
const char *request_keep(serve_request *r, serve_text *text, serve_error *e);
/* JSON's name of a value's type, or "missing". */
const char *request_type(yyjson_val *v);
/* Refusals; false always. */
bool request_wrong_type(serve_error *e, const char *name, const char *wanted, yyjson_val *v);
bool request_unsupported(serve_error *e, const char *name);
bool request_missing(serve_error *e, const char *name);
/* Notes that a field, or a member of where, has no effect; the answer's header names it.  false:
 * --strict refuses it. */
bool request_ignore(serve_request *r, const char *where, const char *name, serve_error *e);
/* Whether a value asks for nothing: null, false, an empty list or object. */
bool request_is_empty(yyjson_val *v);
/* A text without zero bytes; NULL: refused. */
const char *request_text(yyjson_val *v, const char *name, serve_error *e);
/* A value as JSON. */
void request_json(serve_text *out, yyjson_val *v);
/* A whole number; 1.0 counts as one. */
bool request_whole(yyjson_val *v, int64_t *out);

/* ---- request_prompts.c ---- */
bool request_prompts(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_tokens(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_content(serve_request *r, yyjson_val *v, const char *name, serve_error *e);

/* ---- request_fields.c ---- */
/* Reads all fields of the body by the table. */
bool request_fields(serve_request *r, yyjson_val *root, serve_error *e);
/* A field of the body that the API has; NULL: unknown to it, missing or null. */
yyjson_val *request_field(const serve_request *r, yyjson_val *root, const char *name);

/* ---- request_embeddings.c ---- */
bool request_encoding(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_query(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_queries(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_documents(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
/* Whether a query and documents are there. */
bool request_rerank(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_infill.c ---- */
bool request_suffix(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_middle(serve_request *r, yyjson_val *v, const char *name, serve_error *e);
bool request_extra(serve_request *r, yyjson_val *v, const char *name, serve_error *e);

/* ---- request_drafts.c ---- */
/* A message under construction: calls may follow as items of their own. */
typedef struct message_draft {
    const char *role;                       /* NULL: none */
    const char *content, *reasoning, *name, *call_id;
    serve_text  calls;
} message_draft;

typedef struct message_list {
    serve_request *r;
    serve_error   *e;
    const char    *name;                    /* of the field */
    size_t         place;                   /* index of the current item */
    serve_text     out;
    message_draft  draft;
} message_list;

void draft_end(message_list *l);
void draft_begin(message_list *l, const char *role);
/* Appends text to the draft if it has this role, else begins a new one. */
bool draft_text(message_list *l, const char *role, const char *text);
/* Adds a call to the assistant's message; arguments: an object, or a string that contains one. */
void draft_call(message_list *l, const char *id, const char *name, yyjson_val *arguments);
/* The same for a tool that takes one string. */
void draft_custom_call(message_list *l, const char *id, const char *name, const char *input);
/* The position in the request: "list[place].member", in the caller's buffer. */
enum { MESSAGE_WHERE = 80 };
const char *message_where(const message_list *l, const char *member, char out[MESSAGE_WHERE]);
bool message_ignore(message_list *l, const char *member);
const char *message_role(message_list *l, yyjson_val *v);

/* ---- request_messages.c ---- */
/* The conversation of a request, to r->messages. */
bool request_messages(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_chat.c ---- */
/* One message of OpenAI's chat or of /v1/responses. */
bool message_chat(message_list *l, yyjson_val *v);

/* ---- request_parts.c ---- */
/* The text of a message's content: a string or a list of parts.  Images become notes in role "tool"
 * and are refused in others.  NULL: refused. */
const char *message_content(message_list *l, yyjson_val *v, const char *role, const char *where);
/* Writes one part of a content to out as text.  false: refused. */
bool part_text(message_list *l, yyjson_val *part, const char *role, const char *where, serve_text *out);
/* Writes something without an equivalent in a conversation as text that a model can read. */
void part_readable(serve_text *out, yyjson_val *v);

/* ---- request_items.c ---- */
/* One item of the input of /v1/responses. */
bool message_item(message_list *l, yyjson_val *v);

/* ---- request_blocks.c ---- */
/* One message of /v1/messages. */
bool message_blocks(message_list *l, yyjson_val *v);

/* ---- request_tools.c ---- */
/* Reads the tools and the tool choice. */
bool request_tools(serve_request *r, yyjson_val *root, serve_error *e);
/* The name under which the model sees a namespace's tool; NULL: out of memory. */
const char *request_spaced(serve_request *r, const char *space, const char *name, serve_error *e);

/* ---- request_kwargs.c ---- */
/* Sets the chat template's variables. */
bool request_kwargs(serve_request *r, yyjson_val *root, serve_error *e);

/* ---- request_defaults.c ---- */
/* Adds the server's template variables (NULL: none) that the request does not set itself. */
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
bool request_samplers(serve_request *r, yyjson_val *v, const char *name, serve_error *e);

/* ---- request_logprobs.c ---- */
bool request_logprobs(serve_request *r, yyjson_val *root, serve_error *e);

#endif
