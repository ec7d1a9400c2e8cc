/* Answers as each interface writes them, whole or in a stream.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_FORMATS_H
#define QSF_SERVE_FORMATS_H

#include "front.h"

/* ---- formats.c ---- */
void format_error(serve_text *out, const serve_error *e, error_form form);
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
/* In a stream: an item of an answer begins, continues, ends. */
void format_item(front_job *j, unsigned choice, const front_item *item, serve_text *out);
void format_item_text(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                      serve_text *out);
void format_item_end(front_job *j, unsigned choice, const front_item *item, serve_text *out);

/* In a stream: the progress of a prompt. */
void format_progress(front_job *j, unsigned choice, uint32_t n_done, serve_text *out);

/* ---- formats_parts.c ---- */
bool format_cut(const front_choice *ch);                     /* by a length */
bool format_calls(const front_choice *ch);                   /* whether it has whole calls */
void format_usage(const front_job *j, serve_text *out);      /* "usage":{...} */
void format_arguments(const front_item *item, serve_text *out);      /* the object; {} for none */
/* The client's definition of the call's tool, if the model sees it under another name or kind; else
 * NULL. */
const serve_tool *format_tool(const front_job *j, const front_item *item);
/* "name": with the client's name, as a JSON string. */
void format_name(const front_job *j, const front_item *item, serve_text *out);
/* Extracts a custom tool's input string from the call's arguments. */
void format_input(const front_item *item, serve_text *out);
static inline const char *format_bytes(const serve_text *t) { return t->bytes ? t->bytes : ""; }

/* ---- formats_timings.c ---- */
/* "timings":{...} of one answer, as in llama-server. */
void format_timings(const front_choice *ch, serve_text *out);
/* "prompt_progress":{...} of an answer's prompt. */
void format_progress_member(const front_job *j, unsigned choice, uint32_t n_done, serve_text *out);

/* ---- formats_ollama.c, formats_llama.c: formats of other servers' paths ---- */
void format_ollama_details(const model_entry *m, serve_text *out);   /* "details":{...} */
void format_ollama_time(const model_entry *m, serve_text *out);      /* "...", its file's modification time */
extern const front_form form_ollama_chat, form_ollama_generate, form_ollama_embed, form_ollama_embeddings,
                        form_ollama_show, form_load, form_completion, form_infill,
                        form_embedding, form_score, form_tokenize;

/* ---- formats_logprobs.c ---- */
/* A token's log probabilities to the lists of the answer. */
void format_logprob(const front_job *j, front_choice *ch, const serve_event *e);
/* The same of a token of the prompt, for "logprobs" with "echo" and for "prompt_logprobs". */
void format_prompt_logprob(const front_job *j, front_choice *ch, const serve_event *e);
/* ,"prompt_logprobs":[...] if the request asks for it. */
void format_prompt_logprobs(const front_job *j, const front_choice *ch, serve_text *out);
/* "logprobs":..., of all that is in the lists. */
void format_logprobs(const front_job *j, const front_choice *ch, serve_text *out);
void format_logprobs_clear(front_choice *ch);

/* ---- formats_embeddings.c ---- */
/* Makes the room for a job's embeddings; false: *e says why it cannot be. */
bool embeddings_begin(front_job *j, serve_error *e);
/* The whole answer of /v1/embeddings or /v1/rerank. */
void format_embeddings(const front_job *j, serve_text *out);
/* The vector of input i; the score of document i. */
void format_vector(const front_job *j, unsigned i, serve_text *out);
double format_score(const front_job *j, unsigned document);

/* ---- formats_responses.c, formats_messages.c ---- */
void format_responses_begin(front_job *j, serve_text *out);
void format_responses_item(front_job *j, const front_item *item, serve_text *out);
void format_responses_text(front_job *j, const front_item *item, const char *text, size_t len,
                           serve_text *out);
void format_responses_item_end(front_job *j, const front_item *item, serve_text *out);
void format_responses_end(front_job *j, serve_text *out);
void format_responses_whole(front_job *j, serve_text *out);
/* Stores a finished response, so that later requests can continue it. */
void format_responses_keep(front_job *j);
void format_messages_begin(front_job *j, serve_text *out);
void format_messages_item(const front_job *j, const front_item *item, serve_text *out);
void format_messages_text(const front_item *item, const char *text, size_t len, serve_text *out);
void format_messages_item_end(const front_item *item, serve_text *out);
void format_messages_end(front_job *j, serve_text *out);
void format_messages_whole(front_job *j, serve_text *out);

#endif
