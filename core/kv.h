/* The KV cache: fixed-size blocks of positions behind a table for each sequence, with reference counts.  Sharing a
 * prefix, cutting back and copying on write are operations on the tables.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_H
#define QSF_KV_H

#include "host.h"
#include "kernels.h"
#include "source.h"

/* One head's part of a block of QSF_KV_BLOCK positions is a record.  Floats: k[32][head_dim], v[32][head_dim].  8 bits: the codes of k and v in
 * tiles (kernels.h), then k scales[32], v scales[32]. */
typedef struct qsf_kv_layout {
    qsf_kv_type type;
    uint32_t    n_layers, n_kv_heads, head_dim;
    size_t      v_at, kd_at, vd_at;     /* places in a record */
    size_t      record;                 /* bytes, a multiple of 64 */
} qsf_kv_layout;

typedef struct qsf_kv_seq {
    uint32_t *blocks;      /* [max_blocks] */
    uint32_t  length;      /* positions */
} qsf_kv_seq;

typedef struct qsf_kv {
    const qsf_platform *platform;
    qsf_kv_layout layout;
    uint32_t    n_blocks, n_seqs;
    uint32_t    n_free;
    uint32_t   *free;      /* [n_blocks] stack of free blocks */
    uint32_t   *refs;      /* [n_blocks] */
    qsf_kv_seq *seqs;
    uint8_t    *data;      /* [n_layers][n_blocks][n_kv_heads] records */
    uint64_t    data_bytes;
} qsf_kv;

void     qsf_kv_layout_init(qsf_kv_layout *l, qsf_kv_type type, uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim);
/* Blocks for n_ctx positions of n_seqs sequences: a partly filled block more for every sequence beyond the first. */
uint32_t qsf_kv_blocks_for(uint32_t n_ctx, uint32_t n_seqs);
uint64_t qsf_kv_bytes(const qsf_kv_layout *l, uint32_t n_blocks, uint32_t n_seqs);    /* of everything */

qsf_status qsf_kv_init(qsf_kv *kv, const qsf_platform *p, const qsf_kv_layout *l, uint32_t n_blocks, uint32_t n_seqs, qsf_error *err);
void       qsf_kv_done(qsf_kv *kv);

/* Makes room for n more positions of sequence s: takes blocks, copies a shared last block.  QSF_E_FULL changes nothing. */
qsf_status qsf_kv_grow(qsf_kv *kv, uint32_t s, uint32_t n);
void       qsf_kv_truncate(qsf_kv *kv, uint32_t s, uint32_t length);
void       qsf_kv_share(qsf_kv *kv, uint32_t dst, uint32_t src, uint32_t length);

static inline uint8_t *qsf_kv_record(const qsf_kv *kv, uint32_t layer, uint32_t block, uint32_t head)
{
    return kv->data + (((size_t)layer * kv->n_blocks + block) * kv->layout.n_kv_heads + head) * kv->layout.record;
}
/* Writes head's k and v [head_dim] of position pos of sequence s, which must be inside its length. */
void qsf_kv_store(const qsf_kv *kv, const qsf_kernels *kn, uint32_t layer, uint32_t s, uint32_t pos, uint32_t head, const float *k, const float *v);

#endif
