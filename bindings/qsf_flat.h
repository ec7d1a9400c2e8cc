/* The library for other languages: handles that are integers, results that are copied, numbers,
 * texts and options by name, and no call that blocks, except to open, load, save and wait.
 * SPDX-License-Identifier: MIT
 *
 * It is built on qsf.h alone, and its functions take and return only numbers and addresses, so that
 * ctypes, a Node.js addon and a WebAssembly module can call them directly.  docs/flat.md lists the
 * names.
 *
 * Handles.  A model has contexts and adapters, a context has conversations and embeddings, a
 * conversation has answers.  There may be several of each.  0 is not a handle: the parent was
 * invalid, or memory ran out.  A handle that was freed stays invalid, although its number's
 * place is used again.  Handles may be freed in any order: what a handle's children need lives
 * until they are freed too.
 *
 * Results.  A function that returns a status returns a qsf_status.  A function that copies to (dst,
 * cap) returns how many elements (bytes, tokens, floats) there are, of which it has copied at most
 * cap; a negative result is minus a status.  If the result is larger than cap, call again with a
 * larger array.  Texts are terminated: there the result must be smaller than cap.
 *
 * Errors belong to handles: qsf_flat_status, and QSF_TEXT_ERROR for its text.  An invalid handle is
 * QSF_E_ARGUMENT.
 *
 * Options are a list: name, value, name, value, ..., each terminated by a zero byte; an empty name
 * ends it.  NULL: none.  A call that takes options begins with the defaults.
 *
 * Threads.  A context and everything below it is used by one thread at a time, to create and free
 * handles, too; and so is a model with its adapters.  Different models and different contexts, also
 * of one model, may be used at the same time.  qsf_flat_tokens, qsf_flat_token_text and
 * qsf_flat_pair_tokens may be called by any thread, also while another one frees the model. */
#ifndef QSF_FLAT_H
#define QSF_FLAT_H

#include "qsf_flat_names.h"
#include "qsf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Added to QSF_PENDING by functions that step: bytes of the file have not arrived.  Return to the
 * event loop, or call qsf_flat_wait. */
enum { QSF_FLAT_WAITING = 256 };

/* ---- handles --------------------------------------------------------------------------------- */

QSF_API void     qsf_flat_free(uint32_t handle);        /* accepts any number; ends what is under way */
/* The status of the last call on this handle that failed; a handle that was just created has the
 * status of its creation. */
QSF_API int32_t  qsf_flat_status(uint32_t handle);

/* The index of a name in the list of numbers, or of texts (texts true).  -1: unknown name. */
QSF_API int32_t  qsf_flat_find(const char *name, int32_t texts);
/* A number of a handle or of those above it: a conversation has those of its context and its model.
 * i: of numbers of which there are several.  0 if the handle has no such number. */
QSF_API double   qsf_flat_number(uint32_t handle, int32_t number, uint32_t i);
/* A text of a handle or of those above it, to dst.  -QSF_E_NOT_FOUND: not set, or i is past the
 * last. */
QSF_API int32_t  qsf_flat_text(uint32_t handle, int32_t text, uint32_t i, char *dst, size_t cap);

/* ---- models ---------------------------------------------------------------------------------- */

/* Creates a model's handle.  log: NULL, or called with the library's messages, by the thread that
 * causes them. */
QSF_API uint32_t qsf_flat_model_new(qsf_log_fn log, void *user);
/* Before a model or an adapter is opened: its bytes come from read, which is as in qsf_custom_file,
 * and not from a path. */
QSF_API int32_t  qsf_flat_file(uint32_t handle, uint64_t length,
                               qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len),
                               void *user);
/* Opens the model, as qsf_model_open.  With the option draft-mtp, its layer for multi-token
 * prediction, too: contexts then plan memory for that, and the first steps bring it there.
 * QSF_E_UNSUPPORTED: the file lacks such a layer.  After an error it may be called again. */
QSF_API int32_t  qsf_flat_model_open(uint32_t model, const char *path, const char *options);
/* The model of a handle, or of a handle below it, for calls of qsf.h; NULL: it is not open.  It
 * belongs to the handle. */
QSF_API qsf_model *qsf_flat_model(uint32_t handle);

/* As qsf_tokens_encode, qsf_token_piece, qsf_chat_render_json (without the begin-of-text token that
 * the tokenizer adds) and qsf_rerank_encode. */
QSF_API int32_t  qsf_flat_tokens(uint32_t model, const char *text, size_t len, int32_t flags, int32_t *dst,
                                 size_t cap);
