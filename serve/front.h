/* What the files of the HTTP side share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_FRONT_H
#define QSF_SERVE_FRONT_H

#include "http.h"
#include "kept_responses.h"
#include "models.h"
#include "rewrite.h"

typedef struct serve_front serve_front;
typedef struct front_job front_job;
typedef struct front_pull front_pull;

/* Bytes: the headers that a preflight may ask for; all header lines that CORS adds; all extra
 * header lines of an answer. */
enum { ACCESS_HEADERS = 1024, ACCESS_LINES = ACCESS_HEADERS + 640, ANSWER_LINES = ACCESS_LINES + 640 };

/* The API whose error format is used: {"error": {...}} of OpenAI, Anthropic's, {"error": "..."} of
 * Ollama. */
typedef enum error_form { ERRORS_OPENAI, ERRORS_ANTHROPIC, ERRORS_OLLAMA } error_form;

/* A part of an answer: text, reasoning or a call. */
typedef enum item_kind { ITEM_TEXT, ITEM_REASONING, ITEM_CALL } item_kind;
typedef struct front_item {
    item_kind  kind;
    unsigned   index;                        /* among the answer's */
    bool       over, dropped;                /* dropped: a call that turned out to be none */
    bool       cut;                          /* a call in which the answer ends */
    serve_text name, text;                   /* of a call its arguments */
    char       id[64];
} front_item;

/* One answer of a job. */
typedef struct front_choice {
    serve_text   text;                       /* of answers that are not cut into items */
    qsf_conversation *talk;                  /* cuts it into items; NULL: this one is not */
    front_item  *items;
    unsigned     n_items, cap_items;
    serve_text   logprobs[4];                /* JSON; which lists: formats_logprobs.c */
    serve_text   prompt_logprobs;            /* JSON: one element for each token */
    size_t       n_told, n_characters;       /* bytes of logprobs[0] that a stream has; of the text */
    qsf_turn_end end;
    bool         over, late, left_out;       /* left_out: others were better (best_of) */
    uint32_t     n_prompt, n_kept, n_tokens;
    uint32_t     n_drafted, n_accepted;    /* draft tokens, known at the end */
    uint64_t     begun_ns, first_ns, last_ns;      /* of prompt, first, last token or step; 0: not yet */
    serve_text   tokens;                     /* token ids as JSON, if the request wants them */
    double       score;                      /* of a beam, of one among the best */
} front_choice;

/* Where a job is computed, and what of it counts there. */
typedef struct rank_place {
    int      rank;
    uint32_t slot;                           /* of the job, among those of other ranks */
    uint64_t tokens;                         /* that are still to be computed before its first event */
    bool     counts, over;                   /* it is among that rank's; rank 0 knows that it is over */
    bool     everywhere;                     /* all ranks have it: of /v1/load_lora_adapter */
    unsigned n_left;                         /* ranks that have not answered that */
    uint32_t adapter;                        /* the id that it gets, ... */
    uint64_t sum;                            /* ... and what its files are at rank 0 */
    char     code[48];                       /* of an error that a rank has sent */
} rank_place;

/* How another server's paths read bodies and write answers.  NULL text(): streams have the format
 * of the request's API; NULL whole(): complete answers have it. */
typedef struct front_form {
    serve_rewriter rewrite;
    error_form     errors;
    const char    *stream_type;              /* content type of a stream; NULL: text/event-stream */
    bool           lines;                    /* a stream is JSON lines, which cannot hold comments */
    /* Answers a request that generates nothing (REWRITE_LOAD), once its model is loaded. */
    bool (*reply)(front_job *j, serve_text *out, serve_error *e);
    /* In a stream: text of an answer without items, text of an item, end of an item, end of an
     * answer, end of the stream (which may be an error). */
    void (*text)(front_job *j, unsigned choice, const char *text, size_t len, serve_text *out);
    void (*item_text)(front_job *j, unsigned choice, const front_item *item, const char *text, size_t len,
                      serve_text *out);
    void (*item_end)(front_job *j, unsigned choice, const front_item *item, serve_text *out);
    void (*choice_end)(front_job *j, unsigned choice, serve_text *out);
    void (*end)(front_job *j, serve_text *out);
    void (*whole)(front_job *j, serve_text *out);
    /* In a stream: progress of a prompt; NULL: not reported. */
    void (*progress)(front_job *j, unsigned choice, uint32_t n_done, serve_text *out);
} front_form;

