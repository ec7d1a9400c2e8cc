/* A request's JSON as a struct: what is asked of the model, checked.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_REQUEST_H
#define QSF_SERVE_REQUEST_H

#include "qsf.h"
#include "text.h"

/* Which interface a request belongs to, as bits: a field may belong to several. */
typedef enum serve_api {
    API_COMPLETIONS = 1, API_CHAT = 2, API_RESPONSES = 4, API_MESSAGES = 8, API_GENERATE = 16,
    API_TOKENIZE = 32, API_DETOKENIZE = 64, API_TEMPLATE = 128, API_EMBEDDINGS = 256, API_RERANK = 512,
    API_COUNT = 1024,                 /* API_MESSAGES, of which only the prompt is wanted */
    API_LORA_LOAD = 2048, API_LORA_UNLOAD = 4096,
    API_COUNT_CHAT = 8192, API_COUNT_RESPONSES = 16384,       /* as API_COUNT */
    API_ANSWERS = API_COMPLETIONS | API_CHAT | API_RESPONSES | API_MESSAGES | API_GENERATE,
    API_LORAS = API_LORA_LOAD | API_LORA_UNLOAD,
    API_EMBEDDED = API_EMBEDDINGS | API_RERANK,
    API_MESSAGE_LISTS = API_CHAT | API_RESPONSES | API_MESSAGES | API_TEMPLATE
} serve_api;

/* A refusal.  param: the field; type and code as OpenAI's interface names them. */
typedef struct serve_error {
    int         status;               /* of HTTP; 0: none */
    const char *type, *code;          /* code may be NULL */
    char        param[80], text[400];
} serve_error;

/* Fills *e unless it says something already; false always.  param may be NULL. */
bool serve_refuse(serve_error *e, int status, const char *code, const char *param, const char *format, ...)
    SERVE_PRINTF(5, 6);

/* A text, or token ids where ids is not NULL. */
typedef struct serve_prompt {
    const char    *text;
    size_t         len;
    const int32_t *ids;
    size_t         n_ids;
} serve_prompt;

enum {
    SERVE_STOPS = 64, SERVE_CHOICES = 128, SERVE_MESSAGES = 4096, SERVE_DEPTH = 64, SERVE_TOOLS = 512,
    SERVE_BIASES = 4096, SERVE_TEXTS = 256,     /* of bans, and of breakers */
    SERVE_INPUTS = 2048,                        /* texts of a request for embeddings */
    SERVE_VARIABLES = 64,                       /* of a chat template: each is looked up among all */
    SERVE_SCALES = 64,                          /* adapters */
    SERVE_CONTENT = 1 << 20                     /* bytes of the input of /tokenize */
};

/* A text with its length. */
typedef struct serve_words { const char *text; size_t len; } serve_words;

/* An adapter by its id, and how much of it. */
typedef struct serve_scale { uint64_t id; float scale; } serve_scale;

/* What the answer has to be: a grammar's text.  strict: what cannot be kept of a schema is refused;
 * else the answer is then any object. */
typedef struct serve_shape {
    qsf_grammar_kind kind;
    serve_words      text;                   /* text.text NULL: anything */
    bool             strict;
    const char      *param;                  /* the field that says it */
} serve_shape;

/* How answers write a tool that the model sees under another name or kind. */
typedef struct serve_tool {
    const char *seen;                        /* the name that the model sees */
    const char *name, *space;                /* the client's name, and its namespace or NULL */
    bool        custom;                      /* its one argument is a string, "input" */
} serve_tool;

struct kept_responses;

