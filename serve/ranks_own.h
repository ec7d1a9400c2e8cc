/* What the parts of ranks.h share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_RANKS_OWN_H
#define QSF_SERVE_RANKS_OWN_H

#include "prefix.h"
#include "ranks.h"

typedef enum rank_kind { RANK_JOB = 1, RANK_CANCEL, RANK_END, RANK_EVENT, RANK_REFUSAL,
                         RANK_STATE, RANK_SCALES, RANK_LORA_DROP } rank_kind;

/* A message has parts.  Each has this header, and zeros after it that pad it to a multiple of 8
 * bytes and that len does not count. */
typedef struct rank_part { uint32_t kind, slot; uint64_t number, len; } rank_part;
/* RANK_JOB: this, the prompts' lengths (uint64_t), their tokens, the body. */
typedef struct rank_job {
    uint32_t api, key, n_prompts;
    uint32_t adapter;                        /* API_LORA_LOAD: its id, ... */
    uint64_t sum;                            /* ... and of its files */
    uint64_t left_ns, n_body;
} rank_job;
/* RANK_LORA_DROP: number is the adapter's id. */
/* RANK_SCALES: the adapters' default scales (serve_scale), for the jobs after this. */
/* RANK_REFUSAL */
typedef struct rank_refusal { int32_t status; char code[48], param[80], text[400]; } rank_refusal;

/* Tokens that a rank has seen, and so may have in its cache; ids[0] stands for the model. */
typedef struct rank_prefix { int32_t *ids; uint32_t n; uint64_t used; } rank_prefix;

/* A rank, seen from rank 0. */
typedef struct rank_load {
    unsigned      answers;                   /* handed to it, and not over */
    uint64_t      tokens;                    /* of prompts, to be computed before anything comes back */
    prefix_tree  *tree;
    rank_prefix  *prefixes;                  /* [n_prefixes] */
    serve_metrics *metrics;                  /* [models]; NULL: its own */
    serve_slot   *slots;                     /* [models][slots] */
    uint64_t      n_jobs, n_prefix, n_passed;      /* counted; for a prefix; those that went elsewhere */
} rank_load;

struct serve_ranks {
    serve_front  *front;
    rank_load    *loads;                     /* [ranks]; NULL: this is another rank */
    unsigned      n_prefixes;
    uint64_t      uses;
    front_job   **jobs;                      /* [n_jobs], by slot: at other ranks, or of rank 0 */
    uint32_t      n_jobs;
    serve_text    out;                       /* the next message to rank 0 */
    uint64_t      told_ns;                   /* when rank 0 was told the state */
    unsigned char *state;                    /* as it was told */
};

/* ---- ranks_choose.c ---- */
/* The rank where a job of this many answers costs least; *same: how many of the prompt's tokens it
 * has. */
int  rank_choose(serve_ranks *r, unsigned model, const serve_tokens *prompt, unsigned answers,
                 uint32_t *same);
void rank_remember(serve_ranks *r, int rank, unsigned model, const serve_tokens *prompt);
bool rank_slot_set(serve_ranks *r, uint32_t slot, front_job *j);         /* false: no memory */
front_job *rank_slot_job(const serve_ranks *r, const rank_part *p);      /* NULL: none of that number */

/* ---- ranks_parts.c ---- */
/* Adds a part: its head, to be ended by part_end when its bytes are added. */
size_t part_begin(serve_text *out, rank_kind kind, uint32_t slot, uint64_t number);
void   part_end(serve_text *out, size_t at);
/* The next part of a message, *at to end; false: there is no more.  A broken one ends the job. */
bool   part_next(const serve_front *f, const unsigned char **at, const unsigned char *end, rank_part *out,
                 const unsigned char **bytes);
/* Counters and slots of all models. */
size_t state_bytes(const serve_front *f);
void   state_pack(const serve_front *f, unsigned char *to);
void   state_unpack(const serve_ranks *r, int rank, const unsigned char *from);

/* ---- ranks_tell.c ---- */
void follow_tell_state(serve_ranks *r);      /* counters and slots, if they have changed */
/* A job that could not begin, which may have no front_job. */
void follow_refuse(serve_ranks *r, uint32_t slot, uint64_t number, const serve_error *e);

/* ---- ranks_lead.c, ranks_follow.c ---- */
void lead_look(serve_ranks *r);
void follow_look(serve_ranks *r);

#endif
