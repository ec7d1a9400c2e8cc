/* Bodies of Ollama's, llama-server's and vLLM's own paths, rewritten into bodies of ours.
 * SPDX-License-Identifier: MIT
 *
 * A rewriter knows how another server names and nests things.  The result goes through
 * serve_request_read like any other body, so values are checked in one place.  Members that a
 * rewriter does not know are passed on under their own names, and are then treated as unknown
 * members of any request. */
#ifndef QSF_SERVE_REWRITE_H
#define QSF_SERVE_REWRITE_H

#include "request.h"

/* What the answer needs to know of the original request, as bits. */
enum {
    REWRITE_LOAD = 1,               /* an empty request: it only loads the model */
    REWRITE_UNLOAD = 2,             /* the same with a keep_alive of 0: the model may go */
    REWRITE_TOKENS = 4,             /* the answer's token ids are wanted */
    REWRITE_COUNT = 8,              /* vLLM's form of /tokenize: with the number of tokens */
    REWRITE_PIECES = 16,            /* tokens with their texts */
    REWRITE_LIST = 32               /* several prompts were given as a list: so is the answer */
};

typedef struct serve_rewritten {
    serve_api  api;                 /* whose body it has become */
    serve_text json;
    unsigned   asks;
} serve_rewritten;

/* Rewrites text[0..len).  false: *e says why not; out->json is to be freed all the same. */
typedef bool (*serve_rewriter)(const char *text, size_t len, serve_rewritten *out, serve_error *e);

/* ---- rewrite_ollama.c ---- */
bool rewrite_ollama_chat(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_generate(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_embed(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_ollama_embeddings(const char *text, size_t len, serve_rewritten *out, serve_error *e);
/* Of paths that name a model and nothing else that matters here. */
bool rewrite_ollama_model(const char *text, size_t len, serve_rewritten *out, serve_error *e);

/* ---- rewrite_llama.c ---- */
bool rewrite_completion(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_infill(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_embedding(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_score(const char *text, size_t len, serve_rewritten *out, serve_error *e);
bool rewrite_tokenize(const char *text, size_t len, serve_rewritten *out, serve_error *e);

#endif
