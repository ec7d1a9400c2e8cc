/* The table between the engine, which knows whose tokens are computed when, and what computes them.
 * SPDX-License-Identifier: MIT
 *
 * The engine has the tables: which rows a batch has, which blocks of keys and values and which
 * slots of state belong to which sequence, which weights are in memory.  An executor has the
 * numbers: rows, keys and values, state, logits.  What else it needs of the context is in
 * qsf_executor_host.  The CPU's is engine/cpu_executor.h.
 *
 *   begin, then rows_in for each row unless tokens are embedded;
 *   stage for the embedding, each layer, each part of the head;
 *   rows_out for what the batch was computed for;
 *   end. */
#ifndef QSF_EXECUTOR_H
#define QSF_EXECUTOR_H

#include "base/pool.h"
#include "engine/candidates.h"
#include "layers/embedding.h"
#include "layers/head_stream.h"
#include "layers/kv.h"
#include "layers/lora.h"
#include "layers/needs.h"
#include "layers/recorder.h"
#include "layers/reducer.h"
#include "layers/rope.h"
#include "layers/state.h"
#include "layers/watch.h"
#include "weights/experts.h"

/* What a batch needs next. */
typedef enum qsf_stage_kind { QSF_STAGE_EMBEDDING, QSF_STAGE_LAYER, QSF_STAGE_HEAD } qsf_stage_kind;
typedef struct qsf_stage {
    qsf_stage_kind kind;
    uint32_t       number;           /* of the layer; of the head's part */
} qsf_stage;
/* The stage of a layer; after the last one comes the head. */
static inline qsf_stage qsf_stage_of(const qsf_hparams *hp, uint32_t layer)
{
    return layer < hp->n_layers ? (qsf_stage){ QSF_STAGE_LAYER, layer } : (qsf_stage){ QSF_STAGE_HEAD, 0 };
}

/* Rows that the engine and its callers get. */
typedef enum qsf_rows_kind {
    QSF_ROWS_STATES,        /* [n][n_embd] of the batch, between two stages */
    QSF_ROWS_STREAMS,       /* [n][QSF_ALTUP - 1][n_embd] their other streams; none: the model has only one */
    QSF_ROWS_HIDDEN,        /* [n][n_embd] after the final norm, of the rows that the batch began with */
    QSF_ROWS_LOGITS,        /* [n][n_vocab] of the rows that ask */
    QSF_ROWS_SPARE,         /* [n_batch][n_embd] room for anything, between batches */
    QSF_N_ROWS_KINDS
} qsf_rows_kind;

/* In the host's memory, valid until the next stage or batch, and until then the caller's to
 * change. */
typedef struct qsf_rows { float *x; size_t ld; uint32_t n; } qsf_rows;

/* What a stage is computed with. */
typedef struct qsf_stage_work {
    qsf_stage          stage;
    const qsf_weights *w;            /* of the embedding's unit, if it is in memory, or of the layer; NULL:
                                      * the executor has them (qsf_fetch's elsewhere) */
    qsf_head_units     head;         /* of the part of the head */
    qsf_expert_walk   *walk;         /* output: the experts that the layer needs next, if read one by one */
    uint32_t           n_new;        /* the last rows of the batch, with which it began */
    bool               hidden;       /* their hidden states are wanted */
} qsf_stage_work;

/* Of the context; all of it stays where it is as long as the executor. */
typedef struct qsf_executor_host {
    const qsf_platform *platform;
    const qsf_platform *memory;      /* for what the plan counts */
    const qsf_source   *source;
    const qsf_context_options *o;    /* as granted */
    const qsf_kernels  *k;
    qsf_pool           *pool;
    const qsf_batch    *batch;
    const qsf_kv_seq   *seqs;        /* [n_seqs] */
    const qsf_state_seq *state_seqs; /* [n_seqs]; NULL: no layer has state */
    qsf_rope           *ropes;       /* [n_ropes of the source] whose cos and sin the executor sets */
    const qsf_lora     *lora;
    qsf_embedding      *embedding;
    qsf_head_stream    *head_stream;
    qsf_experts        *experts;
    qsf_account        *account;     /* output: the time that operations take */
    qsf_recorder       *recorder;    /* output */
    const qsf_watch    *watch;
    qsf_reducer        *reducer;     /* output */
} qsf_executor_host;

