/* The attention that blocks of the KV cache draw, counted if kv_heavy asks for it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_KV_ATTENTION_H
#define QSF_KV_ATTENTION_H

#include "layers/kv.h"

/* A context's counters. */
typedef struct qsf_kv_attention {
    /* [n_threads][floats], NULL: nothing is counted.  Of a thread: attention [n_seqs][n_blocks] in
     * 64 bits, then of the group under way the steps' sums and maxima [most][n_blocks] in
     * floats. */
    float   *own;
    size_t   floats, most;
    uint32_t n_threads, n_seqs, n_blocks;
} qsf_kv_attention;

/* What a thread counts of the group under way. */
typedef struct qsf_kv_counts {
    uint64_t *of;         /* [entries] of the sequence's blocks; NULL: nothing is counted */
    float   *sums, *tops; /* [vectors][n_blocks] of each step of the online softmax */
    uint32_t n_blocks, entries;
    size_t   vectors;
} qsf_kv_counts;

/* For a thread; 0: nothing is counted. */
size_t qsf_kv_attention_floats(const qsf_source *s, const qsf_context_options *o);
void   qsf_kv_attention_init(qsf_kv_attention *a, float *own, const qsf_source *s,
                             const qsf_context_options *o);

/* A group of rows of sequence s, which has seq's blocks. */
qsf_kv_counts qsf_kv_attention_begin(const qsf_kv_attention *a, const qsf_kv_seq *seq, uint32_t s,
                                     size_t vectors, uint32_t thread);
/* A step of vector v over entry e: l was its sum before and was scaled by factor; top, sum are
 * those after. */
void   qsf_kv_attention_note(const qsf_kv_counts *n, size_t v, uint32_t e, float l, float factor, float top,
                             float sum);
/* The shares of all steps, for vectors whose softmax is done; m, l: their maxima and sums. */
void   qsf_kv_attention_end(const qsf_kv_counts *n, const float *m, const float *l);
/* Between batches: what the threads have counted goes to the sequences, or (keep false) nowhere. */
void   qsf_kv_attention_collect(const qsf_kv_attention *a, qsf_kv_seq *seqs, bool keep);

#endif