/* How a job counts among those of its model.  While it waits nothing of it is done yet. */
typedef enum job_hold { HOLD_NONE, HOLD_WAITS, HOLD_USES } job_hold;

struct front_job {
    serve_job     job;
    serve_front  *front;
    http_conn    *conn;                      /* NULL: the client has gone */
    model_entry  *entry;                     /* its model, among whose jobs it counts */
    const char   *adapter;                   /* its name in that of the model; NULL: none */
    serve_adapter *loading;                  /* of /v1/load_lora_adapter */
    char          model[SERVE_NAME + ADAPTER_NAME];      /* both names, as answers have them */
    front_job    *before, *next;
    uint64_t      number;                    /* of the job, counted */
    char          id[40];
    long long     created;
    front_choice *choices;                   /* [job.n_branches] */
    unsigned      n_over;
    uint32_t      sequence;                  /* of the events of /v1/responses */
    serve_grammar *grammar;                  /* NULL: none */
    bool          waits;                     /* for its grammar */
    job_hold      hold;
    qsf_conversation *talk;                  /* a chat's prompt; then it is the first choice's */
    const http_request *asked;               /* as long as conn is */
    const front_form *form;                  /* NULL: the format of the request's API */
    serve_rewritten body;                    /* the body, if the form rewrites it */
    uint64_t      ready_ns;                  /* when its model was loaded */
    uint64_t      told_ns;                   /* last write to its stream; 0: not started */
    rank_place    at;                        /* where several ranks serve */
    char          cors[ANSWER_LINES];        /* header lines of the answer, until it is sent */
    size_t        n_cors;                    /* bytes of them that name no ignored fields */
    bool          begun;                     /* the stream's first event is written */
    serve_error   error;                     /* of an answer that failed */
};

struct access_rules;
struct serve_ranks;
struct serve_front {
    const serve_settings *set;
    model_list    *models;
    struct event_base *base;
    struct event  *tick;                     /* looks at jobs that wait for models */
    http_server   *http;
    struct access_rules *access;
    struct serve_ranks *ranks;               /* NULL: no others serve */
    long long      started;
    front_job     *jobs;
    unsigned       n_jobs, n_waiting;        /* n_waiting: for models */
    front_pull    *pulls;                    /* clients that wait for downloads and removals */
    uint64_t       numbers;                  /* of jobs */
    serve_text     out;                      /* what is written to a client next */
    bool           drains;
    kept_responses *responses;               /* those of /v1/responses */
};

static inline error_form front_errors(const front_job *j)
{
    return j->form ? j->form->errors : j->job.request.api == API_MESSAGES ? ERRORS_ANTHROPIC : ERRORS_OPENAI;
}
/* The request's body, rewritten if its form does so. */
static inline const char *front_body(const front_job *j, size_t *len)
{
    const bool rewritten = j->body.json.len != 0;
    *len = rewritten ? j->body.json.len : j->asked->n_body;
    return rewritten ? j->body.json.bytes : j->asked->body;
}

/* ---- access.c: who may ask ---- */
struct access_rules *access_new(const serve_settings *set, qsf_error *err);
void access_free(struct access_rules *a);            /* takes NULL */
bool access_read_keys(struct access_rules *a, qsf_error *err);       /* the file, again; false: as before */
/* Whether the request may be answered; *key: the client's number.  open: without a key, too. */
bool access_allowed(const struct access_rules *a, const http_head *h, bool open, unsigned *key,
                    serve_error *e);
/* Writes the CORS header lines of the answer to out[ACCESS_LINES]; "" if it needs none. */
const char *access_cors(const struct access_rules *a, const http_head *h, char *out, size_t cap);

/* ---- jobs.c: from a request to events ---- */
/* form: NULL if body and answer have the API's own format. */
void front_answer(serve_front *f, http_conn *c, const http_request *r, serve_api api, const front_form *form,
                  unsigned key, const char *cors);
void front_events(serve_front *f);                   /* takes all that are there, grammars, models */
void front_waiting(serve_front *f);                  /* looks at jobs that wait for models */
/* Begins a job that has come from another process: it has a request, tokens and a model. */
void front_job_take(front_job *j);
/* All other ranks have answered that they have an adapter, or that they cannot (error). */
void front_lora_told(front_job *j);