/* Memory that an executor takes for layers with these needs, with these options, in bytes; for the
 * plan. */
typedef struct qsf_executor_needs { uint64_t kv, state, activations; } qsf_executor_needs;

typedef struct qsf_executor qsf_executor;

typedef struct qsf_executor_table {
    void (*plan)(const qsf_source *s, const qsf_needs *n, const qsf_context_options *o,
                 qsf_executor_needs *out);
    qsf_status (*init)(qsf_executor *x, const qsf_executor_host *host, qsf_error *err);
    void (*done)(qsf_executor *x);                      /* takes one whose init has failed, or all zeros */

    /* Keys and values, by numbers of blocks; state, by numbers of slots (QSF_STATE_ZERO: zeros). */
    void (*kv_copy)(qsf_executor *x, uint32_t to, uint32_t from);
    void (*state_copy)(qsf_executor *x, uint32_t to, uint32_t from);
    /* Their bytes, of a block [n_kv_heads][record] those of a layer, in the host's memory until the
     * next call.  write: they are the caller's to fill, all of them. */
    qsf_status (*kv_map)(qsf_executor *x, uint32_t layer, uint32_t block, bool write, uint8_t **bytes,
                         qsf_error *err);
    qsf_status (*state_map)(qsf_executor *x, uint32_t slot, bool write, uint8_t **bytes, qsf_error *err);

    /* Makes room for the numbers of these adapters, besides those of all sequences' sets. */
    qsf_status (*adapters_put)(qsf_executor *x, const qsf_lora_set *set, qsf_error *err);

    /* A batch begins.  embed: with its tokens; else rows_in gives the states of all its rows. */
    void (*begin)(qsf_executor *x, bool embed);
    /* Row r of the batch has these numbers [n_embd].  streams: NULL without QSF_ROWS_STREAMS; of an
     * EAGLE 3 head, whose state is a token's embedding, what the batch begins with (own_states). */
    void (*rows_in)(qsf_executor *x, uint32_t r, const float *state, const float *streams);
    /* Moves the batch's rows back by n; rows_in fills those in front. */
    void (*rows_back)(qsf_executor *x, uint32_t n);
    /* QSF_PENDING: the same stage again, when its next weights have come, or a device is done. */
    qsf_status (*stage)(qsf_executor *x, const qsf_stage_work *work, qsf_error *err);
    /* QSF_PENDING, only after the last stage of a batch: they are not here yet; call again. */
    qsf_status (*rows_out)(qsf_executor *x, qsf_rows_kind kind, qsf_rows *out, qsf_error *err);
    /* After a batch that is done: computes what an approximate head has left out of row i of the
     * logits, for the tokens of mask, a bit for each.  rows_out gives them. */
    qsf_status (*logits_more)(qsf_executor *x, uint32_t i, const uint32_t *mask, qsf_error *err);
    /* The batch is done, or dropped.  seqs: whose counts of attention are output.  The executor may
     * begin another one in its place (device/replay.h). */
    void (*end)(qsf_executor *x, qsf_kv_seq *seqs, bool done);

#if !defined(QSF_NO_CANDIDATES)
    /* Both NULL: logits are in the host's memory anyway.
     * In place of rows_out for the logits: the candidates of all rows that ask, valid until the
     * next batch.  Fails if a logit is not finite.  QSF_PENDING as in rows_out.  *out NULL:
     * rows_out gives the logits. */
    qsf_status (*candidates)(qsf_executor *x, const qsf_candidates **out, qsf_error *err);
    /* Until the next batch: row i of these logits, waiting for it. */
    qsf_status (*logits_row)(qsf_executor *x, uint32_t i, const float **out, qsf_error *err);
#endif
} qsf_executor_table;

struct qsf_executor {
    const qsf_executor_table *does;
    qsf_kv_layout kv;                /* set by init; how sessions have keys and values */
    size_t        state_bytes;       /* of a slot; 0: no layer has state */
};

#endif
