/* Layers and rotary tables as records, which the engine computes from.
 * SPDX-License-Identifier: MIT
 *
 * A record describes its layer completely, and nothing else: its mixer and feed-forward, with their
 * sizes, norms and scales.  Patterns over layers are resolved when records are filled. */
#ifndef QSF_LAYER_RECORD_H
#define QSF_LAYER_RECORD_H

#include "model/hparams.h"

/* What mixes positions; core/layers/layer.c has the table of them.  These numbers, and those of
 * qsf_feed_forward, are stored in QSF files. */
typedef enum qsf_mixer {
    QSF_MIXER_ATTENTION,
    QSF_MIXER_NONE,
    QSF_MIXER_SHORT_CONV, /* a gated convolution over a few positions (LFM2) */
    QSF_MIXER_MAMBA2,
    QSF_MIXER_DELTA_NET, /* a gated one (Qwen 3.5) */
    QSF_MIXER_MAMBA2_BESIDE, /* the sum of Mamba-2 and attention (Falcon-H1) */
    QSF_MIXER_MAMBA, /* Mamba-1 */
    QSF_MIXER_RWKV, /* RWKV-7 */
    QSF_MIXER_PLAMO, /* Mamba-1 with the heads of Mamba-2 (PLaMo 2) */
    QSF_N_MIXERS
} qsf_mixer;
/* What computes each position independently. */
typedef enum qsf_feed_forward {
    QSF_FEED_FORWARD_PLAIN, /* act(up) */
    QSF_FEED_FORWARD_GATED, /* act(gate) * up */
    QSF_FEED_FORWARD_NONE,
    QSF_FEED_FORWARD_EXPERTS, /* a router chooses some for each row; others may be shared */
    QSF_FEED_FORWARD_SHIFTED, /* act(up) of a row mixed with the row before it (RWKV) */
    QSF_N_FEED_FORWARDS
} qsf_feed_forward;

/* Of vectors of the model's width. */
typedef struct qsf_norm {
    uint8_t kind; /* QSF_NORM_LAYER, QSF_NORM_RMS */
    float   eps;
} qsf_norm;

enum { QSF_NO_ROPE = UINT16_MAX };

typedef struct qsf_layer {
    uint8_t  mixer, feed_forward;   /* qsf_mixer, qsf_feed_forward */
    uint8_t  act;                   /* of the feed-forward */
    uint16_t rope;                  /* its rotary table, or QSF_NO_ROPE */
    uint32_t n_heads, n_kv_heads;   /* n_heads / n_kv_heads query heads share a key and its value */
    uint32_t head_dim, value_dim;   /* columns of a head's query or key, and of its value */
    uint32_t n_ff;                  /* with experts: of the shared ones, 0: none are shared */
    uint32_t n_experts, n_used, n_ff_expert;        /* as in qsf_hparams, like the next ones */
    uint32_t n_groups, n_groups_used;
    uint32_t n_expert_embd;         /* columns that an expert takes and gives, ... */
    bool     experts_apart;         /* ... which matrices make of the stream's, and back */
    bool     experts_plain;         /* experts have no gates, including shared ones */
    bool     experts_beside;        /* as in qsf_hparams, like the next ones */
    uint8_t  router;
    bool     router_norm, router_early;
    float    router_scale;
    uint32_t window;                /* positions that it sees, its own included; 0: all */
    qsf_norm norm;
    float    attn_scale;            /* of q . k */
    float    attn_softcap;          /* 0: none; c * tanh(x / c) */
    bool     both_ways;             /* as in qsf_hparams, like what follows */
    uint8_t  flow, qk_norm;
    float    residual_scale, qkv_clamp, alibi, temp_scale;
    uint32_t temp_every;
    float    xielu[QSF_XIELU_NUMBERS];
    uint32_t state_bytes;           /* of a sequence, besides keys and values (layers/state.h) */
    uint32_t mix_conv, mix_state, mix_heads, mix_groups;        /* as in qsf_hparams */
    uint32_t mix_in, mix_inner;     /* columns of the mixer's input and output */
    uint32_t mix_channels;          /* of its convolution */
    uint32_t mix_rank;              /* Mamba-1, PLaMo 2, RWKV: columns that steps, or decays, are made of */
    uint32_t mix_rate, mix_first, mix_gate;         /* as in qsf_hparams; the first layer has no mix_first */
    bool     mix_norms;
    uint8_t  attn_gate, mix_neighbours;     /* as in qsf_hparams, like the next ones */
    uint8_t  latent_joined;
    uint32_t kv_latent, q_latent, head_plain, head_value;
    bool     v_norm, altup;
    bool     altup_begin, altup_end; /* the first and the last layer, which make streams, and one of them */
    uint32_t n_laurel;
    float    sparse;                /* 0: no gate is dropped */
    uint32_t n_embd_layer;
    uint32_t kv_from;               /* 1 + the layer whose keys and values it reads; 0: it has its own */
    bool     kv_read;               /* others read its own */
    bool     mtp;                   /* its rows begin with a hidden state and the token after it, ... */
    bool     eagle;                 /* ... which attention reads side by side: an EAGLE 3 head, ... */
    bool     features_normed;       /* ... whose features are normed */
} qsf_layer;

