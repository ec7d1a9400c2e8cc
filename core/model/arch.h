/* The architectures that model files name, as data: one table for GGUF files and Hugging Face
 * directories.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ARCH_H
#define QSF_ARCH_H

#include "model/roles.h"

/* What keys and tensors of a GGUF file mean under some architectures. */
typedef enum qsf_arch_has {
    QSF_HAS_SCALES   = 1 << 0,  /* keys may scale the embedding, residuals and attention */
    QSF_HAS_DIVISOR  = 1 << 1,  /* logits are divided by logit_scale, which must be there */
    QSF_HAS_LOGIT    = 1 << 2,  /* logits are multiplied by logit_scale, if it is there */
    QSF_HAS_TEMP     = 1 << 3,  /* a key may scale queries with their position */
    QSF_HAS_SWITCH   = 1 << 4,  /* rope.scaling.finetuned false: nothing rotates */
    QSF_HAS_CLAMP    = 1 << 5,  /* a key may clamp queries, keys and values */
    QSF_HAS_ALIBI    = 1 << 6,  /* a key may set ALiBi's largest bias */
    QSF_HAS_ALPHA    = 1 << 7,  /* a key may raise the rotary base */
    QSF_HAS_HALF_FF  = 1 << 8,  /* feed_forward_length is twice the actual length */
    QSF_HAS_ONE_BASE = 1 << 9,  /* windowed layers have the same rotary base, ... */
    QSF_HAS_PLAIN_LOCAL = 1 << 10, /* ... but without its scaling */
    QSF_HAS_STILL_GLOBAL = 1 << 11, /* layers that see everything do not rotate, if others are windowed */
    QSF_HAS_SECTIONS = 1 << 12, /* rotary sections change what rotates: they are refused */
    QSF_HAS_XIELU    = 1 << 13,
    QSF_HAS_MAY_PARALLEL = 1 << 14, /* without ffn_norm in its first layer it is parallel */
    QSF_HAS_CHOICE   = 1 << 15, /* use_parallel_residual decides whether it is parallel */
    QSF_HAS_TWO_NORMS = 1 << 16, /* with attn_norm_2 in its first layer each part has a norm */
    QSF_HAS_64       = 1 << 17, /* 64 layers: windowed (exaone4), or with norms of queries (command-r) */
    QSF_HAS_32       = 1 << 18, /* 32 layers rotate, 40 have ALiBi, no others are known (baichuan) */
    QSF_HAS_OLD_SCALES = 1 << 19, /* defaults of files that came before the keys (minicpm) */
    QSF_HAS_LOOSE_POS = 1 << 20, /* learned positions if the file has them */
    QSF_HAS_LOOSE_GATE = 1 << 21, /* gated if ffn_gate exists or ffn_up is twice as long */
    QSF_HAS_BARE_BEGIN = 1 << 22, /* the first layer may have no norm before its attention */
    QSF_HAS_FIRST_GLOBAL = 1 << 23, /* of a pattern of windows the first layer sees everything */
    QSF_HAS_ACT      = 1 << 24, /* hidden_activation may be silu */
    QSF_HAS_RANK_MEAN = 1 << 25, /* the classifier reads the mean, unless a key says otherwise */
    QSF_HAS_INTERVAL = 1 << 26, /* keys set which layers have the other mixer */
    QSF_HAS_GATE     = 1 << 27, /* gates follow the queries */
    QSF_HAS_NEIGHBOURS = 1 << 28, /* heads of a delta net that share a key lie side by side */
    QSF_HAS_LATENT   = 1 << 29, /* keys and values are made of latents */
    QSF_HAS_EARLY    = 1 << 30  /* routers choose by the layer's input */
} qsf_arch_has;

/* Whether layers have experts. */
typedef enum qsf_arch_experts {
    QSF_EXPERTS_NONE,
    QSF_EXPERTS_SOME,           /* a key may give them to every nth layer */
    QSF_EXPERTS_MAY,
    QSF_EXPERTS_ALWAYS,
    QSF_EXPERTS_SHARED,         /* and a shared one */
    QSF_EXPERTS_EACH            /* several shared ones; the key has the length of each */
} qsf_arch_experts;

