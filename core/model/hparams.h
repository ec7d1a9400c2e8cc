/* The architecture as data: the description of a model, whichever format it comes from.
 * SPDX-License-Identifier: MIT
 *
 * The engine takes the sizes of the embedding, the vocabulary and the context from here.  Whatever
 * may differ from layer to layer it takes from the records that core/model/layer_record.c makes
 * from this description. */
#ifndef QSF_HPARAMS_H
#define QSF_HPARAMS_H

#include "base/base.h"

/* Header byte 50; BARE is LAYER without weights. */
enum { QSF_NORM_LAYER = 0, QSF_NORM_RMS = 1, QSF_NORM_BARE = 2 };
/* Header byte 49; GELU is the tanh form, RELU2 the square of ReLU; XIELU has numbers of its own for
 * each layer; SWIGLU_OAI, gpt-oss's, is clamped and needs a gate. */
enum { QSF_ACT_GELU = 0, QSF_ACT_SILU = 1, QSF_ACT_RELU = 2, QSF_ACT_RELU2 = 3, QSF_ACT_XIELU = 4,
       QSF_ACT_SWIGLU_OAI = 5 };
/* How a layer's two parts (mixer, feed-forward) are connected to norms and the residual stream.
 * SERIAL: one after the other, each after a norm of its own.  POST: without norms before them.
 * PARALLEL: both read the layer's input after one norm.  PARALLEL_NORMS: both read the layer's
 * input, each after a norm of its own.  SUMS: without norms before them, but each sum with the
 * stream is normed.  BARE_BEGIN: as SERIAL, but the first layer's first norm is missing. */
enum { QSF_FLOW_SERIAL = 0, QSF_FLOW_POST = 1, QSF_FLOW_PARALLEL = 2, QSF_FLOW_PARALLEL_NORMS = 3,
       QSF_FLOW_SUMS = 4, QSF_FLOW_BARE_BEGIN = 5 };
/* Norms of queries and keys, if the model has them.  HEAD: of each head, with one vector for all
 * heads.  ALL: of all heads together.  EACH: of each head, with its own part of one vector.
 * ROTATED: as HEAD, but after the rotation. */
enum { QSF_QK_HEAD = 0, QSF_QK_ALL = 1, QSF_QK_EACH = 2, QSF_QK_ROTATED = 3 };
/* What rotates together: x[2i] and x[2i+1], or x[i] and x[i+d/2]. */
enum { QSF_ROPE_NONE = 0, QSF_ROPE_PAIRS = 1, QSF_ROPE_HALVES = 2 };
enum { QSF_SCALING_NONE = 0, QSF_SCALING_LINEAR = 1, QSF_SCALING_YARN = 2, QSF_SCALING_LONGROPE = 3 };

