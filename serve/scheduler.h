/* What the engine's thread decides: which branches run, their sequences, and their rows in a step.
 * SPDX-License-Identifier: MIT
 *
 * Everything here belongs to the engine's thread. */
#ifndef QSF_SERVE_SCHEDULER_H
#define QSF_SERVE_SCHEDULER_H

#include "disk.h"
#include "drafter.h"
#include "embed.h"
#include "prefix.h"
#include "qsf_schedule.h"

enum { SERVE_KEYS = 256 };

/* ---- sequences.c: sequences, their blocks, and what is kept of them ---- */

/* A sequence of the context, with the turn that is its own for good. */
typedef struct pool_seq {
    qsf_turn *turn;
    uint64_t  session;                     /* 0: kept for no particular session */
} pool_seq;

typedef struct seq_pool {
    qsf_context   *context;
    qsf_schedule  *schedule;               /* of seqs: how each is used */
    serve_metrics *metrics;
    pool_seq      *seqs;
    serve_lora    *loras;                  /* of these, then of the sequences for embedded inputs */
    uint32_t       n_seqs, n_all, n_free;  /* n_all: of loras; n_free: free blocks, as far as is known */
    uint32_t       block, window;
    uint64_t       session_ns;
    prefix_tree   *tree;
    disk_store    *disk;                   /* NULL: evicted sequences are lost */
    int32_t       *ids;                    /* [n_ids], with a disk: of what is read back */
    size_t         n_ids;
} seq_pool;

/* n_all: with the sequences reserved for embedded inputs. */
bool seq_pool_begin(seq_pool *p, qsf_context *c, const serve_engine_options *o, uint32_t n_all,
                    serve_metrics *metrics, qsf_error *err);
/* Gives it a disk.  false: *err says why not. */
bool seq_pool_disk(seq_pool *p, const disk_options *o, qsf_error *err);
void seq_pool_end(seq_pool *p);
uint32_t seq_pool_blocks(seq_pool *p);                       /* free ones */
/* Evicts kept sequences, least recently used first, except `but`, until that many blocks are
 * free. */
bool seq_make_room(seq_pool *p, uint32_t blocks, int32_t but);
/* An empty sequence, whose use is QSF_SEQ_RUNS; -1: all run. */
int32_t seq_take(seq_pool *p, int32_t but);
void seq_give_back(seq_pool *p, uint32_t s);                 /* empties it, and takes its adapters */
/* Gives an empty sequence adapters; also for sequences of embedded inputs. */
qsf_status seq_adapt(seq_pool *p, qsf_seq s, const serve_lora *lora);
/* Evicts what is kept for adapters that were dropped. */
void seq_forget_dropped(seq_pool *p);
/* Keeps it with its turn's tokens, for prompts with the same prefix, and for a session. */
void seq_keep(seq_pool *p, uint32_t s, uint64_t session, uint64_t now_ns);
/* The sequence with the longest prefix of a prompt and adapters of this key; *n: the prefix's
 * length.  -1: no sequence shares a prefix. */
int32_t seq_like(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len, uint32_t *n);
void seq_listed(seq_pool *p, uint32_t s, bool listed);       /* its tokens are in the tree */
/* The entry on disk with a longer prefix of a prompt than any sequence has, if reading it is faster
 * than computing it; -1: no such entry. */
int32_t seq_on_disk(seq_pool *p, uint64_t key, const int32_t *ids, uint32_t len);
/* Loads a ready entry, which has these adapters, into a sequence that is kept; false: no room. */
bool seq_from_disk(seq_pool *p, int32_t entry, const serve_lora *lora);

/* ---- cache_file.c ---- */
/* Whether kept sequences may be written there: no other file is in that place. */
bool cache_file_ours(const char *path);
/* Reads kept sequences from a file, as many as have room; returns their number.  *err: why the next
 * one was refused, or QSF_OK. */
unsigned cache_file_load(seq_pool *p, const char *path, uint32_t n_ctx, qsf_error *err);
/* Writes them; false: it could not, and the file is as before. */
bool cache_file_save(const seq_pool *p, const char *path);

/* ---- beam.c ---- */
typedef struct serve_beam serve_beam;
/* A beam whose first path is the branch's sequence.  NULL: out of memory. */
serve_beam *beam_new(const serve_branch *b, uint32_t n_vocab, uint32_t most);
void beam_free(serve_beam *m);                               /* takes NULL */
/* Rows of the next step (NULL: their number alone), and the blocks that they take. */
uint32_t beam_rows(const serve_beam *m, qsf_row *rows);
uint32_t beam_blocks(seq_pool *p, const serve_beam *m);
/* Goes on from the logits of its rows, the first of which is `first`; false: the search is over. */
bool beam_step(serve_beam *m, seq_pool *p, const qsf_model *model, size_t first);
void beam_release(serve_beam *m, seq_pool *p);               /* its sequences */
/* beam_finish ends the live paths; beam_answer then gives answer i, best first.  false: no more. */
void beam_finish(serve_beam *m, qsf_turn_end end);
bool beam_answer(const serve_beam *m, uint32_t i, const int32_t **ids, uint32_t *n, double *score,
                 qsf_turn_end *end);