/* ---- job_life.c ---- */
void front_job_list(front_job *j);                   /* it is one of the server's from here on */
void front_job_hold(front_job *j, job_hold hold);    /* how it counts among those of its model */
/* Adds the events that open a stream to the output, unless they are already sent. */
void front_job_first(front_job *j);
void front_job_drop(front_job *j);                   /* ends it and releases its model */
void front_job_free(front_job *j);
void front_gone(void *front, void *job);             /* its client has */

/* ---- job_events.c ---- */
/* What the engine says of a job, this one's or another rank's. */
void front_event(front_job *j, const serve_event *ev, const char *text);
/* Writes a keep-alive to streams that have been silent for too long. */
void front_ping(serve_front *f);
/* The drain time is over: ends running answers with an error. */
void front_drained(serve_front *f);

/* ---- job_tokens.c ---- */
/* Tokens of a request's prompts.  false: *e says why. */
bool front_tokens(front_job *j, serve_tokens **out, unsigned *n, serve_error *e);
void front_tokens_free(serve_tokens *t, unsigned n);
const char *front_prompt_field(const serve_request *r);      /* that the request's texts stand in */

/* ---- loras.c: adapters ---- */
/* The adapters of a job's answers, to job.lora.  false: *e says why it cannot have them. */
bool lora_choose(front_job *j, serve_error *e);
/* Makes what is to be loaded.  false: *e says why it may not. */
bool lora_begin(front_job *j, serve_error *e);
/* It was read: the model gets it, and out the answer.  false: *e says why not. */
bool lora_loaded(front_job *j, serve_text *out, serve_error *e);
/* Drops an adapter that was unloaded, or that a rank could not read. */
void lora_drop(serve_front *f, uint32_t id);
bool lora_unload(front_job *j, serve_text *out, serve_error *e);
void lora_write(serve_front *f, serve_text *out);            /* the list */
bool lora_scales(serve_front *f, const http_request *r, serve_error *e);       /* the default scales */
void lora_scales_set(serve_front *f, const serve_scale *scales, size_t n);   /* the same, checked */

/* ---- infill.c ---- */
/* Whether the model's vocabulary has fill-in-the-middle tokens. */
bool infill_known(const qsf_model *m);
/* The tokens of a fill-in-the-middle prompt: prefix, suffix and the request's other files.  false:
 * *e says why. */
bool infill_tokens(const qsf_model *m, const serve_request *r, const serve_prompt *p, serve_tokens *out,
                   serve_error *e);

/* ---- conversations.c: what a chat's template makes of a request ---- */
/* The template's source or name; "" if the model is not loaded. */
const char *front_template(const serve_front *f, const model_entry *m);
/* A conversation for the job's messages; NULL: *e says why. */
qsf_conversation *front_conversation(const front_job *j, serve_error *e);
/* Writes them to j->talk, as tokens.  false: *e says why not. */
bool front_encode(front_job *j, serve_error *e);
/* Its text, to be freed.  NULL: *e says why. */
char *front_render(const front_job *j, size_t *len, serve_error *e);

/* ---- texts.c: what is asked of a tokenizer ---- */
/* Writes the answer to /tokenize, /detokenize or /apply-template.  false: *e says why. */
bool front_text(front_job *j, serve_text *out, serve_error *e);

/* ---- answers.c: answers as text, reasoning and calls ---- */
/* Makes the readers of the job's answers, and what its turns begin with. */
bool answers_begin(front_job *j, serve_error *e);
/* Gives an answer the piece, or the end, that the event has; adds a stream's part of it to out. */
void answers_go_on(front_job *j, const serve_event *ev, const char *text, serve_text *out);
void answers_free(front_job *j);

/* ---- routes_pull.c: /api/pull and /api/delete ---- */
/* Tells clients how far downloads are, and of their ends. */
void pulls_look(serve_front *f);
/* The client of such a request has gone.  false: job is not one. */
bool pulls_gone(serve_front *f, void *job);

/* ---- log.c ---- */
/* Notes for the log that this connection's request is refused, or its stream ends, with this
 * error. */
void front_note(http_conn *c, const serve_error *e);
/* Writes the log line of a finished request. */
void front_log(void *front, const http_record *r);

/* ---- routes.c ---- */
bool front_admitted(void *front, http_conn *c, const http_request *r);
void front_request(void *front, http_conn *c, const http_request *r);

/* ---- routes_reply.c ---- */
void front_refusal(void *front, serve_text *body, int status, const char *why);
void front_refuse(serve_front *f, http_conn *c, const serve_error *e, error_form form, const char *more);

#endif