/* Every member has a row in core/model/description.c. */
typedef struct qsf_hparams {
    char     arch[32];            /* GGUF's name: "llama", "qwen2", "gemma3", "gpt2", "custom", ... */
    char     name[96];
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint8_t  norm, act, rope;
    uint8_t  pooling;             /* a qsf_pooling: the file's choice for embeddings */
    bool     gated;               /* act(gate) * up, else act(up) */
    bool     learned_pos;         /* QSF_K_POS_EMBD is added to the embedding */
    bool     tied;                /* the head is the embedding */
    float    norm_eps;
    float    embd_scale;          /* 1; Gemma: sqrt(n_embd) */
    float    attn_scale;          /* of q.k; 0 means 1 / sqrt(head_dim) */
    float    attn_softcap, final_softcap;   /* 0: none; c * tanh(x / c) */
    uint32_t window;              /* positions a windowed layer sees, the row's own included; 0: all */
    uint32_t window_pattern;      /* 0: every layer is windowed; n: layer i is global if i % n == n - 1 */
    uint32_t rope_dim;            /* 0: head_dim */
    float    rope_base;           /* of global layers */
    float    rope_base_local;     /* of windowed layers; 0: rope_base */
    uint8_t  scaling;             /* applies to global layers; to all if rope_base_local is 0 */
    float    scaling_factor;      /* > 1 stretches */
    uint32_t scaling_orig_ctx;
    /* -1 (ext): 1 with YaRN, else 0 */
    float    yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    /* [rope_dim / 2] divisors of the frequencies (Llama 3, longrope short), or NULL */
    float   *rope_factors;
    float   *rope_factors_long;   /* longrope beyond scaling_orig_ctx, or NULL */
    float    rope_attn_factor;    /* longrope: multiplies sin and cos; 0 means 1 */
    uint8_t  flow, qk_norm;
    uint32_t rope_skip;           /* n: layer i does not rotate if i % n == n - 1; 0: all do */
    float    residual_scale;      /* of what a layer's parts add to the stream; 0 means 1 */
    float    logit_scale;         /* of what the final norm gives the head; 0 means 1 */
    float    qkv_clamp;           /* queries, keys and values lie in -c .. c; 0: anywhere */
    float    alibi;               /* ALiBi's largest bias; 0: none */
    /* 0: none; a query at position p is multiplied by 1 + scale * ln(1 + floor(p / every)) */
    float    temp_scale;
    uint32_t temp_every;
    float   *xielu;               /* [n_layers][QSF_XIELU_NUMBERS], or NULL */
    /* Mixtures of experts; n_experts 0: every layer is dense. */
    uint32_t n_experts, n_used;   /* in a layer; chosen for a row */
    uint32_t n_ff_expert, n_ff_shared;      /* of an expert; of the shared experts, 0: none */
    uint32_t n_dense;             /* how many layers, from the first on, have no experts */
    uint32_t n_groups, n_groups_used;       /* of experts, whose best ones are chosen from; 0 and 1: none */
    uint8_t  router;              /* QSF_ROUTER_SOFTMAX, ... */
    bool     router_norm;         /* the weights of chosen experts are normalised to the sum 1 */
    float    router_scale;        /* then multiplied by this; 0 means 1 */
    bool     router_early;        /* the router reads the layer's input, before any norm */
    /* encoders */
    bool     both_ways;           /* bidirectional attention: half a window on each side */
    bool     rank_mean;           /* the classifier reads the mean over the input, not one token */
    uint32_t window_first;        /* layer i is global if (i + window_first) % pattern == pattern - 1 */
    uint32_t n_token_types;
    uint32_t n_classes;           /* that an input is scored for; 0: not a classifier */
    uint32_t n_between;            /* columns between the two dense layers after pooling */
    /* Mixers with state, in addition to attention or instead of it. */
    uint8_t *mixers;              /* [n_layers] qsf_mixer; NULL: attention in all layers */
    /* [n_layers] qsf_feed_forward; NULL: `gated` applies to all layers.  If it does not contain
     * QSF_FEED_FORWARD_EXPERTS, all layers with a feed-forward from n_dense on have experts. */
    uint8_t *feed_forwards;
    uint8_t  attn_gate;           /* 1: queries have gates; a head's gate follows its query */
    uint32_t mix_conv;            /* positions that a convolution sees, its own included */
    uint32_t mix_inner;           /* columns of what the mixer computes */
    uint32_t mix_state;           /* numbers that each of these keeps */
    /* that share a decay (Mamba-1: columns that steps are widened from); that share what is
     * written and read */
    uint32_t mix_heads, mix_groups;
    bool     mix_norms;           /* Mamba-1: steps, what is written and what is read are normed */
    /* RWKV: columns from which rates, shares of the first layer's values and gates are widened;
     * decays are widened from mix_heads columns.  mix_gate 0: no gates.  PLaMo 2: steps are widened
     * from mix_rate columns */
    uint32_t mix_rate, mix_first, mix_gate;
    /* 1: the heads of a delta net that share a group are adjacent, and one matrix has betas and
     * alphas, group by group; 0: every mix_groups-th head shares a group */
    uint8_t  mix_neighbours;
    /* Latent attention: there is one head of keys and values, with head_dim = rope_dim + kv_latent
     * columns. */
    uint32_t kv_latent;           /* columns of the latent of all keys and values; 0: no latent attention */
    uint32_t q_latent;            /* columns of the latent of queries; 0: no latent */
    uint32_t head_plain;          /* columns of a head's query without rotation, besides rope_dim with it */
    uint32_t head_value;          /* of a head's value */
    uint8_t  latent_joined;       /* 1: one matrix makes both keys and values, head by head */
    /* Later Gemma models. */
    uint32_t head_dim_local, rope_dim_local;        /* of windowed layers; 0: as the others */
    uint32_t n_kv_shared;         /* how many last layers read an earlier layer's keys and values */
    uint32_t n_embd_layer;        /* columns of a token's per-layer embedding; 0: none */
    bool     v_norm;              /* heads' values are normed, without weights */
    bool     altup;               /* a row has QSF_ALTUP streams */
    uint32_t n_laurel;            /* columns of LAuReL's path around attention; 0: no such path */
    uint32_t n_sparse;            /* how many first layers drop small gates: */
    float    sparse;              /* those less than this many standard deviations above the mean */
    /* Experts run in parallel with the shared ones and have norms of their own: one before them,
     * one after them, one after the shared ones, and one for the router, which reads the stream. */
    bool     experts_beside;
    uint32_t n_expert_embd;       /* columns of experts' inputs and outputs; 0: the stream's */
    bool     mtp;                 /* the last layer is for multi-token prediction; no other runs */
    bool     mtp_norm;            /* that layer has its own norm before the head */
    /* An EAGLE 3 head: one layer whose rows are a token's embedding and features of another model,
     * the inputs of some of its layers side by side. */
    bool     eagle;
    bool     eagle_normed;        /* its stream begins with the normed state */
    bool     features_normed;     /* features are normed */
    uint32_t n_features;          /* columns of the features of a row */
    uint32_t n_words;             /* tokens of its own embedding; 0: the other model's is used */
    uint32_t *ffs, *kv_heads;     /* [n_layers] n_ff, n_kv_heads if layers differ in them, or NULL */
    uint32_t *useds, *expert_ffs; /* the same of n_used and n_ff_expert */
    uint8_t *windowed;            /* [n_layers] 1: windowed; NULL: window_pattern applies.  If rope_skip
                                   * is not 0, those that are not do not rotate */
} qsf_hparams;

/* A router's weights: the softmax over all experts' logits, the sigmoid of each, or the softmax
 * over the chosen experts' logits. */
enum { QSF_ROUTER_SOFTMAX = 0, QSF_ROUTER_SIGMOID = 1, QSF_ROUTER_CHOSEN = 2 };
/* The most experts of a layer. */
enum { QSF_MAX_EXPERTS = 1024 };

/* Whether there is a norm with weights before the head, or at the end of an encoder. */
static inline bool qsf_final_norm(const qsf_hparams *hp)
{
    return hp->norm != QSF_NORM_BARE && hp->flow != QSF_FLOW_SUMS;
}

enum { QSF_ALTUP = 4 };
enum { QSF_MAX_HEAD_DIM = 1024, QSF_MAX_MIX_CONV = 16, QSF_MAX_MIX_STATE = 1024 };
/* XIELU's a, b, beta and eps: a x^2 + beta x above zero, else (e^min(x, eps) - 1 - x) b + beta x.
 */
enum { QSF_XIELU_NUMBERS = 4 };

#endif
