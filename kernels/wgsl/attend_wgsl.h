/* Attention: queries, keys and values of a batch to their places, then chunks of positions.
 * SPDX-License-Identifier: MIT
 *
 * Keys and values lie in the records of the CPU's KV cache (core/layers/kv.h): 32 positions of one
 * key-value head, [blocks][n_kv_heads] records of a layer.  Two buffers select them:
 *
 *   Rows   vec4<u32> for each row of the batch: its position; the first entry of its sequence in
 *          Table, and the number of entries; the block that its key and value are stored in
 *   Table  vec2<u32> for each entry: the block, and which of the sequence's it is (0, 1, 2 ... if
 *          none was dropped); after a sequence's entries one with its number of positions */
#ifndef QSF_WGSL_ATTEND_H
#define QSF_WGSL_ATTEND_H

#include "wgsl.h"

enum { QSF_WGSL_HEAD_DIM = 512 };       /* at most */

typedef struct qsf_wgsl_attend {
    bool     codes;         /* keys and values of 8 bits; else fp16 */
    bool     wide;          /* of 32 bits */
    uint32_t room;          /* head_dim of the records: even, and with codes a multiple of 16 */
    /* chunks: */
    uint32_t share;         /* query heads of a workgroup, which share their keys */
    bool     softcap;
    bool     alibi;
    bool     both;          /* rows see half the window on each side: an encoder */
    /* prompt: a score more for each head (chunks: rows_wgsl.h has them) */
    bool     head_sinks;
    /* places: */
    bool     norm;          /* norm of queries and keys */
    bool     values;        /* norm of values, without weights */
    bool     mean;          /* norms are layer norms; else RMS norms */
    bool     rotated_first; /* the norm comes after the rotation */
    bool     still;         /* with codes and without norm: keys are stored without a vector */
    bool     temper;        /* queries are scaled with their position */
    bool     rope, pairs;   /* rotated; which columns are rotated together (qsf_rope) */
} qsf_wgsl_attend;

/* Both shaders' numbers.  Places in records are in words. */
typedef struct qsf_wgsl_attend_numbers {
    uint32_t n, heads, kv_heads, head_dim;
    uint32_t q_ld, q_at, k_ld, k_at, v_ld, v_at;    /* places: of Q, K, V, in floats */
    uint32_t record, value_at, key_scales_at, value_scales_at;
    uint32_t half;              /* pairs of columns that are rotated */
    uint32_t mix;               /* codes: keys and queries are mixed this far apart (1 or 8); 0: not */
    uint32_t norm_ld;           /* weights from one head to the next: 0 or head_dim */
    float    eps, scale, cap;   /* of the norm; of queries times keys; of the soft cap */
    uint32_t window, sinks, far;    /* 0: all; positions at the beginning that are seen up to far */
    uint32_t block;             /* records of a block, at least kv_heads */
    uint32_t q_step;            /* places: floats from one head's query to the next in Q */
    /* alibi: the exponents of 2 of the first `even` heads' slopes: slope * (head + 1) */
    float    slope;
    uint32_t even;
    float    temp;              /* temper: queries times 1 + temp * ln(1 + position / every) */
    uint32_t every;
    uint32_t blocks;            /* chunks: of one */
} qsf_wgsl_attend_numbers;

/* Words of a query as places leaves it: floats; codes: the scale, then words of codes. */
static inline uint32_t qsf_wgsl_query_words(const qsf_wgsl_attend *a)
{
    return a->codes ? 1 + a->room / 4 : a->room;
}

/* Whether the shaders can have heads of this size. */
static inline bool qsf_wgsl_has_room(const qsf_wgsl_attend *a)
{
    return a->room && a->room <= QSF_WGSL_HEAD_DIM && a->room % (a->codes ? 16 : 2) == 0;
}

/* Elements of a query without its scale: fp16: pairs of floats; codes: words. */
static inline uint32_t qsf_wgsl_query_room(const qsf_wgsl_attend *a) { return a->room / (a->codes ? 4 : 2); }

/* Query heads that a workgroup can have: 32 invocations each, and memory for a query, for scores in
 * nine parts, twice for those of a block. */
static inline uint32_t qsf_wgsl_most_share(const qsf_wgsl_attend *a)
{
    return QSF_MIN(8, QSF_WGSL_SHARED / ((a->codes ? 1 : 2) * qsf_wgsl_query_room(a) + 11 * 32 + 1));
}

/* The text of both: struct Numbers, binding 0, and the constants of a variant. */
void qsf_wgsl_attend_head(qsf_wgsl_text *t, const qsf_wgsl_attend *a);
/* fn record_of(entry, kv): the record of a key-value head in the block of an entry of Table;
 * fn seen(at, pos): whether the row at pos sees the position `at`; NONE, the score if it does not;
 * fn needed(at, low, last): whether some row from low to last sees one of the 32 positions;
 * fn written(at, last): whether a position that rows up to last may see has keys and values;
 * both: var length, which the shader sets; alibi: fn slope(head). */
void qsf_wgsl_attend_seen(qsf_wgsl_text *t, const qsf_wgsl_attend *a);

#endif
