/* The engine's thread: it admits requests, batches their rows, and reports what came of it.
 * SPDX-License-Identifier: MIT
 *
 * Two threads meet here.  The front (HTTP) makes jobs, submits them, and frees each when the event
 * EVENT_DONE has given it back.  The engine's thread owns the context.  Jobs go one way through a
 * bounded list, events the other way through a ring of bytes; the engine never waits for a
 * client. */
#ifndef QSF_SERVE_ENGINE_H
#define QSF_SERVE_ENGINE_H

#include "clock.h"
#include "lora_list.h"
#include "metrics.h"
#include "request.h"

#include <stdatomic.h>

typedef struct serve_engine serve_engine;
typedef struct serve_job serve_job;

typedef struct serve_engine_options {
    qsf_context_options context;      /* n_ctx, threads, ...; n_seqs and n_logits follow from these: */
    unsigned slots;                   /* answers at once */
    unsigned kept;                    /* sequences cached for prompts with the same prefix */
    unsigned queue;                   /* answers that may wait */
    unsigned step_rows;               /* rows of prompts alongside answers, 0: by measurement */
    unsigned steps;                   /* steps between checks of the list of jobs */
    unsigned session_s;               /* seconds that a session is kept on purpose */
    qsf_pooling pooling;              /* of embeddings; QSF_POOL_NONE: the file's, or the mean */
    const char *cache_file;           /* where kept sequences are between two runs; NULL: nowhere */
    uint64_t cache_disk;              /* bytes on disk for sequences that memory has no room for */
    const char *cache_disk_dir;       /* NULL: the system's folder for temporary files */
    unsigned draft;                   /* most guesses of an answer in a step */
    bool draft_mtp;                   /* the model's layer for multi-token prediction makes them */
    const char *draft_model;          /* file of a draft model that makes them; NULL: none */
    qsf_model *drafts;                /* that layer or that model, opened with the model; NULL: neither */
    const qsf_behind *behind;         /* where the layers after the model's are; NULL: it has all */
    /* Makes a context, maybe with layers on a GPU; NULL: qsf_context_new. */
    qsf_status (*make)(const void *user, qsf_model *m, qsf_context_options *o, qsf_context **out,
                       qsf_error *err);
    const void *make_user;
    void (*turn)(void);               /* called when its thread checks for jobs; NULL: nothing */
} serve_engine_options;

/* Tokens of one prompt. */
typedef struct serve_tokens { int32_t *ids; size_t n; } serve_tokens;
typedef struct serve_branch serve_branch;

struct serve_job {
    /* set by the front, then constant */
    serve_request request;
    serve_tokens *prompts;
    unsigned      n_prompts, n_branches;   /* branch b answers prompt b / n */
    unsigned      key;                     /* of the client, for fair turns */
    uint64_t      session;                 /* 0: none */
    uint64_t      arrived_ns, deadline_ns; /* 0: no deadline */
    serve_lora    lora;                    /* what its sequences are computed with */
    qsf_turn_options turn;                 /* what its turns begin with, without max_tokens */
    float        *embeddings;              /* [n_prompts][n_embd] if these are requested: output */
    bool          ranks;                   /* prompts are pairs: the first number is the classifier's score */
    void         *front;                   /* the front's own */
    atomic_bool   cancelled;               /* the front may set it at any time */
    /* the engine's */
    serve_branch *branches;
    unsigned      n_over, n_begun, n_embedded;   /* the last two: of texts */
    serve_job    *next;
};

/* EVENT_PROMPT: a token of the prompt, with its log probabilities (none for the first one).
 * EVENT_PROGRESS: the prompt's computation starts and, if the request asks for it, advances. */
typedef enum serve_event_kind { EVENT_PIECE, EVENT_PROMPT, EVENT_PROGRESS, EVENT_END,
                                EVENT_DONE } serve_event_kind;
typedef struct serve_event {
    uint32_t     bytes;                    /* of the event with its text */
    uint16_t     kind, branch;
    serve_job   *job;
    int32_t      end, status;              /* EVENT_END: a qsf_turn_end; of one that failed, why */
    uint32_t     len;                      /* of the text after the event */
    uint32_t     n_prompt, n_kept, n_tokens;     /* n_tokens: of the answer so far; EVENT_PROGRESS: of the
                                                  * prompt, computed or cached; EVENT_PROMPT: the rank of the
                                                  * token, 1 for the most likely */
    uint32_t     n_drafted, n_accepted;    /* EVENT_END: draft tokens of the answer */
    int32_t      token;                    /* EVENT_PIECE (-1: text that was held back), EVENT_PROMPT */
    uint32_t     n_logprobs;               /* of a token: they stand between event and text */
    bool         late;                     /* EVENT_END: the deadline came */
    uint64_t     ns;                       /* EVENT_PIECE, EVENT_PROGRESS: since the job arrived there */
    double       score;                    /* EVENT_END of a beam, or among the best of some: the sum of
                                            * its logarithms */
} serve_event;

static inline const qsf_logprob *serve_event_logprobs(const serve_event *e)
{
    return (const void *)(e + 1);
}

/* What the front needs to know of a running engine. */
typedef struct serve_facts {
    uint32_t n_ctx, n_seq, n_batch, slots;     /* n_seq: positions of one sequence */
    bool     whole;                            /* an encoder: an input is computed in one batch */
    uint64_t planned;                      /* bytes */
    char     device[160];                  /* the GPU, and which layers it computes; "": none */
} serve_facts;

/* Makes the context and starts the thread.  NULL: *err says why.  wake_fd: where a byte is written
 * when events have come. */
serve_engine *serve_engine_new(qsf_model *m, const serve_engine_options *o, serve_metrics *metrics,
                               int wake_fd, qsf_error *err);
void serve_engine_free(serve_engine *e);      /* takes NULL; the thread ends, jobs are dropped */
/* The options of the context that it makes.  *more: the bytes that it takes besides that.
 * m: used if o->drafts is set.  QSF_E_BUDGET and others of qsf_context_plan. */
qsf_status serve_engine_context(qsf_model *m, const serve_engine_options *o, qsf_context_options *out,
                                uint64_t *more, qsf_error *err);
/* Whether a batch has failed because the model's file could not be read: it has to be opened
 * again. */
bool serve_engine_spoilt(const serve_engine *e);
const serve_facts *serve_engine_facts(const serve_engine *e);

/* What a request asks of a turn; the template and tools of a chat add to it. */
void serve_turn(const serve_request *r, qsf_turn_options *o);
/* Prepares the engine's part of a job; the front frees it after EVENT_DONE. */
bool serve_job_prepare(serve_job *j);
/* Hands a job over.  false: the queue is full. */
bool serve_engine_submit(serve_engine *e, serve_job *j);
/* Wakes the thread, after a job was cancelled. */
void serve_engine_wake(serve_engine *e);
/* The next event and its text; NULL: none.  It is valid until the next call. */
const serve_event *serve_engine_event(serve_engine *e, const char **text);

/* What a slot does, for people. */
typedef struct serve_slot { uint32_t state, n_prompt, n_done, n_tokens; } serve_slot;
enum { SLOT_IDLE, SLOT_PROMPT, SLOT_ANSWER, SLOT_PAUSED };
void serve_engine_slot(const serve_engine *e, unsigned i, serve_slot *out);

#endif
