/* The roles of a model's tensors: one table for readers, shape checks, the converter and messages.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ROLES_H
#define QSF_ROLES_H

#include "model/source.h"

/* Sizes that shapes are made of: first those of the model, then those of a layer. */
typedef enum qsf_dim {
    QSF_DIM_ONE, /* rows of a vector */
    QSF_DIM_EMBD,
    QSF_DIM_VOCAB,
    QSF_DIM_CTX,
    QSF_DIM_TYPES,   /* of tokens */
    QSF_DIM_CLASSES,
    QSF_DIM_DENSE,   /* between the dense layers after pooling */
    QSF_DIM_TABLE,   /* a token's per-layer embeddings for all layers */
    QSF_DIM_LAYER_EMBD, /* and for one */
    QSF_DIM_ALTUP, /* all streams of a row, ... */
    QSF_DIM_OTHERS, /* ... all but the first */
    QSF_DIM_PREDICT, /* coefficients of a layer's predictions, ... */
    QSF_DIM_CORRECT, /* ... of its corrections */
    QSF_DIM_LAUREL,
    QSF_DIM_WORDS, /* tokens of the embedding */
    QSF_DIM_FEATURES, /* of an EAGLE 3 head */
    QSF_DIM_STATE_IN, /* what a state is made of: two rows of the model's width side by side, or features */
    QSF_DIM_ATTN_IN, /* columns that queries, keys and values are made of */
    QSF_DIM_Q,    /* all heads' queries */
    QSF_DIM_KV,   /* all heads' keys */
    QSF_DIM_V,    /* all heads' values */
    QSF_DIM_SUMS, /* all query heads' sums of values */
    QSF_DIM_Q_NORM, /* what the norm of queries multiplies: one head's, or all heads' */
    QSF_DIM_K_NORM,
    QSF_DIM_FF,
    QSF_DIM_HEADS,
    QSF_DIM_EXPERTS,
    QSF_DIM_EXPERT_FF,   /* hidden columns of an expert, ... */
    QSF_DIM_EXPERTS_FF,  /* ... and of all of them */
    QSF_DIM_EXPERT_EMBD, /* columns that an expert takes and gives, ... */
    QSF_DIM_EXPERTS_EMBD, /* ... of all of them */
    QSF_DIM_MIX_IN, /* columns that a mixer with state is given */
    QSF_DIM_MIX, /* columns of its output */
    QSF_DIM_CHANNELS, /* of its convolution */
    QSF_DIM_CONV, /* weights of its convolution: a row of them for each channel */
    QSF_DIM_MIX_HEADS,
    QSF_DIM_LATENT, /* of keys and values */
    QSF_DIM_Q_LATENT,
    QSF_DIM_PLAIN, /* columns of a head's query that do not rotate */
    QSF_DIM_HEADS_LATENT, /* all heads' queries as multiplied by the latent */
    QSF_DIM_KV_B, /* all heads' plain keys and values */
    QSF_DIM_BETAS, /* one for each of these, or an alpha with each */
    QSF_DIM_MIX_NORM,
    QSF_DIM_MIX_DECAY, /* of each head; of Mamba-1 of each number of the state */
    QSF_DIM_MIX_RANK, /* columns that Mamba-1's steps are widened from, ... */
    QSF_DIM_MIX_STEPS, /* ... and that they are widened to, ... */
    QSF_DIM_MIX_STATE, /* ... numbers that are written and read, ... */
    QSF_DIM_MIX_X, /* ... and the steps followed by what is written and read */
    QSF_DIM_LERPS, /* RWKV's shares of the row before, ... */
    QSF_DIM_MIX_RATE, /* ... columns that its rates are widened from, ... */
    QSF_DIM_MIX_FIRST, /* ... the first layer's values, ... */
    QSF_DIM_MIX_GATE /* ... gates */
} qsf_dim;