/* What layers have. */
typedef enum qsf_arch_layers {
    QSF_LAYERS_BOTH,            /* a mixer (`mixer` if n_kv_heads is 0) and a feed-forward */
    QSF_LAYERS_MIXER,           /* all have `mixer` and nothing else */
    QSF_LAYERS_ONE,             /* a feed-forward if its length is not zero, else a mixer */
    QSF_LAYERS_PARALLEL,        /* all have `mixer`, which has attention in it, and a feed-forward */
    QSF_LAYERS_STATE,           /* all have `mixer`, no attention, and a feed-forward, ... */
    QSF_LAYERS_SHIFTED          /* ... which takes the row before, too */
} qsf_arch_layers;

/* A name of GGUF files (in a layer: after "blk.N.") that means something else than in roles.c. */
typedef struct qsf_arch_alias {
    const char *name;           /* NULL: the end of a list */
    uint8_t kind;
    bool    two;                /* only if both parts of a layer have a norm of their own */
} qsf_arch_alias;

typedef struct qsf_arch {
    const char *name;           /* in GGUF files, and in qsf_hparams */
    uint8_t  norm, act;
    uint8_t  rope;              /* as rows of GGUF files lie; Hugging Face files have QSF_ROPE_HALVES */
    bool     gated, learned_pos;
    bool     scaled_embd;       /* the embedding is multiplied by sqrt(n_embd) */
    bool     fused_gate;        /* GGUF: ffn_up.weight holds the gate above */
    bool     longrope;          /* GGUF: tensors may hold divisors of rotary frequencies */
    bool     caps_logits;       /* GGUF: a key may cap the logits */
    bool     may_window;
    uint32_t window, window_pattern;     /* defaults; pattern 0: every layer is windowed */
    float    attn_softcap, final_softcap;
    float    base_local;        /* rotary base of windowed layers; 0: as the others */
    uint8_t  mixer;             /* qsf_mixer of layers without key and value heads; 0: no such layers */
    uint8_t  layers;            /* qsf_arch_layers */
    uint8_t  flow, qk_norm;     /* as in qsf_hparams, like the next one */
    uint32_t rope_skip;
    uint64_t has;               /* qsf_arch_has */
    float    alibi;             /* GGUF: the default */
    uint8_t  experts;           /* qsf_arch_experts; */
    uint8_t  router;            /* the default, as the next one; see qsf_hparams */
    bool     router_norm;
    uint32_t n_layers_27b;      /* the size whose queries are scaled by n_embd / n_heads, not head_dim */
    /* Kinds of tensors, as bits, that every model of this architecture has, and that it may have,
     * besides those that its hyperparameters require (qsf_role_needed). */
    uint64_t need, may;
    uint64_t may_more;          /* from kind 64 on */
    bool     both_ways;
    /* keys may say sizes of windowed layers, layers without keys, embeddings for each layer;
     * values are normed */
    bool     later_gemma;
    bool     altup;             /* a row has four streams, with Gemma 3n's sizes if no key gives them */
    const qsf_arch_alias *aliases;      /* GGUF; or NULL */
    uint8_t  hf_rows;           /* PEFT: how rows of queries and keys lie in Hugging Face files if rope is
                                 * QSF_ROPE_PAIRS; 0: unknown */
    bool     asks_causal;       /* GGUF: attention.causal may be false, in models that embed texts */
    bool     asks_router_norm;  /* GGUF: expert_weights_norm counts; llama.cpp fixes it for the others and
                                 * writes the key as false */
    bool     ff_of_used;        /* GGUF: feed_forward_length is that of all used experts together */
    bool     sections_halve;    /* GGUF: halves rotate if the file has rotary sections */
    bool     spare_output_bias; /* GGUF: output.bias is not used */
    bool     mtp;               /* its layers for multi-token prediction can be run */
    bool     eagle;             /* it is an EAGLE 3 head */
} qsf_arch;

extern const qsf_arch qsf_archs[];                     /* the last has no name */
const qsf_arch *qsf_arch_find(const char *name);      /* NULL: unknown */
/* The one whose name begins most like this one; llama: none begins with three letters of it. */
const qsf_arch *qsf_arch_nearest(const char *name);

/* Whether a model must have the tensor, and whether it may.  layer: as for qsf_role_needed. */
bool qsf_arch_needs(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);
bool qsf_arch_takes(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);

/* Byte 12 of a QSF file's header: the architectures that the original specification numbers. */
enum { QSF_ARCH_CUSTOM = 4 };
uint32_t    qsf_arch_number(const char *name);        /* QSF_ARCH_CUSTOM: none of them */
const char *qsf_arch_of_number(uint32_t number);      /* "custom": none of them */

#endif
