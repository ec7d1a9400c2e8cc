/* The model types of config.json: what they mean, which defaults they have, and how they call their
 * tensors.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_HF_TYPES_H
#define QSF_CONVERT_HF_TYPES_H

#include "model/arch.h"

/* Which members config.json has. */
typedef enum hf_keys {
    HF_KEYS_LLAMA,          /* hidden_size, num_hidden_layers, ... */
    HF_KEYS_GEMMA,          /* the same with hidden_activation */
    HF_KEYS_GEMMA2,         /* and with soft caps and query_pre_attn_scalar */
    HF_KEYS_GPT2,           /* n_embd, n_layer, ... */
    HF_KEYS_BERT,           /* hidden_size, ..., and type_vocab_size */
    HF_KEYS_NOMIC,          /* the same, or n_embd, n_layer, ... and what the network is not */
    HF_KEYS_MODERN,         /* Llama's with hidden_activation, norm_eps and local_attention */
    HF_KEYS_LFM2,           /* Llama's with norm_eps, and a feed-forward whose length is computed */
    HF_KEYS_GEMMA4          /* hidden_activation, and sizes of layers that see everything */
} hf_keys;

/* How a tensor's layout in the file differs from the engine's, as bits. */
typedef enum hf_how {
    HF_FLAT     = 1 << 0,   /* a vector that has more dimensions there: [channels][1][taps] */
    HF_STACKED  = 1 << 1,   /* of all experts: [experts][outputs][inputs], vectors [experts][outputs] */
    HF_TURNED   = 1 << 2,   /* [experts][inputs][outputs], unless it has MXFP4's blocks */
    HF_WOVEN    = 1 << 3,   /* outputs of the parts are interleaved, not concatenated */
    HF_HEADS    = 1 << 4,   /* heads of a delta net that share a key lie side by side */
    HF_DECAY    = 1 << 5,   /* logarithms of what states decay by */
    HF_PLAIN    = 1 << 6,   /* a norm stored plainly, while the type's others are stored less 1 */
    HF_SHARED   = 1 << 7,   /* only in layers with experts */
    HF_OUTSIDE  = 1 << 8,   /* outside of the layers, for all of them */
    HF_BARE     = 1 << 9,   /* no prefix before the name, except the head's */
    HF_SETS     = 1 << 10   /* of a delta net: a key's rows in one piece, query, key, values, gates */
} hf_how;

/* A tensor's name if it differs from Llama's in the table of roles.  Kinds with the same name share
 * a tensor of the file, whose outputs are in the order of the list; part then identifies the kind
 * in messages. */
typedef struct hf_alias {
    uint8_t     kind;
    uint16_t    how;            /* hf_how */
    const char *name;           /* NULL ends a list */
    const char *part;           /* "q", or NULL */
} hf_alias;

/* Keys of the experts' settings.  NULL: this type does not have the setting. */
typedef struct hf_expert_keys {
    const char *when;           /* whether there are any; NULL: determined by n */
    const char *n, *ff;         /* their number; their length */
    const char *used;           /* how many a row takes; NULL: "num_experts_per_tok" */
    const char *shared;         /* length of the shared feed-forward, ... */
    const char *n_shared;       /* ... or how many of an expert's length that are, */
    uint32_t    n_shared_absent;
    const char *method;         /* topk_method, besides "greedy"; NULL: not used */
    const char *dense;          /* layers without experts, the first ones */
    uint32_t    n_absent, used_absent, dense_absent;    /* defaults; n_absent 0: required */
    bool        may_lack;       /* their number may be 0: only the shared feed-forward is left */
    uint32_t    groups_absent;  /* of experts: the default */
    bool        sigmoid;        /* of the router; else it is as in the architecture */
    bool        norm_says, norm_absent;     /* norm_topk_prob counts; else it is as in the architecture */
} hf_expert_keys;

typedef struct hf_type {
    const char *type, *class_name;      /* "model_type" and "architectures" of config.json */
    const char *arch;                   /* a row of core/model/arch.c, which has the rest */
    uint8_t     keys;                   /* hf_keys */
    /* the Transformers library's defaults, for members missing in config.json */
    uint32_t    vocab, embd, ff, layers, heads;
    uint32_t    kv_heads;               /* 0: heads */
    uint32_t    head_dim;               /* 0: embd / heads */
    uint32_t    ctx, window;            /* window 0: none */
    float       eps, rope_base;
    const char *eps_at;                 /* key; NULL: "rms_norm_eps", or as the keys have it */
    float       rope_local;             /* of windowed layers; 0: as the architecture has it */
    const char *theta, *theta_local;    /* keys of both; NULL: "rope_theta", "rope_local_base_freq" */
    bool        tied;
    bool        late_window;            /* use_sliding_window, and layers up to max_window_layers see all,
                                         * with experts none of them */
    bool        few_windows;            /* or other layers do, which layer_types must list */
    bool        window_period;          /* sliding_window_pattern */
    bool        partial_rope;           /* partial_rotary_factor may be other than 1 */
    float       rope_part;              /* the same, and that is what it is; 0: 1 */
    bool        sections;               /* texts turn all sections of "mrope" alike */
    bool        pairs;                  /* rows of queries and keys are stored as rotating pairs */
    bool        scaled_rope;            /* required in config.json, without a default */
    bool        biased;                 /* attention_bias */
    bool        norms_less_one;         /* norms are stored less 1 */
    bool        classes;                /* texts are scored for labels */
    bool        transposed;             /* matrices of layers are stored [inputs][outputs] */
    bool        bare_text;              /* no leading space, whatever tokenizer.model says */
    bool        ternary;                /* matrices of layers are masters of ternary ones */
    const char *other_type;             /* NULL, or the "model_type" that goes with this class's name */
    const char *other_class;            /* NULL, or another class's name that means the same */
    bool        yes_no;                 /* rerankers answer yes or no, recognised by the directory's name */
    const hf_expert_keys *experts;      /* NULL: no experts */
    bool        mxfp4;                  /* quantization_config may be mxfp4 */
    const char *pre;                    /* BPE with byte_fallback: its pre-tokenizer; NULL: SentencePiece */
    uint64_t    need;                   /* kinds, as bits, besides those of the architecture */
    uint64_t    biases;                 /* those that attention_bias and mlp_bias are about */
    uint32_t    pos_first;              /* rows of the positions that no text has, before the first */
    const char *layers_at;              /* before a layer's number; NULL: "layers." */
    /* exceptions; NULL: none.  A name with a * stands for one tensor of each expert. */
    const hf_alias *names;
    /* If a file has this tensor, with any prefix, these names apply too; NULL: none. */
    const char *older_mark, *older_at;
    const hf_alias *older;
} hf_type;

extern const hf_type qsf_hf_types[];                          /* the last has a NULL type */

#endif
