/* The architectures that model files name, as data: one table for GGUF files and Hugging Face
 * directories.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ARCH_H
#define QSF_ARCH_H

#include "model/roles.h"

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
    uint32_t window, window_pattern;     /* where the file does not say; pattern 0: every layer is windowed */
    float    attn_softcap, final_softcap;
    float    base_local;        /* rotary base of windowed layers; 0: they turn like the others */
    uint32_t n_layers_27b;      /* the size whose queries are scaled by n_embd / n_heads, not head_dim */
    /* Kinds of tensors, as bits, that every model of this architecture has and that one may have,
     * beside those that its hyperparameters ask for (qsf_role_needed). */
    uint64_t need, may;
} qsf_arch;

extern const qsf_arch qsf_archs[];                     /* the last has no name */
const qsf_arch *qsf_arch_find(const char *name);      /* NULL: unknown */
void            qsf_arch_list(char *out, size_t cap);  /* "llama, qwen2, ..." */

/* Whether a model must have the tensor, and whether it may.  layer: as for qsf_role_needed. */
bool qsf_arch_needs(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);
bool qsf_arch_takes(const qsf_arch *a, const qsf_hparams *hp, const qsf_layer *layer, const qsf_role *role);

/* Byte 12 of a QSF file's header: a number for the architectures of the founding document. */
enum { QSF_ARCH_CUSTOM = 4 };
uint32_t    qsf_arch_number(const char *name);        /* QSF_ARCH_CUSTOM: none of them */
const char *qsf_arch_of_number(uint32_t number);      /* "custom": none of them */

#endif