QSF_API int32_t  qsf_flat_token_text(uint32_t model, int32_t id, int32_t special, char *dst, size_t cap);
QSF_API int32_t  qsf_flat_chat_text(uint32_t model, const char *messages, size_t len, const char *options,
                                    char *dst, size_t cap);
QSF_API int32_t  qsf_flat_pair_tokens(uint32_t model, const char *query, size_t query_len,
                                      const char *document, size_t len, int32_t *dst, size_t cap);

/* ---- adapters -------------------------------------------------------------------------------- */

QSF_API uint32_t qsf_flat_adapter_new(uint32_t model);
/* As qsf_adapter_load. */
QSF_API int32_t  qsf_flat_adapter_open(uint32_t adapter, const char *path);

/* ---- contexts -------------------------------------------------------------------------------- */

QSF_API uint32_t qsf_flat_context_new(uint32_t model);
/* As qsf_context_plan and qsf_context_new, with room for guesses if layers are streamed
 * (qsf_draft_room).  A handle may plan several times, and opens once. */
QSF_API int32_t  qsf_flat_context_plan(uint32_t context, const char *options);
QSF_API int32_t  qsf_flat_context_open(uint32_t context, const char *options);
/* The context of a handle, or of a handle below it, for calls of qsf.h between batches, such as
 * qsf_logits and qsf_context_use_device; NULL: it is not open.  It belongs to the handle. */
QSF_API qsf_context *qsf_flat_context(uint32_t handle);
/* As qsf_refine, without waiting.  Steps do the same. */
QSF_API int32_t  qsf_flat_refine(uint32_t context);
/* Blocks until the bytes that a step waits for have arrived: qsf_wait. */
QSF_API int32_t  qsf_flat_wait(uint32_t context);

/* ---- conversations --------------------------------------------------------------------------- */

/* A conversation is a sequence of the context (its option seqs sets how many there are) with the
 * tokens that it holds, and a template with its tools: qsf_conversation_new.  options: of chats.
 * Its status is QSF_E_FULL if all sequences are taken. */
QSF_API uint32_t qsf_flat_conversation_new(uint32_t context, const char *options);
/* A context may have more conversations than sequences.  One that leaves has no sequence any more,
 * and its tokens with their keys and values are gone, unless they were saved before
 * (qsf_flat_session_save).  It is seated again before it computes; an answer under way then
 * continues, from what qsf_flat_session_load restores, or by computing its tokens again, with the
 * same result.  QSF_E_FULL: no sequence is free; QSF_E_ARGUMENT: a batch is unfinished, or the
 * answer has pieces. */
QSF_API int32_t  qsf_flat_conversation_seat(uint32_t conversation);
QSF_API int32_t  qsf_flat_conversation_leave(uint32_t conversation);
/* The conversation's sequence, for calls of qsf.h; -1: it has left.  What these put into it must be
 * gone (qsf_seq_truncate) before the conversation is used further. */
QSF_API int32_t  qsf_flat_conversation_sequence(uint32_t conversation);
/* The conversation that should leave first if others need its sequence or memory, except `but`: of
 * those without rows in the last batch the least recently used one; after QSF_E_FULL of
 * qsf_flat_step, the last one in its list; otherwise the least recently used one of all.  0: none,
 * or a batch is unfinished. */
QSF_API uint32_t qsf_flat_oldest(uint32_t context, uint32_t but);
/* Other options of chats instead of these; the tokens stay.  There is then no prompt, answers are
 * not split, and the conversation's answer ends. */
QSF_API int32_t  qsf_flat_conversation_chat(uint32_t conversation, const char *options);
/* The answers that follow are split into reasoning, text and tool calls: qsf_conversation_split.
 * options: of answers.  shape: NULL, or a grammar for an answer that is not a call.  Ends the
 * conversation's answer. */
QSF_API int32_t  qsf_flat_conversation_split(uint32_t conversation, const char *options, int32_t kind,
                                             const char *shape, size_t len);
/* Sets the prompt of the next answer, all of the conversation so far: messages in JSON, a string
 * without a template, or tokens (qsf_conversation_json, ...).  An answer under way continues. */
QSF_API int32_t  qsf_flat_conversation_json(uint32_t conversation, const char *messages, size_t len);
QSF_API int32_t  qsf_flat_conversation_text(uint32_t conversation, const char *text, size_t len);
QSF_API int32_t  qsf_flat_conversation_ids(uint32_t conversation, const int32_t *ids, size_t n);
/* The tokens of the prompt, and those that the sequence holds. */
QSF_API int32_t  qsf_flat_conversation_prompt(uint32_t conversation, int32_t *dst, size_t cap);
QSF_API int32_t  qsf_flat_conversation_tokens(uint32_t conversation, int32_t *dst, size_t cap);
/* What is computed from now on uses these n adapters.  If they change, the conversation is
 * emptied. */
