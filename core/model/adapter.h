/* A low-rank adapter (LoRA: Hu et al. 2021, arXiv:2106.09685) of an opened model: to the product of
 * a matrix and x it adds scale * B (A x).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ADAPTER_H
#define QSF_ADAPTER_H

#include "kernels.h"
#include "model/lora_file.h"
#include "model/model.h"

/* What an adapter adds to one matrix. */
typedef struct qsf_lora_pair {
    uint32_t     unit, kind;        /* of the matrix */
    uint32_t     rank, rows, cols;
    uint32_t     at;                /* of its qsf_lora_width places among those of all pairs of its unit */
    float        scale;             /* alpha / rank, and what a and b are too large by */
    /* A matrix of experts has a pair for each, of rows x cols; else 0 and NULL. */
    uint32_t     n_experts;
    float       *scales;            /* [n_experts] instead of scale; 0: the expert has no pair */
    /* 0: in 8-bit codes: a as tiles of the form QSF_F_8, QSF_LORA_BLOCK columns wide, b as tiles of
     * add_narrow (kernels.h).  Otherwise exact, as the sum of this many fp16 planes, 1 or 2:
     * a [planes][rank][cols]; b, in tiles of 16 rows, [planes][tiles][rank][16].  The token
     * embedding's are floats, a [n_vocab][rank], b [rows][rank], and stay in memory. */
    uint32_t     planes;
    size_t       a_at, b_at;        /* in the memory of its unit */
    size_t       a_step, b_step;    /* from an expert's to the next one's */
} qsf_lora_pair;

enum { QSF_LORA_BLOCK = 64 };
static inline size_t qsf_lora_width(const qsf_lora_pair *p)
{
    return (size_t)qsf_round_up(p->rank, QSF_TILE_ROWS);
}
static inline size_t qsf_lora_depth(const qsf_lora_pair *p) { return ((size_t)p->rank + 3) / 4; }
size_t qsf_lora_a_bytes(const qsf_lora_pair *p);
size_t qsf_lora_b_bytes(const qsf_lora_pair *p);

struct qsf_adapter {
    qsf_model     *model;
    qsf_arena     *arena;           /* owns it, and all that follows */
    atomic_uint    users;           /* the caller, until qsf_adapter_free, and sequences */
    const char    *name;
    uint32_t       n_pairs;
    qsf_lora_pair *pairs;           /* by unit and kind */
    uint32_t      *first;           /* [n_layers + 3] of each unit's pairs */
    size_t        *unit_bytes;      /* [n_layers + 2] */
    size_t         unit_most;       /* the most of those that do not stay */
    size_t         ahead_most;      /* the most bytes of the file that are read for one at once; 0: none */
    uint8_t      **mem;             /* [n_layers + 2]; entry NULL: no pairs, or they are streamed */
    uint32_t       rank;            /* the largest */
    uint32_t       width;           /* the most places that the pairs of one unit have */
    uint32_t       experts_width;   /* the same of those of experts, which are of other rows */
    float          alpha;
    bool           exact, streamed; /* as it was opened */
    uint32_t       number;
    bool           codes;           /* a pair is in codes */
    uint64_t       hash;            /* of all that changes answers */
    uint64_t       bytes;
    qsf_lora_file  file;            /* open while it is streamed */
};

/* Reads the pairs of a streamed adapter's unit to mem[unit_bytes]; bytes in `there` (NULL: none)
 * are not read again.  Several contexts may call this at the same time. */
qsf_status qsf_adapter_read_unit(const qsf_adapter *a, uint32_t unit, const qsf_lora_bytes *there,
                                 uint8_t *mem, qsf_error *err);
/* Which bytes of the file these are, at most ahead_most; false: they are not read in one piece. */
bool       qsf_adapter_unit_bytes(const qsf_adapter *a, uint32_t unit, qsf_lora_bytes *out);

void qsf_adapter_hold(qsf_adapter *a);

/* The factor of h, in addition to the scale with which the adapter is used.  expert: 0 for matrices
 * without experts, as in the next functions. */
static inline float qsf_lora_scale(const qsf_lora_pair *p, uint32_t expert)
{
    return p->scales ? p->scales[expert] : p->scale;
}
static inline const uint8_t *qsf_lora_a(const qsf_lora_pair *p, const uint8_t *unit, uint32_t expert)
{
    return unit + p->a_at + expert * p->a_step;
}
static inline const uint8_t *qsf_lora_b(const qsf_lora_pair *p, const uint8_t *unit, uint32_t expert)
{
    return unit + p->b_at + expert * p->b_step;
}

static inline const qsf_lora_pair *qsf_adapter_find(const qsf_adapter *a, uint32_t unit, uint32_t kind)
{
    for (uint32_t i = a->first[unit]; i < a->first[unit + 1]; i++)
        if (a->pairs[i].kind == kind) return &a->pairs[i];
    return NULL;
}

#endif
