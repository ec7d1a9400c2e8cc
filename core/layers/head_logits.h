/* Logits of the rows that asked: products of their normed states with rows of the head.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_LOGITS_H
#define QSF_HEAD_LOGITS_H

#include "layers/matrix.h"

/* The head, or a part of it. */
typedef struct qsf_head_part {
    qsf_matrix   m;
    uint32_t     row;           /* of the head, that m begins with */
    const float *bias;          /* [rows of m] or NULL */
    uint8_t     *own;           /* m's bytes, if they stay and may be put in another order; else NULL */
} qsf_head_part;

/* The logits of the j-th row that asked, [ld_vocab]. */
static inline float *qsf_head_row(const qsf_pass *p, uint32_t j) { return p->b->logits + j * p->b->ld_vocab; }

/* y[n][ldy] = tiles of m times the n normed rows from the j-th that asked on. */
void qsf_head_product(const qsf_pass *p, const qsf_matrix *m, uint32_t j, uint32_t n, float *y, size_t ldy,
                      qsf_range tiles, uint32_t thread);
/* Logits of these tiles, for n rows from the j-th that asked on; of those `which` of the listed
 * tiles, for the j-th row; of all tiles, for the first n rows, by all threads, as the operation op
 * that accounts for the time since `begin` (returns the time now). */
void qsf_head_logits(const qsf_pass *p, const qsf_head_part *part, uint32_t j, uint32_t n, qsf_range tiles,
                     uint32_t thread);
void qsf_head_logits_of(const qsf_pass *p, const qsf_head_part *part, uint32_t j, const uint32_t *tiles,
                        qsf_range which, uint32_t thread);
uint64_t qsf_head_logits_all(const qsf_pass *p, const qsf_head_part *part, uint32_t n, qsf_op op,
                             uint64_t begin);

#endif
