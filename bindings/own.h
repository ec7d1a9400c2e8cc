/* What the files of bindings/ share: the objects of handles, and options by name.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FLAT_OWN_H
#define QSF_FLAT_OWN_H

#include "qsf_flat.h"
#include "qsf_schedule.h"
#include "base/platform.h"

#include <string.h>

/* Kinds of objects, as bits. */
enum {
    FLAT_MODEL = 1, FLAT_ADAPTER = 2, FLAT_CONTEXT = 4, FLAT_CONVERSATION = 8, FLAT_ANSWER = 16,
    FLAT_EMBEDDING = 32, FLAT_ANY = 63
};

/* The beginning of every object.  Its parent lives at least as long. */
typedef struct flat_object {
    uint32_t            kind, refs;     /* refs: its handle, and its children */
    size_t              size;
    struct flat_object *parent;
    void              (*done)(struct flat_object *);
    void              (*cancel)(struct flat_object *);  /* ends what is under way; or NULL */
    qsf_error           error;
} flat_object;

enum { FLAT_WARNINGS = 1500 };
typedef struct flat_model {
    flat_object     o;
    qsf_model      *model;
    qsf_model      *drafts;             /* its layer for multi-token prediction; NULL: not asked for */
    qsf_custom_file file;               /* read NULL: a path */
    const qsf_platform *platform;       /* NULL: qsf_platform_native() */
    qsf_log_fn      log;
    void           *log_user;
    struct flat_context *planner;       /* whose plan is being logged; NULL: none */
    char            warnings[FLAT_WARNINGS];    /* of the context that was opened last: lines */
} flat_model;

typedef struct flat_adapter {
    flat_object     o;
    qsf_adapter    *adapter;
    qsf_custom_file file;
} flat_adapter;

enum { FLAT_ADAPTERS = 8 };
typedef struct flat_drafts {
    qsf_context    *context;            /* the layer's */
    qsf_mtp        *mtp;                /* NULL: no drafts, or only those of repeated text */
    uint64_t        bytes;              /* of the plan: what they take */
    bool            is_loading, is_loaded;      /* the layer's weights */
} flat_drafts;

typedef struct flat_conversation flat_conversation;
typedef struct flat_context {
    flat_object         o;
    qsf_context        *context;
    qsf_plan            plan;
    uint32_t            guesses;        /* most in a pass */
    flat_drafts         drafts;
    uint64_t            n_guessed, n_right;     /* guesses of all answers */
    uint32_t            n_seqs;
    flat_conversation **seqs;           /* [n_seqs]; NULL: free */
    flat_object        *owner;          /* of the unfinished batch; the context itself: qsf_flat_step */
    struct flat_answer *leaving;        /* answers that end when that batch is done */
    qsf_schedule       *schedule;
    qsf_row            *rows;           /* [batch] */
    struct flat_answer **order;         /* [n_seqs] those with rows in the batch */
    qsf_turn          **turns;          /* [n_seqs] */
    uint32_t            n_order, n_rows, n_batch, n_logits;
    uint64_t            began_ns;
    uint32_t            last;           /* conversation of a batch that had no room; 0: none */
    char                warnings[FLAT_WARNINGS];        /* of its last plan, before it is open */
} flat_context;

typedef struct flat_stop { struct flat_stop *next; size_t len; char text[]; } flat_stop;
typedef struct flat_answer {
    flat_object      o;
    qsf_sampler     *sampler;
    qsf_grammar     *grammar;
    qsf_turn_options turn;
    flat_stop       *stops;
    uint32_t         n_stops;
    bool             has_events;        /* of the piece */
    bool             is_ready;          /* pieces come of the last batch, whose logits must stay */
    bool             is_leaving;
    bool             is_listed, is_prompt;      /* of the batch that is being filled */
    uint32_t         n_rows;                    /* in it */
    struct flat_answer *next;           /* that leaves */
    qsf_turn_piece   piece;             /* the last one, and the last event of it */
    qsf_answer_event event;
} flat_answer;

struct flat_conversation {
    flat_object       o;
    qsf_turn         *turn;             /* of its sequence */
    qsf_conversation *talk;
    flat_answer      *answer;           /* that has begun last; NULL: none */
    qsf_seq           seq;              /* -1: none */
    uint32_t          handle;
    uint32_t          adapters[FLAT_ADAPTERS];
    float             scales[FLAT_ADAPTERS];
    size_t            n_adapters;
    uint64_t          n_guessed, n_right;       /* of its turn: those that are counted */
};

typedef struct flat_embedding {
    flat_object       o;
    qsf_embed_options options;
    bool              valid, score;     /* valid: its options were */
    flat_conversation *in;              /* NULL: in all sequences */
    qsf_embed_run    *run;
    char             *memory;           /* ids, lens and results of the texts that were begun */
    size_t            bytes, n_values;
    float            *values;
} flat_embedding;

/* What numbers are members of. */
typedef struct flat_facts {
    qsf_model_info   model;
    qsf_plan         plan;
    qsf_stats        stats;
    qsf_turn_state   turn;
    qsf_turn_piece   piece;
    qsf_answer_event event;
    qsf_adapter_info adapter;
    int32_t          bos, eos;
    uint32_t         length, width;
    uint64_t         guessed, right;
    double           item_bytes, session_bytes;
} flat_facts;