/* When a tensor must be there, by the descriptions of the model and of the layer. */
typedef enum qsf_when {
    QSF_WHEN_ALWAYS,
    QSF_WHEN_FF, /* a feed-forward for all rows, ... */
    QSF_WHEN_GATED, /* ... and has a gate */
    QSF_WHEN_EXPERTS,
    QSF_WHEN_EXPERT_GATE, /* ... that have gates, ... */
    QSF_WHEN_PARALLEL, /* ... norms of their own, in parallel with shared ones, ... */
    QSF_WHEN_EXPERTS_APART, /* ... another width than the stream, ... */
    QSF_WHEN_MAY_EXPERTS, /* ... and what may be there then */
    QSF_WHEN_LEARNED_POS,
    QSF_WHEN_UNTIED,
    QSF_WHEN_ATTN_NORM, /* a norm with weights before the mixer, ... */
    QSF_WHEN_FFN_NORM,  /* ... before the feed-forward, ... */
    QSF_WHEN_FINAL_NORM, /* ... before the head */
    QSF_WHEN_SUMS, /* sums with the stream are normed */
    QSF_WHEN_CLASSES, /* the model is a classifier */
    QSF_WHEN_TYPES, /* tokens have types */
    QSF_WHEN_DENSE, /* dense layers follow pooling */
    QSF_WHEN_IT_IS, /* it need not be */
    QSF_WHEN_ATTENTION, /* the layer's mixer is that, ... */
    QSF_WHEN_QUERIES, /* ... with queries that no latent is between, ... */
    QSF_WHEN_KEYS, /* ... with keys of its own, which no latent makes, ... */
    QSF_WHEN_LATENT, /* ... of a latent, ... */
    QSF_WHEN_Q_LATENT, /* ... with one for queries, too, ... */
    QSF_WHEN_SPLIT, /* ... by two matrices of heads, ... */
    QSF_WHEN_JOINED, /* ... by one, ... */
    QSF_WHEN_MIXER, /* ... one with state, ... */
    QSF_WHEN_STATE, /* ... one with sums in its state, ... */
    QSF_WHEN_MAY_STATE, /* ... one with sums, which may do without, ... */
    QSF_WHEN_CONV, /* ... one with a convolution, ... */
    QSF_WHEN_DECAY, /* ... one with sums, whose decays are given, ... */
    QSF_WHEN_MAMBA, /* ... Mamba-1 or 2, or RWKV, ... */
    QSF_WHEN_MAMBA1, /* ... Mamba-1, PLaMo 2 or RWKV, ... */
    QSF_WHEN_PLAMO, /* ... PLaMo 2, ... */
    QSF_WHEN_RWKV, /* ... RWKV, ... */
    QSF_WHEN_RWKV_FIRST, /* ... in another layer than the first, ... */
    QSF_WHEN_RWKV_GATE, /* ... with a gate, ... */
    QSF_WHEN_SHIFTED, /* (the feed-forward takes the row before, too) */
    QSF_WHEN_DELTA, /* ... a delta net, ... */
    QSF_WHEN_MIX_GATE, /* ... one or PLaMo 2, ... */
    QSF_WHEN_ALPHA, /* ... one whose alphas are a matrix of their own, ... */
    QSF_WHEN_LAYER_EMBD, /* tokens have a row for each layer, ... */
    QSF_WHEN_ALTUP, /* a row has several streams, ... */
    QSF_WHEN_ALTUP_BEGIN, /* ... and it is the first layer, ... */
    QSF_WHEN_ALTUP_END, /* ... the last one */
    QSF_WHEN_MAY_LAYER, /* ... and what may be there then */
    QSF_WHEN_MTP, /* the layer is for multi-token prediction, ... */
    QSF_WHEN_MAY_MTP, /* ... and what may be there then */
    QSF_WHEN_FEATURES /* features are normed */
} qsf_when;

/* The part of a model that a tensor belongs to. */
typedef enum qsf_part { QSF_PART_LAYER, QSF_PART_EMBD, QSF_PART_FINAL, QSF_N_PARTS } qsf_part;

/* What is done with its values. */
typedef enum qsf_use {
    QSF_USE_MATRIX, /* rows are multiplied with a vector, or looked up: quantisers apply */
    QSF_USE_NORM,   /* a norm is multiplied by them */
    QSF_USE_ADD     /* a bias, or a position's row */
} qsf_use;

