/* A low-rank adapter (LoRA: Hu et al. 2021, arXiv:2106.09685) of an opened model: to the product of
 * a matrix and x it adds scale * B (A x).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ADAPTER_H
#define QSF_ADAPTER_H

#include "model/model.h"

/* What an adapter adds to one matrix. */
typedef struct qsf_lora_pair {
    uint32_t     unit, kind;        /* of the matrix */
    uint32_t     rank, rows, cols;
    uint32_t     at;                /* of its rank numbers among those of all pairs of its unit */
    float        scale;             /* alpha / rank, and what a and b are too large by */
    /* The sum of so many planes, 1 or 2, of fp16: a [planes][rank][cols]; b, in tiles of 16 rows,
     * [planes][tiles][rank][16].  0 for the token embedding: floats, a [n_vocab][rank], b
     * [rows][rank]. */
    uint32_t     planes;
    const void  *a, *b;
} qsf_lora_pair;

struct qsf_adapter {
    qsf_model     *model;
    qsf_arena     *arena;           /* owns it, and all that follows */
    atomic_uint    users;           /* the caller, until qsf_adapter_free, and sequences */
    const char    *name;
    uint32_t       n_pairs;
    qsf_lora_pair *pairs;           /* by unit */
    uint32_t      *first;           /* [n_layers + 3] of each unit's pairs */
    uint32_t       rank;            /* the largest */
    uint32_t       width;           /* the most rank numbers that the pairs of one unit have */
    float          alpha;
    uint64_t       hash;            /* of all that changes answers */
    uint64_t       bytes;
};

void qsf_adapter_hold(qsf_adapter *a);

static inline const qsf_lora_pair *qsf_adapter_find(const qsf_adapter *a, uint32_t unit, uint32_t kind)
{
    for (uint32_t i = a->first[unit]; i < a->first[unit + 1]; i++)
        if (a->pairs[i].kind == kind) return &a->pairs[i];
    return NULL;
}

#endif
