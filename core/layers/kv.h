/* The bytes of the KV cache: keys and values of all layers in blocks of positions.  Which block has
 * which positions of a sequence is the engine's business (engine/kv_tables.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_H
#define QSF_KV_H

#include "base/host.h"
#include "kernels.h"
#include "model/source.h"

/* One head's part of a block of QSF_KV_BLOCK positions is a record.  Floats: k[32][head_dim],
 * v[32][head_dim]. Codes: those of k and v, at 8 bits in tiles (kernels.h), below with several in a
 * byte (kv_codes.c), then k scales[32], v scales[32]: floats at 8 bits, fp16 below. */
typedef struct qsf_kv_layout {
    const struct qsf_kv_ops *ops;       /* what is done with records of this type */
    qsf_kv_type type;
    unsigned    k_bits, v_bits;         /* of a code; 0: floats */
    uint32_t    n_layers, n_kv_heads, head_dim;
    size_t      v_at, kd_at, vd_at;     /* places in a record */
    size_t      record;                 /* bytes, a multiple of 64 */
} qsf_kv_layout;

/* A record as the kernels for 8 bits take it. */
typedef struct qsf_kv_codes {
    const int8_t *k, *v;
    const float  *kd, *vd;
} qsf_kv_codes;

/* Query vectors on their way through one key-value head's blocks. */
typedef struct qsf_kv_work {
    size_t   vectors;
    float    scale;             /* of queries times keys */
    float   *q, *o;             /* [vectors][head_dim] queries; sums of values */
    float   *s;                 /* [vectors][QSF_KV_BLOCK] a block's scores; for floats then its weights */
    float   *factor;            /* [vectors] what the sums so far are scaled with */
    const uint8_t *ahead;       /* a record that comes soon; NULL: none */
    /* For codes: */
    float   *qd, *pd;           /* [vectors] scales of the queries' and the weights' codes */
    int32_t *qs;                /* [vectors] sums of the queries' codes */
    int8_t  *qc;                /* [vectors][qsf_kv_dim(head_dim)] */
    uint8_t *pc;                /* [vectors][QSF_KV_BLOCK] */
    uint8_t *unpacked;          /* [qsf_kv_scratch] */
    qsf_kv_codes codes;         /* of the block in hand */
} qsf_kv_work;

/* What a KV type does; chosen once for a cache. */
typedef struct qsf_kv_ops {
    /* Writes k and v [head_dim] into place i of a record. */
    void (*store)(const qsf_kv_layout *l, const qsf_kernels *kn, uint8_t *record, size_t i, const float *k,
                  const float *v);
    /* Once before the first block: the queries as `scores` takes them. */
    void (*begin)(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w);
    /* w->s = scale * q . k of the record's first n positions; a step of the online softmax for some
     * vectors, whose running maxima and sums are m and l; then o = o * factor + weights . v */
    void (*scores)(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w, const uint8_t *record,
                   size_t n);
    void (*softmax)(const qsf_kernels *kn, const qsf_kv_work *w, size_t first, size_t vectors, size_t n,
                    float *m, float *l);
    void (*sum)(const qsf_kv_layout *l, const qsf_kernels *kn, qsf_kv_work *w, const uint8_t *record,
                size_t n);
} qsf_kv_ops;

/* The block table of a sequence. */
typedef struct qsf_kv_seq {
    uint32_t *blocks;      /* [n_blocks] those that are kept, in order */
    uint32_t *places;      /* [n_blocks] which of the sequence's they are: 0, 1, 2 if none was dropped */
    float    *attention;   /* [n_blocks] that each has drawn, if kv_heavy asks for it (kv_attention.c) */
    uint32_t  n;           /* of both */
    uint32_t  length;      /* positions */
    uint32_t  safe;        /* if blocks were dropped: from this length on nothing seen is missing */
} qsf_kv_seq;

typedef struct qsf_kv {
    const qsf_platform *platform;
    qsf_kv_layout layout;
    uint32_t    n_blocks;
    uint32_t    n_layers;  /* the first ones, which have room */
    uint8_t    *data;      /* [n_layers][n_blocks][n_kv_heads] records */
} qsf_kv;

void     qsf_kv_layout_init(qsf_kv_layout *l, qsf_kv_type type, uint32_t n_layers, uint32_t n_kv_heads,
                            uint32_t head_dim);
/* Blocks for n_ctx positions of n_seqs sequences: a partly filled block more for every sequence
 * beyond the first. */
uint32_t qsf_kv_blocks_for(uint32_t n_ctx, uint32_t n_seqs);
/* Whether several codes share a byte: then they are unpacked for the kernels, and what is stored
 * was mixed (attention.c). */
static inline bool qsf_kv_packed(unsigned bits) { return bits == 4 || bits == 2; }
/* "q8", as options and messages have it. */
const char *qsf_kv_name(qsf_kv_type type);
/* The same for options with or without a window. */
uint32_t qsf_kv_blocks_of(const qsf_context_options *o);
uint64_t qsf_kv_bytes(const qsf_kv_layout *l, uint32_t n_layers, uint32_t n_blocks);

/* With room for the first n_layers of the layout's. */
qsf_status qsf_kv_init(qsf_kv *kv, const qsf_platform *p, const qsf_kv_layout *l, uint32_t n_layers,
                       uint32_t n_blocks, qsf_error *err);
void       qsf_kv_done(qsf_kv *kv);
/* Makes room for all layers, from p's memory, if this one has no room yet. */
qsf_status qsf_kv_need(qsf_kv *kv, const qsf_platform *p, uint32_t layer, qsf_error *err);
/* Copies block `from` of all layers to block `to`. */
void       qsf_kv_copy(const qsf_kv *kv, uint32_t to, uint32_t from);

/* Whether no block was dropped. */
static inline bool qsf_kv_whole(const qsf_kv_seq *q)
{
    return q->n == (q->length + QSF_KV_BLOCK - 1) / QSF_KV_BLOCK;
}
/* The table entry of position pos; its block and all later ones must be kept. */
static inline uint32_t qsf_kv_entry(const qsf_kv_seq *q, uint32_t pos)
{
    return q->n - 1 - (q->places[q->n - 1] - pos / QSF_KV_BLOCK);
}

static inline uint8_t *qsf_kv_record(const qsf_kv *kv, uint32_t layer, uint32_t block, uint32_t head)
{
    const size_t records = ((size_t)layer * kv->n_blocks + block) * kv->layout.n_kv_heads + head;
    return kv->data + records * kv->layout.record;
}
/* Writes head's k and v [head_dim] of position pos, which must be inside the sequence's length. */
void qsf_kv_store(const qsf_kv *kv, const qsf_kernels *kn, uint32_t layer, const qsf_kv_seq *q, uint32_t pos,
                  uint32_t head, const float *k, const float *v);

#endif
