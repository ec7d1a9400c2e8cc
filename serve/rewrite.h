/* Rewrites bodies of Ollama's, llama-server's and vLLM's own paths into bodies of our APIs.
 * SPDX-License-Identifier: MIT
 *
 * A rewriter knows how another server names and nests things.  The result goes through
 * serve_request_read like any other body, so values are checked in one place.  Members that a
 * rewriter does not know are passed on under their own names, and are then treated as unknown
 * members of any request. */
#ifndef QSF_SERVE_REWRITE_H
#define QSF_SERVE_REWRITE_H

#include "request.h"

/* What the answer needs to know about the original request, as bits. */
enum {
    REWRITE_LOAD = 1,               /* an empty request that only loads the model */
    REWRITE_UNLOAD = 2,             /* the same with keep_alive 0: unloads the model */
    REWRITE_TOKENS = 4,             /* include the answer's token ids */
    REWRITE_COUNT = 8,              /* vLLM's /tokenize: include the number of tokens */
    REWRITE_PIECES = 16,            /* tokens with their texts */
    REWRITE_LIST = 32,              /* the prompts came as a list, so the answer is a list */
    REWRITE_WHOLE = 64              /* "stream": false was asked; Ollama streams by default */
};

typedef struct serve_rewritten {
    serve_api  api;                 /* the API of the rewritten body */
    serve_text json;
    unsigned   asks;
} serve_rewritten;

/* Rewrites text[0..len).  false: *e says why not; free out->json in either case. */
typedef bool (*serve_rewriter)(const char *text, size_t len, serve_rewritten *out, serve_error *e);

/* ---- rewrite_ollama.c ---- */
bool rewrite_ollama_chat(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_generate(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_embed(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_embeddings(const char *text, size_t len, serve_rewritten *out, serve_error *e);
/* For paths whose only relevant member is the model's name. */
bool rewrite_ollama_model(const char *text, size_t len, serve_rewritten *out, serve_error *e);

/* ---- rewrite_llama.c ---- */
bool rewrite_completion(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_infill(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_embedding(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_score(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_tokenize(const char *text, size_t len, serve_rewritten *out, serve_error *e);

#endif