typedef struct serve_request {
    serve_api     api;
    void         *doc;                       /* texts and lists lie in it and in owned */
    void         *owned;
    const char   *model;                     /* NULL: not said */
    /* Of completions, /generate, /tokenize; /detokenize's ids; texts of embeddings; of rerank the
     * query, then the documents. */
    serve_prompt *prompts;
    size_t        n_prompts;
    serve_words   suffix;                    /* the text after the answer */
    serve_words   middle;                    /* infill: the answer's beginning */
    serve_words  *extra;                     /* infill: names and texts of other files, alternating */
    size_t        n_extra;                   /* number of both together */
    size_t        n_queries;                 /* rerank: 1, or one per document */
    serve_words   messages;                  /* JSON, as OpenAI's chat has them */
    size_t        n_messages;
    /* JSON or NULL: tools in OpenAI's chat format; other variables of the template */
    const char   *tools, *kwargs;
    const char   *tool_choice;               /* "auto", "none", "required" or a tool's name */
    serve_tool   *renamed;                   /* tools that answers write differently */
    size_t        n_renamed;
    serve_shape   shape;
    const char   *stops[SERVE_STOPS];
    size_t        stop_lengths[SERVE_STOPS];
    size_t        n_stops;
    qsf_logit_bias *biases;
    serve_words  *bans, *breakers;
    size_t        n_biases, n_bans, n_breakers;
    int32_t       stop_ids[SERVE_STOPS];     /* tokens that end the answer */
    size_t        n_stop_ids;
    const char   *session;                   /* NULL: none */
    const char   *previous;                  /* the response being continued; NULL: none */
    size_t        n_instructions, n_system;  /* bytes and number of the leading messages that are not stored
                                              * with a response */
    const struct kept_responses *kept;       /* NULL: none */
    unsigned      key;                       /* which client's */
    char          ignored[400];              /* "a, b": fields without effect, reported to the client */
    serve_scale  *scales;                    /* of adapters; those that are not there have 0 */
    size_t        n_scales;                  /* 0: nothing is said */
    const char   *lora_name, *lora_path;
    double        lora_scale;
    int64_t       max_tokens;                /* -1: not said */
    int64_t       reasoning_budget;          /* maximum tokens of reasoning, -1: no limit */
    int64_t       dimensions, top_n;         /* 0: all */
    int64_t       n, best_of, seed, priority, beam_width, min_tokens;
    int64_t       logprobs;                  /* -1: none; else also those of the n most likely */
    qsf_sampler_options sampler;             /* without the seed */
    qsf_status  (*prepare)(const void *user, const qsf_model *m, qsf_sampler *s, qsf_error *err);
    const void   *user;                      /* both as in serve_defaults */
    double        timeout, length_penalty;
    bool          seeded, stream, usage, echo, ignore_end, add_special, parse_special, generate,
                  continue_final, parallel, counts, own_breakers, base64, documents,
                  infill, truncate, timings, progress,
                  tokens;                    /* report every token, even without text */
    bool          strict, store, show_special, legacy_calls;    /* legacy: "functions", not "tools" */
} serve_request;

/* Answers to each prompt that are made: n of them are given. */
static inline unsigned serve_request_each(const serve_request *r)
{
    return (unsigned)(r->best_of > r->n ? r->best_of : r->n);
}

/* Whether the prompts' tokens are asked for their log probabilities, too. */
static inline bool serve_request_scores(const serve_request *r) { return r->echo && r->logprobs >= 0; }

/* What fields that are not there mean. */
typedef struct serve_defaults {
    qsf_sampler_options sampler;      /* seed: if not 0, used by every request that sets none */
    int64_t max_tokens, reasoning_budget;       /* -1: no limit */
    const char *kwargs;               /* of the chat template, as a JSON object; NULL: none */
    /* Prepares a new sampler before the request's own fields apply; NULL: nothing to do.  Called
     * from any thread. */
    qsf_status (*prepare)(const void *user, const qsf_model *m, qsf_sampler *s, qsf_error *err);
    const void *user;                 /* its first argument */
    bool    strict;                          /* refuse unknown fields */
    const struct kept_responses *kept;       /* responses that requests may continue; NULL: none */
    unsigned key;                            /* which client's */
} serve_defaults;

/* Reads text[0..len), which is not changed.  false: *e says why; *r is freed all the same. */
bool serve_request_read(serve_request *r, serve_api api, const char *text, size_t len,
                        const serve_defaults *d, serve_error *e);
void serve_request_free(serve_request *r);
/* Adds "where.name" (where may be NULL) to the fields that are reported to have no effect. */
void serve_request_ignored(serve_request *r, const char *where, const char *name);
/* Whether the string is a JSON object. */
bool serve_is_object(const char *json);
/* The table of fields and their support in each API, in Markdown. */
void serve_request_list(serve_text *out);

/* ---- request_lora.c ---- */
/* Reads a body that is a list of adapters and scales, to scales[SERVE_SCALES].  false: *e says
 * why. */
bool serve_scales_read(const char *text, size_t len, serve_scale *scales, size_t *n, serve_error *e);

#endif