QSF_API int32_t  qsf_flat_conversation_adapt(uint32_t conversation, const uint32_t *adapters,
                                             const float *scales, size_t n);
/* As qsf_session_save and qsf_session_load.  Loading ends the conversation's answer, unless the
 * conversation has just been seated again; saving ends it only if its batch is unfinished. */
QSF_API int32_t  qsf_flat_session_save(uint32_t conversation, qsf_write_fn write, void *user);
QSF_API int32_t  qsf_flat_session_load(uint32_t conversation, uint64_t length,
                                       qsf_status (*read)(void *user, uint64_t at, void *dst, size_t len),
                                       void *user);

/* ---- answers --------------------------------------------------------------------------------- */

/* An answer of a conversation.  options: of samplers and of turns. */
QSF_API uint32_t qsf_flat_answer_new(uint32_t conversation, const char *options);
/* As qsf_sampler_bias, qsf_sampler_ban and qsf_sampler_breaker, and a string that ends the answer.
 * QSF_E_ARGUMENT while the answer is under way, also for its grammar. */
QSF_API int32_t  qsf_flat_answer_bias(uint32_t answer, int32_t token, double bias);
QSF_API int32_t  qsf_flat_answer_ban(uint32_t answer, const char *text, size_t len);
QSF_API int32_t  qsf_flat_answer_breaker(uint32_t answer, const char *text, size_t len);
QSF_API int32_t  qsf_flat_answer_stop(uint32_t answer, const char *text, size_t len);
/* The answer matches a grammar: qsf_grammar_new.  options: of answers. */
QSF_API int32_t  qsf_flat_answer_grammar(uint32_t answer, const char *options, int32_t kind, const char *text,
                                         size_t len);
/* Begins the answer to the conversation's prompt: qsf_conversation_begin.  Another answer of the
 * conversation ends.  QSF_E_ARGUMENT if another conversation of the context has an unfinished
 * batch. */
QSF_API int32_t  qsf_flat_answer_begin(uint32_t answer);
/* The next piece: qsf_conversation_next.  QSF_PENDING: step first. */
QSF_API int32_t  qsf_flat_answer_next(uint32_t answer);
/* Computes at most one layer: qsf_turn_step.  After QSF_OK, read the next pieces, until
 * QSF_PENDING, before another answer of the context steps: until then that is QSF_E_ARGUMENT. */
QSF_API int32_t  qsf_flat_answer_step(uint32_t answer);
/* Computes at most one layer of a batch with rows of all these answers, each of another
 * conversation that has a sequence: a schedule decides how many rows each has (qsf_schedule.h).
 * While a batch is unfinished the list is not looked at.  After QSF_OK, read the next pieces of
 * each of them, until QSF_PENDING.  QSF_E_FULL: out of room; let qsf_flat_oldest leave, and call
 * again.  Another error has ended the answers. */
QSF_API int32_t  qsf_flat_step(uint32_t context, const uint32_t *answers, size_t n);
/* The type of the piece's next event (qsf_answer_event_type); 0: no more.  Without
 * qsf_flat_conversation_split all events are QSF_ANSWER_TEXT.  Events that were not taken are lost
 * when the conversation is used further. */
QSF_API int32_t  qsf_flat_answer_event(uint32_t answer);
/* The piece's log probabilities: cap elements of each array. */
QSF_API int32_t  qsf_flat_answer_logprobs(uint32_t answer, int32_t *tokens, float *logprobs, size_t cap);

/* Ends an answer or an embedding that is under way.  Its handle stays. */
QSF_API void     qsf_flat_cancel(uint32_t handle);

/* ---- embeddings ------------------------------------------------------------------------------ */

/* Embeddings or scores, one after another.  options: of embeddings.  parent: a context or, for an
 * embedding in the sequence and with the adapters of one conversation, that conversation. */
QSF_API uint32_t qsf_flat_embedding_new(uint32_t parent, const char *options);
/* Begins n texts of lens[i] tokens, which are copied: qsf_embed_begin, or qsf_rerank_begin.  The
 * conversation, or all of the context, are emptied and their answers end. */
QSF_API int32_t  qsf_flat_embedding_begin(uint32_t embedding, const int32_t *ids, const size_t *lens,
                                          size_t n);
/* Computes at most one layer.  QSF_OK: the results are complete. */
QSF_API int32_t  qsf_flat_embedding_step(uint32_t embedding);
/* The results, as in qsf_embed_texts. */
QSF_API int32_t  qsf_flat_embedding_values(uint32_t embedding, float *dst, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
