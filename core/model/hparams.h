/* The architecture as data: what a model's description says, whichever format it is in.
 * SPDX-License-Identifier: MIT
 *
 * The engine takes the sizes of the embedding, the vocabulary and the context from here; what
 * differs, or may differ, from layer to layer it takes from the records that
 * core/model/layer_record.c makes of it. */
#ifndef QSF_HPARAMS_H
#define QSF_HPARAMS_H

#include "base/base.h"

enum { QSF_NORM_LAYER = 0, QSF_NORM_RMS = 1 };
/* Header byte 49; GELU is the tanh form, RELU2 the square of ReLU. */
enum { QSF_ACT_GELU = 0, QSF_ACT_SILU = 1, QSF_ACT_RELU = 2, QSF_ACT_RELU2 = 3 };
/* What rotates together: x[2i] and x[2i+1], or x[i] and x[i+d/2]. */
enum { QSF_ROPE_NONE = 0, QSF_ROPE_PAIRS = 1, QSF_ROPE_HALVES = 2 };
enum { QSF_SCALING_NONE = 0, QSF_SCALING_LINEAR = 1, QSF_SCALING_YARN = 2, QSF_SCALING_LONGROPE = 3 };

typedef struct qsf_hparams {
    char     arch[32];            /* GGUF's name: "llama", "qwen2", "gemma3", "gpt2", "custom", ... */
    char     name[96];
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train;
    uint8_t  norm, act, rope;
    uint8_t  pooling;             /* a qsf_pooling: what the file asks for where texts are embedded */
    bool     gated;               /* act(gate) * up, else act(up) */
    bool     learned_pos;         /* QSF_K_POS_EMBD is added to the embedding */
    bool     tied;                /* the head is the embedding */
    float    norm_eps;
    float    embd_scale;          /* 1; Gemma: sqrt(n_embd) */
    float    attn_scale;          /* of q.k; 0 means 1 / sqrt(head_dim) */
    float    attn_softcap, final_softcap;   /* 0: none; c * tanh(x / c) */
    uint32_t window;              /* positions a windowed layer sees, itself included; 0: all */
    uint32_t window_pattern;      /* 0: every layer is windowed; n: layer i is global where i % n == n - 1 */
    uint32_t rope_dim;            /* 0: head_dim */
    float    rope_base;           /* of global layers */
    float    rope_base_local;     /* of windowed layers; 0: rope_base */
    uint8_t  scaling;             /* applies to global layers; to all where rope_base_local is 0 */
    float    scaling_factor;      /* > 1 stretches */
    uint32_t scaling_orig_ctx;
    /* -1 (ext): 1 where YaRN, else 0 */
    float    yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    /* [rope_dim / 2] divisors of the frequencies (Llama 3, longrope short), or NULL */
    float   *rope_factors;
    float   *rope_factors_long;   /* longrope beyond scaling_orig_ctx, or NULL */
    float    rope_attn_factor;    /* longrope: multiplies sin and cos; 0 means 1 */
} qsf_hparams;

enum { QSF_MAX_HEAD_DIM = 1024 };

#endif