/* Whether it has keys and values. */
static inline bool qsf_layer_attends(const qsf_layer *l)
{
    return l->mixer == QSF_MIXER_ATTENTION || l->mixer == QSF_MIXER_MAMBA2_BESIDE;
}
/* Whether it is Mamba-2, alone or combined with attention. */
static inline bool qsf_mixer_is_mamba2(uint8_t mixer)
{
    return mixer == QSF_MIXER_MAMBA2 || mixer == QSF_MIXER_MAMBA2_BESIDE;
}
/* Whether it has keys and values of its own. */
static inline bool qsf_layer_has_kv(const qsf_layer *l) { return qsf_layer_attends(l) && !l->kv_from; }

/* What a table of rotary frequencies is computed from. */
typedef struct qsf_rope_record {
    uint8_t  kind;                  /* QSF_ROPE_PAIRS, QSF_ROPE_HALVES */
    uint8_t  scaling;
    uint32_t dim;                   /* rotary columns of a head, the first ones; even */
    uint32_t orig_ctx;              /* that was trained, before scaling */
    float    base;
    float    factor;                /* > 1 stretches */
    float    yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow; /* as in qsf_hparams */
    float    attn_factor;           /* multiplies sine and cosine; 0 means 1 */
    const float *factors;           /* [dim / 2] divisors of the frequencies, or NULL */
    const float *factors_long;      /* the same for contexts beyond orig_ctx, or NULL */
} qsf_rope_record;

/* The largest of all layers, for what they share; buffers are as wide as their programs need
 * (core/layers/needs.h). */
typedef struct qsf_layer_most {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_ff;                  /* an expert's, too */
    uint32_t n_experts, n_used;
    uint32_t q, kv;                 /* columns of all heads' queries; of all heads' keys or values */
    uint32_t share;                 /* query heads that share a key-value head */
} qsf_layer_most;

qsf_norm qsf_norm_of(const qsf_hparams *hp);
/* The record of layer i, from a description that is the same for all layers except for its pattern
 * of windows. */
qsf_layer qsf_layer_of(const qsf_hparams *hp, uint32_t i);
/* The model's rotary tables, at most QSF_HPARAMS_ROPES; returns how many there are. */
enum { QSF_HPARAMS_ROPES = 2 };
uint32_t qsf_ropes_of(const qsf_hparams *hp, qsf_rope_record ropes[QSF_HPARAMS_ROPES]);
qsf_layer_most qsf_layers_most(const qsf_layer *layers, uint32_t n);
/* The first of n layers whose heads or feed-forward have other sizes than hp gives it; n: none. */
uint32_t qsf_layer_apart(const qsf_hparams *hp, const qsf_layer *layers, uint32_t n);

#endif