/* What options set. */
typedef struct flat_asked {
    qsf_chat_options chat;
    const char      *i2s_layout, *tool_choice, *pooling;
    int64_t          id_seed, json_blanks, choice;
    bool             vocab_only, draft_mtp, parallel, json_loose, plain, score;
} flat_asked;

/* ---- handle.c ---- */
/* A new handle for size bytes of zeros that begin with a flat_object; NULL: no memory or place.
 * done is called when nothing refers to it any more. */
void *qsf_flat_make(uint32_t *handle, uint32_t kind, size_t size, flat_object *parent,
                void (*done)(flat_object *));
/* The object of one of these kinds; NULL: the handle is invalid. */
void *qsf_flat_at(uint32_t handle, uint32_t kinds);
/* The same with one reference more, as other threads may free the handle; for qsf_flat_drop. */
void *qsf_flat_hold(uint32_t handle, uint32_t kinds);
flat_context *qsf_flat_context_at(uint32_t handle);     /* NULL: invalid, or not open */
void  qsf_flat_keep(flat_object *o);                    /* one reference more, or */
void  qsf_flat_drop(flat_object *o);                    /* one less: the last one ends its life */
/* It or the nearest object above it of this kind, or NULL. */
void *qsf_flat_up(flat_object *o, uint32_t kind);
void *qsf_flat_alloc(flat_object *o, size_t size);      /* zeros; NULL, which is then the object's error */
void  qsf_flat_dealloc(void *p, size_t size);
void  qsf_flat_lock(void);
void  qsf_flat_unlock(void);
/* Records an error of the library, whose text may be NULL; returns st. */
qsf_status qsf_flat_fail(flat_object *o, qsf_status st, const char *text);
/* A result of (dst, cap): n elements, also if the array is too small; or minus a status. */
int32_t qsf_flat_copied(qsf_status st, size_t n, size_t cap);

/* ---- options.c ---- */
/* Reads a list; options that it does not know go to other, which may be NULL. */
typedef qsf_status (*flat_other)(void *options, const char *name, const char *value, qsf_error *err);
qsf_status qsf_flat_options(flat_object *o, const char *list, flat_asked *asked, flat_other other,
                            void *options);
/* json-blanks for the library's structs. */
uint32_t qsf_flat_blanks(const flat_asked *asked);

/* ---- answer.c ---- */
/* An answer that has begun, and no other one of its conversation since; NULL: not so. */
flat_answer *qsf_flat_answer_at(uint32_t handle, flat_conversation **v);

/* ---- drafts.c ---- */
/* Opens the layer of a model that was opened with these options. */
qsf_status qsf_flat_drafts_open(flat_model *m, const char *path, qsf_model_options o);
/* Makes room for guesses in a context's options, and takes the layer's part of the budget; *own:
 * the options of the layer's context. */
qsf_status qsf_flat_drafts_plan(flat_context *c, const flat_model *m, qsf_context_options *o,
                                qsf_context_options *own);
/* Adds the layer's part to the context's plan, or to the error st of making it. */
void       qsf_flat_drafts_planned(flat_context *c, qsf_status st);
qsf_status qsf_flat_drafts_begin(flat_context *c, const flat_model *m, const qsf_context_options *own);
void       qsf_flat_drafts_end(flat_context *c);        /* before its context is freed */
/* Brings the layer's weights into memory, step by step, before anything is guessed.  QSF_PENDING as
 * of qsf_step. */
qsf_status qsf_flat_drafts_load(flat_context *c, bool *waiting);
void       qsf_flat_drafts_turn(flat_conversation *v, qsf_turn_options *o);
/* Counts the conversation's guesses since the last call. */
void       qsf_flat_drafts_count(flat_context *c, flat_conversation *v);

/* ---- conversation.c ---- */
/* Begins the conversation's prompt with what another one of the same adapters has computed, if that
 * is longer than what it has itself. */
void qsf_flat_conversation_share(flat_conversation *v);

/* QSF_E_ARGUMENT if the conversation has no sequence. */
qsf_status qsf_flat_seated(flat_object *o, const flat_conversation *v);

/* ---- step.c ---- */
qsf_status qsf_flat_steps_new(flat_context *c);
void       qsf_flat_steps_free(flat_context *c);

/* ---- batch.c ---- */
/* Records the context's last error; returns st. */
qsf_status qsf_flat_said(flat_object *o, qsf_status st);
/* QSF_E_ARGUMENT if a batch is unfinished that is not one of v (NULL: of no conversation).  Whoever
 * begins or changes a sequence drops it. */
qsf_status qsf_flat_free_for(flat_object *o, const flat_conversation *v);
/* The same, also if another conversation's answer has pieces of a batch before. */
qsf_status qsf_flat_may_step(flat_object *o, const flat_conversation *v);
/* As qsf_flat_free_for; then the answer of v ends. */
qsf_status qsf_flat_claim(flat_object *o, flat_conversation *v);
/* No batch is unfinished any more: answers that waited for this end. */
void qsf_flat_batch_over(flat_context *c);
/* Whether it is the conversation's answer, and has not ended. */
bool qsf_flat_answer_runs(const flat_answer *a, const flat_conversation *v);
/* What the last piece referred to is valid until the turn's next call. */
void qsf_flat_answer_forget(flat_answer *a);
void qsf_flat_turn_cancel(flat_conversation *v);

#endif
