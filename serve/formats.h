/* Answers as each interface writes them, whole or in a stream.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_FORMATS_H
#define QSF_SERVE_FORMATS_H

#include "front.h"

/* ---- formats.c ---- */
void format_error(serve_text *out, const serve_error *e, bool anthropic);
/* What begins a stream, the end of one answer, the end of all. */
void format_begin(front_job *j, serve_text *out);
void format_choice_end(front_job *j, unsigned choice, serve_text *out);
void format_end(front_job *j, serve_text *out);
/* A whole answer that is not streamed. */
void format_whole(front_job *j, serve_text *out);
/* In a stream: text of an answer that is cut into nothing; and log probabilities that no text took
 * along. */
void format_text(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out);
void format_rest(front_job *j, unsigned choice, serve_text *out);
/* In a stream: an item of an answer begins, goes on, ends. */
void format_item(front_job *j, unsigned choice, const front_item *item, serve_text *out);
void format_item_text(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                      serve_text *out);
void format_item_end(front_job *j, unsigned choice, const front_item *item, serve_text *out);

/* What the interfaces share. */
bool format_cut(const front_choice *ch);                     /* by a length */
bool format_calls(const front_choice *ch);                   /* whether it has whole calls */
void format_usage(const front_job *j, serve_text *out);      /* "usage":{...} */
void format_arguments(const front_item *item, serve_text *out);      /* the object; {} for none */
/* How the client calls a call's tool, if the model knows it by another name or form; else NULL. */
const serve_tool *format_tool(const front_job *j, const front_item *item);
/* "name": as a JSON string, as the client knows it. */
void format_name(const front_job *j, const front_item *item, serve_text *out);
/* The string that a custom tool is called with, out of its arguments. */
void format_input(const front_item *item, serve_text *out);
static inline const char *format_bytes(const serve_text *t) { return t->bytes ? t->bytes : ""; }

/* ---- formats_logprobs.c ---- */
/* A token's log probabilities to the lists of the answer. */
void format_logprob(const front_job *j, front_choice *ch, const serve_event *e);
/* "logprobs":..., of all that is in the lists. */
void format_logprobs(const front_job *j, const front_choice *ch, serve_text *out);
void format_logprobs_clear(front_choice *ch);

/* ---- formats_embeddings.c ---- */
/* Makes the room for a job's embeddings; false: *e says why it cannot be. */
bool embeddings_begin(front_job *j, serve_error *e);
/* The whole answer of /v1/embeddings or /v1/rerank. */
void format_embeddings(const front_job *j, serve_text *out);

/* ---- formats_responses.c, formats_messages.c ---- */
void format_responses_begin(front_job *j, serve_text *out);
void format_responses_item(front_job *j, const front_item *item, serve_text *out);
void format_responses_text(front_job *j, const front_item *item, const char *text, size_t len,
                           serve_text *out);
void format_responses_item_end(front_job *j, const front_item *item, serve_text *out);
void format_responses_end(front_job *j, serve_text *out);
void format_responses_whole(front_job *j, serve_text *out);
/* Keeps a response that has ended, for those that continue it. */
void format_responses_keep(front_job *j);
void format_messages_begin(front_job *j, serve_text *out);
void format_messages_item(const front_job *j, const front_item *item, serve_text *out);
void format_messages_text(const front_item *item, const char *text, size_t len, serve_text *out);
void format_messages_item_end(const front_item *item, serve_text *out);
void format_messages_end(front_job *j, serve_text *out);
void format_messages_whole(front_job *j, serve_text *out);

#endif