/* ---- sampling.c ---- */
/* The sampler of a branch, and what its turn begins with. */
qsf_status branch_sampler(const serve_branch *b, const qsf_model *m, qsf_sampler **out);
void branch_options(const serve_branch *b, int64_t max_tokens, qsf_turn_options *o);

/* ---- scheduler.c ---- */

typedef enum branch_stage { BRANCH_WAITS, BRANCH_PROMPT, BRANCH_ANSWER, BRANCH_PAUSED,
                            BRANCH_OVER } branch_stage;
struct serve_branch {
    serve_job    *job;
    unsigned      index;
    branch_stage  stage;
    int32_t       seq;                     /* -1: none */
    qsf_sampler  *sampler;
    serve_branch *next;                    /* in the list of those that wait */
    const int32_t *back;                   /* PAUSED: tokens that the sequence is to have again */
    uint32_t      n_back, n_rows;          /* n_rows: of it in this step's batch */
    uint64_t      last_ns;                 /* of its last token */
    uint32_t      n_told;                  /* tokens of the answer reported so far */
    bool          prompt_done;
    qsf_status    refused;                 /* why its sequence could not have the adapters */
    int32_t       disk;                    /* the entry that it waits for, or has while it pauses; -1: none */
    bool          asked;                   /* the disk, for its beginning */
    uint64_t      n_guessed, n_right, ns_sampling;     /* of its turn, as far as counted */
    uint32_t      n_drafted, n_accepted;   /* draft tokens of the answer */
    serve_beam   *beam;                    /* of a beam search, whose first answer this is */
    uint32_t      n_kept;
    double        score;                   /* sum of its tokens' log probabilities, if known */
    size_t        first;                   /* of its rows' logits */
};

typedef struct scheduler {
    seq_pool       pool;
    serve_metrics *metrics;
    serve_engine  *engine;                 /* for events */
    unsigned       slots, draft;           /* draft: most guesses of an answer */
    drafter       *drafter;                /* makes them */
    uint32_t       n_batch, n_logits, n_seq;       /* n_seq: most positions of a sequence */
    serve_branch **running;                /* [slots], in the order that they came */
    unsigned       n_running, n_taken;     /* taken: slots; a beam takes several */
    serve_branch  *waiting, **waiting_end;
    unsigned       n_waiting;
    qsf_row       *rows;                   /* [n_batch] */
    serve_branch **order;                  /* [slots], the batch's branches */
    unsigned       n_order;
    qsf_turn     **turns;                  /* [slots], the branches that have logits */
    embedder       embed;
    uint64_t       served[SERVE_KEYS];     /* rows of each client */
} scheduler;

bool scheduler_begin(scheduler *s, qsf_context *c, const serve_engine_options *o, serve_engine *e,
                     serve_metrics *metrics, qsf_error *err);
void scheduler_end(scheduler *s);
void scheduler_add(scheduler *s, serve_job *j);
/* Ends branches that were cancelled or are past their deadline. */
void scheduler_look(scheduler *s);
/* One batch; false: there is nothing to do. */
bool scheduler_step(scheduler *s);

/* ---- engine_show.c ---- */

/* Publishes how many answers run and how many wait. */
void scheduler_show(scheduler *s);

/* ---- branches.c ---- */
/* The branches of a job come in line: as scheduler_add, after texts that are told its prompts. */
void scheduler_enter(scheduler *s, serve_job *j);
/* Reports the end of a branch that is one answer; or the answers of a beam, which are those of this
 * branch and of the ones after it. */
void branch_report(scheduler *s, serve_branch *b, qsf_turn_end end, bool late);
void beam_report(scheduler *s, serve_branch *b, qsf_turn_end end, bool late);
/* Ends a running branch.  The computed part of its sequence is kept. */
void branch_end(scheduler *s, serve_branch *b, qsf_turn_end end, bool late);
unsigned branch_width(const serve_branch *b);        /* answers at once that it stands for */
qsf_turn *branch_turn(scheduler *s, const serve_branch *b);
const serve_tokens *branch_prompt(const serve_branch *b);
void branch_forget_disk(scheduler *s, serve_branch *b);      /* its entry there */

/* ---- gather.c ---- */
/* The next step's batch, in s->rows and s->order; returns its rows. */
uint32_t scheduler_gather(scheduler *s);
/* ---- room.c ---- */
/* Takes a running branch's sequence away; the branch resumes later, and its answer is the same. */
void branch_pause(scheduler *s, serve_branch *b);
/* The running branch that others go before: of the lowest priority, the last that came. */
serve_branch *scheduler_last(scheduler *s);
/* Blocks for one more row of an answer; false: it has paused, or has ended. */
bool answer_room(scheduler *s, serve_branch *b, uint32_t taken);
uint32_t answer_blocks(scheduler *s, const serve_branch *b);
/* Reads back the sequences of paused answers that are on disk, if there is room. */
void scheduler_resume(scheduler *s);
/* Whether a branch that waits comes from disk, and is not here yet. */
bool branch_comes(scheduler *s, serve_branch *b);

/* ---- engine_events.c ---- */
void engine_post(serve_engine *e, serve_event *event, const qsf_logprob *logprobs, const char *text);
void engine_branch_over(serve_engine *e, serve_branch *b);   /* may give the job back */
void engine_spoilt(serve_engine *e, qsf_status why);         /* a batch has failed */

#endif
