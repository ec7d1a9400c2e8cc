/* The rows that are computed together, and those of one sequence in groups.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BATCH_H
#define QSF_BATCH_H

#include "base/base.h"

/* A row of the batch under way. */
typedef struct qsf_batch_row {
    uint32_t seq, pos;
    int32_t  token;
    int32_t  logits;      /* index of its logits, -1: none asked */
} qsf_batch_row;

/* Neighbouring rows of one sequence, whose attention is computed together. */
enum { QSF_ATTENTION_ROWS = 8 };
typedef struct qsf_row_group { uint32_t first, n; } qsf_row_group;

typedef struct qsf_batch {
    qsf_batch_row *rows;      /* [n], room for qsf_rows_most */
    qsf_row_group *groups;    /* the same */
    uint32_t n, n_asked;      /* rows, with those that early exit had left; rows that ask for logits */
    uint32_t n_groups;
    bool     groups_apart;    /* no two of them are of one sequence */
    bool     own_states;      /* of an EAGLE 3 head: rows begin with its own states, not with features */
} qsf_batch;

/* Finds neighbouring rows of one sequence. */
void qsf_batch_group(qsf_batch *b);

/* Rows that may wait for a later batch, which they join as rows of their own (early_exit.c). */
enum { QSF_EXIT_MOST = 7 };
/* Most rows that are computed together. */
static inline uint32_t qsf_rows_most(const qsf_context_options *o)
{
    return o->n_batch + (o->early_exit > 0 ? QSF_EXIT_MOST : 0);
}

#endif
