/* A context: the memory, threads and state that run one model.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONTEXT_H
#define QSF_CONTEXT_H

#include "base/pieces.h"
#include "base/reserve.h"
#include "engine/behind.h"
#include "engine/early_exit.h"
#include "engine/kv_tables.h"
#include "engine/thread_count.h"
#include "layers/cpu.h"
#include "layers/embedding.h"
#include "layers/head.h"
#include "layers/head_stream.h"
#include "layers/lora.h"
#include "layers/watch.h"
#include "model/model.h"
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

/* The batch under way, for the step. */
typedef struct qsf_batch_state {
    bool     active;
    uint32_t n_new;                  /* rows that it began with */
    qsf_stage stage;
    uint32_t *old_length;            /* [n_seqs] lengths before it, to take it back */
    uint64_t begun_ns;
    uint64_t waiting_ns;             /* since when the caller waits by itself for bytes, 0: it does not */
    atomic_bool not_finite;          /* a layer's or the head's result has a NaN or an infinity */
    bool     hidden;                 /* hidden states of its rows are wanted */
    uint32_t n_hidden;               /* of them are there */
    qsf_expert_walk walk;            /* through the experts of the layer, if these are read alone */
    uint32_t n_states;               /* rows whose remaining layers are computed elsewhere */
} qsf_batch_state;

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
    qsf_head       head;

    qsf_kv_tables  tables;           /* sequences */
    qsf_kv         kv;               /* their keys and values */
    qsf_kv_attention kv_attention;
    qsf_state      state;
    qsf_early_exit early_exit;

    qsf_rope      *ropes;            /* [n_ropes of the source] */
    double        *rope_freqs;       /* of all of them */
    qsf_key_bias   key_bias;
    qsf_buffers    b;                /* a batch */
    uint8_t       *buffers;          /* b's memory */
    uint64_t       buffers_bytes;
    bool           hidden;           /* the next batch's rows want their hidden states */
    qsf_lora       lora;             /* adapters of sequences */
    qsf_behind_use behind;           /* layers that are elsewhere */
    qsf_reducer    reducer;          /* of shares of layers */
    qsf_watch      watch;            /* of what matrices are multiplied with; the head's, where hidden */
    qsf_cpu        cpu;              /* what a batch is computed with */
    qsf_batch      batch;
    qsf_batch_state now;
};

/* A context's own tables, of a batch, of sequences, of rotary frequencies; and their bytes. */
enum { QSF_CONTEXT_TABLES = 7 };
void     qsf_context_pieces(qsf_context *c, const qsf_source *s, const qsf_context_options *o,
                            qsf_piece list[QSF_CONTEXT_TABLES]);
uint64_t qsf_context_tables(const qsf_source *s, const qsf_context_options *o);

#endif
