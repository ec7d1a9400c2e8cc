/* The memory that a batch is computed in.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BUFFERS_H
#define QSF_BUFFERS_H

#include "kernels.h"
#include "model/source.h"

/* Leading dimensions are padded to whole tiles.  qsf_rows_most rows each unless said.  What
 * buffer_names.h names is as wide as the layers' programs need it, and NULL if none uses it. */
typedef struct qsf_buffers {
    float *x;             /* [rows][ld_embd] the residual stream */
    float *xn;            /* [rows][ld_embd] normed */
    float *tmp;           /* [rows][ld_embd] output of a projection */
    float *q, *k, *v;     /* [rows][ld_q], [rows][ld_kv] */
    float *att;           /* [rows][ld_q] */
    float *gate, *up;     /* [rows][ld_ff] */
    float *x0;            /* [rows][ld_embd] the embedding, if tokens have rows for layers */
    float *table;         /* [rows][ld_table] these */
    float *alt;           /* [rows][ld_alt] other streams than x */
    float *predicted, *laurel;      /* [rows][ld_embd] x before the layer's parts; the way around attention */
    float *joined;        /* [rows][ld_joined] embedding and hidden state, for multi-token prediction */
    float *features;      /* [rows][ld_features] of another model, for an EAGLE 3 head */
    float *first;         /* [rows][ld_embd] the first layer's values */
    float *mix;           /* [rows][ld_mix] what a mixer with state is given */
    float *logits;        /* [n_logits][ld_vocab] */
    float *angles;        /* cosines, then sines [rows][half] of each rotary table; see qsf_rope */
    /* [threads][16][max_cols] weights as floats, or what the kernels of half floats need */
    float *float_rows;
    float *scratch;       /* [threads][ld_scratch] what rows of programs ask for */
    float *kv_attention;  /* [threads][qsf_kv_attention_floats] */
    float *bias_back;     /* [blocks of the context][2][half], and */
    /* [QSF_KV_BLOCK][2][half] halves: see key_bias.c; NULL if keys keep their bias */
    uint16_t *bias_steps;
    qsf_act act;          /* [rows][max_cols] */
    /* Of layers with experts (feed_forward_experts.c), NULL without them. */
    float    *route;      /* [rows][ld_route] the router's logits, and scratch */
    uint32_t *chosen;     /* [rows][n_used] a row's experts, ascending; */
    float    *chosen_weight;
    uint32_t *slot_of;    /* [rows][n_used] their slots */
    float    *shared_weight;        /* [rows] */
    float    *experts;    /* [rows][ld_embd] the sum of experts */
    uint32_t *expert_count;         /* [n_experts] */
    uint32_t *expert_list;          /* [n_experts] those that have slots; */
    uint32_t *expert_first;         /* [n_experts + 1] their first ones */
    uint32_t *slot_row, *slot_expert;       /* [rows * n_used] */
    float    *slot_x;     /* [n_slots][ld_slot_x] rows, then outputs */
    float    *slot_gate, *slot_up;  /* [n_slots][ld_slot] */
    qsf_act   slot_act;   /* [n_slots][max_cols] */
    size_t    ld_route, ld_slot_x, ld_slot, n_slots;
    size_t ld_table, ld_alt, ld_joined, ld_features;
    size_t ld_embd, ld_q, ld_kv, ld_ff, ld_mix, ld_vocab, ld_scratch, max_cols;
} qsf_buffers;

struct qsf_needs;
/* Lays the buffers out from base (NULL: only counts) and returns their bytes. */
uint64_t qsf_buffers_layout(qsf_buffers *b, uint8_t *base, const qsf_source *s, const struct qsf_needs *n,
                            const qsf_context_options *o);

#endif
