/* A context: the memory, threads and state that run one model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONTEXT_H
#define QSF_CONTEXT_H

#include "base/pieces.h"
#include "base/reserve.h"
#include "engine/behind.h"
#include "engine/cpu_executor.h"
#include "engine/early_exit.h"
#include "engine/kv_tables.h"
#include "engine/state_tables.h"
#include "engine/thread_count.h"
#include "model/model.h"

/* The batch under way, for the step. */
typedef struct qsf_batch_state {
    bool     active;
    uint32_t n_new;                  /* rows that it began with */
    qsf_stage stage;
    uint32_t *old_length;            /* [n_seqs] lengths before it, to take it back */
    uint64_t begun_ns;
    uint64_t waiting_ns;             /* since when the caller waits by itself for bytes, 0: it does not */
    bool     hidden;                 /* hidden states of its rows are wanted */
    uint32_t n_hidden;               /* of them are there */
    qsf_expert_walk walk;            /* through the experts of the layer, if these are read alone */
    uint32_t n_states;               /* rows whose remaining layers are computed elsewhere */
    qsf_rows rows[QSF_N_ROWS_KINDS]; /* what it was computed for, of the kinds that it has */
#if !defined(QSF_NO_CANDIDATES)
    bool     few;                    /* candidates are enough for most rows that ask */
    const qsf_candidates *candidates;   /* of these rows; NULL: rows[QSF_ROWS_LOGITS] has their logits */
#endif
    uint32_t n_choices;              /* of the next tokens of its sequences, if they are known */
} qsf_batch_state;

/* What follows a context's sequences, such as a layer that predicts further tokens. */
typedef struct qsf_follower {
    void *user;
    bool  hidden;                                                   /* it takes hidden states of all rows */
    /* NULL: none; else [n_batch][QSF_TAPS][n_embd] what goes into these layers, of all rows */
    float *tapped;
    const uint32_t *taps;                                           /* [QSF_TAPS] */
    void (*seen)(void *user, struct qsf_context *c);                /* after each batch; NULL: none follows */
    void (*back)(void *user, uint32_t s, uint32_t n);               /* as qsf_seq_back */
    void (*copy)(void *user, uint32_t dst, uint32_t src, uint32_t n);       /* as qsf_seq_copy */
} qsf_follower;

struct qsf_context {
    qsf_model     *model;
    const qsf_platform *platform;
    const qsf_hparams  *hp;
    qsf_context_options o;           /* as granted */
    qsf_plan       plan;
    qsf_stats      stats;
    qsf_account    account;          /* what the rest of the statistics is made of */
    qsf_row            *embed_rows;  /* [n_batch] of texts that qsf_embed_texts was given */
    qsf_recorder   recorder;
    qsf_error      error;
    const char    *io;               /* how the file is read */
    qsf_kernels    k;
    qsf_pool      *pool;
    qsf_thread_count threads[2];     /* for a single row, and for a few, if layers stream */
    qsf_reserve    reserve;          /* the memory of all that follows */

    qsf_fetch      fetch;            /* weights */
    qsf_experts    experts;
    qsf_embedding  embedding;
    qsf_head_stream head_stream;

    qsf_executor  *executor;         /* what computes */
    qsf_cpu_executor on_cpu;

    qsf_kv_tables  tables;           /* sequences */
    qsf_state_tables state;
    qsf_early_exit early_exit;

    qsf_rope      *ropes;            /* [n_ropes of the source] */
    double        *rope_freqs;       /* of all of them */
    bool           hidden;           /* the next batch's rows want their hidden states */
    qsf_lora       lora;             /* adapters of sequences */
    qsf_behind_use behind;           /* layers that are elsewhere */
    qsf_reducer    reducer;          /* of shares of layers */
    qsf_follower   follower;
    qsf_watch      watch;            /* of what matrices are multiplied with; the head's, where hidden */
    qsf_batch      batch;
    qsf_batch_state now;
    qsf_choice    *choices;          /* [now.n_choices] of an executor that uses them; NULL: it does not */
};

/* A context's own tables, of a batch, of sequences, of rotary frequencies; and their bytes. */
enum { QSF_CONTEXT_TABLES = 9 };
void     qsf_context_pieces(qsf_context *c, const qsf_source *s, const qsf_context_options *o,
                            qsf_piece list[QSF_CONTEXT_TABLES]);
uint64_t qsf_context_tables(const qsf_source *s, const qsf_context_options *o);

#endif
