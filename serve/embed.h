/* Inputs that are embedded, or scored (their own log probabilities), alongside answers.
 * SPDX-License-Identifier: MIT
 *
 * Such an input is a prompt without an answer: its rows go into the same batches, and their hidden
 * states are pooled step by step.  It has a sequence of its own while it is computed, and is not
 * cached: keys and values would not bring the hidden states back.  So cached prompts stay unless
 * their blocks are needed.  A request whose prompts are scored (echo with logprobs,
 * prompt_logprobs) gets its answers afterwards, like any other. */
#ifndef QSF_SERVE_EMBED_H
#define QSF_SERVE_EMBED_H

#include "engine.h"

struct scheduler;
/* Computed at once: each has a sequence, which takes the context a block. */
enum { EMBED_TEXTS = 4 };

typedef struct embed_text {
    serve_job *job;
    unsigned   index;                      /* of the job's prompts */
    qsf_seq    seq;
    uint32_t   n_done, n_rows;             /* tokens; rows of it in this step's batch */
    size_t     first;                      /* of these; if it is scored, of their logits */
    uint32_t   n_told;                     /* tokens whose probabilities have been reported */
} embed_text;

typedef struct embedder {
    struct scheduler *scheduler;
    qsf_pooling pooling;
    uint32_t    n_embd, n_vocab;
    bool        whole;                     /* an encoder: all rows of an input are in one batch */
    uint32_t    first_seq, n_seqs;         /* the sequences reserved for these inputs */
    embed_text  texts[EMBED_TEXTS];        /* under way, in the order that they came */
    unsigned    n_texts;
    uint32_t    taken;                     /* bits: sequences */
    serve_job  *jobs;                      /* that are not done */
} embedder;

/* Sequences that a context needs for texts. */
static inline uint32_t embed_seqs(const qsf_context_options *o) { return o->kv_window ? 1 : EMBED_TEXTS; }
void embed_begin(embedder *e, struct scheduler *s, qsf_context *c, const serve_engine_options *o);
/* Whether a job's texts are for this. */
bool embed_wants(const serve_job *j);
void embed_add(embedder *e, serve_job *j);
/* Ends jobs that were cancelled or are past their deadline. */
void embed_look(embedder *e, uint64_t now);
/* Adds rows of inputs, at most `left`, after the first n of the batch, which take `taken` of the
 * free blocks.  Returns their number. */
uint32_t embed_gather(embedder *e, uint32_t n, uint32_t left, uint32_t taken);
/* The batch is computed: takes the results of its inputs.  st: QSF_OK, or why the batch failed. */
void embed_deliver(embedder *e, qsf_status st);
/* An input that has blocks gives them back, and is computed again later; false: none has any. */
bool embed_yield(embedder *e);
/* An input that has the context to itself does not fit. */
void embed_full(embedder *e);

#endif