typedef struct qsf_role {
    uint8_t kind, part, use;              /* qsf_kind, qsf_part, qsf_use */
    uint8_t rows, cols, when;             /* qsf_dim, qsf_dim, qsf_when */
    /* "attn_q", "attn_q.bias": in messages, and in patterns for tensors */
    const char *name;
    const char *gguf;                     /* "attn_q.weight", after "blk.N." in a layer */
    const char *outliers;                 /* "attn_q.outliers" */
    const char *scale;                    /* "attn_q.scale", also GGUF's; NULL: it is not a matrix */
    /* Llama's, after "layers.N." in a layer; NULL: Llama lacks the tensor.  Other models' names are
     * in convert/read/hf_types.c. */
    const char *hf;
} qsf_role;

/* All of them; those of a part in the order in which it uses them. */
enum { QSF_N_ROLES = 127 };
extern const qsf_role qsf_roles[QSF_N_ROLES];

const qsf_role *qsf_role_of(uint32_t kind); /* NULL: no such kind */
const char     *qsf_kind_name(uint32_t kind); /* "attn_q", "attn_q.outliers", "unknown kind" */
/* The kind that outliers or a scale belong to; of all others the kind itself. */
static inline uint32_t qsf_kind_base(uint32_t kind)
{
    return kind - (kind >= QSF_K_SCALE ? QSF_K_SCALE : kind >= QSF_K_OUTLIERS ? QSF_K_OUTLIERS : 0);
}

/* Sets of kinds; those from 64 on have sets of their own. */
#define QSF_KIND(name) (1ull << QSF_K_##name)
#define QSF_KIND_MORE(name) (1ull << (QSF_K_##name - 64))
static inline bool qsf_kinds_have(uint64_t kinds, uint32_t kind) { return kind < 64 && kinds >> kind & 1; }
#define QSF_KINDS_ATTENTION (QSF_KINDS_QK_NORM | QSF_KINDS_QKV_BIAS | QSF_KIND(ATTN_OUT_BIAS) | \
                             QSF_KIND(ATTN_SUB_NORM) | QSF_KIND(ATTN_SINKS))
#define QSF_KINDS_QK_NORM (QSF_KIND(Q_NORM) | QSF_KIND(K_NORM))
#define QSF_KINDS_POST_NORM (QSF_KIND(ATTN_POST_NORM) | QSF_KIND(FFN_POST_NORM))
#define QSF_KINDS_SUB_NORM (QSF_KIND(ATTN_SUB_NORM) | QSF_KIND(FFN_SUB_NORM))
#define QSF_KINDS_QKV_BIAS (QSF_KIND(ATTN_Q_BIAS) | QSF_KIND(ATTN_K_BIAS) | QSF_KIND(ATTN_V_BIAS))
#define QSF_KINDS_FFN (QSF_KINDS_FFN_BIAS | QSF_KIND(FFN_SUB_NORM) | QSF_KIND(FFN_NORM_BIAS) | \
                       QSF_KIND(FFN_POST_NORM))
#define QSF_KINDS_NORM_BIAS (QSF_KIND(ATTN_NORM_BIAS) | QSF_KIND(FFN_NORM_BIAS) | QSF_KIND(OUTPUT_NORM_BIAS))
#define QSF_KINDS_FFN_BIAS (QSF_KIND(FFN_GATE_BIAS) | QSF_KIND(FFN_UP_BIAS) | QSF_KIND(FFN_DOWN_BIAS))

/* layer: of the tensor's layer; NULL for tensors of the embedding and of the final section, which
 * have only sizes of the model. */
uint64_t qsf_dim_size(const qsf_hparams *hp, const qsf_layer *layer, qsf_dim dim);
/* The size by which a tensor counts when a file's tensor holds several one after another: rows of a
 * matrix, values of a vector. */
uint64_t qsf_role_outputs(const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);
/* Whether the layer has the part that the tensor is for. */
bool     qsf_role_fits(const qsf_layer *layer, const qsf_role *role);
bool     qsf_role_needed(const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);

#endif
