/* Rotary position embedding: the frequencies of a model and the sines and cosines of a batch.
 * SPDX-License-Identifier: MIT
 * Su et al. 2021, arXiv:2104.09864; YaRN: Peng et al. 2023, arXiv:2309.00071. */
#ifndef QSF_ROPE_H
#define QSF_ROPE_H

#include "model/source.h"

/* A rotary table of a context. */
typedef struct qsf_rope {
    uint32_t half;          /* rotated pairs of a head */
    /* pairs from here on rotate less than half a radian over the requested context */
    uint32_t slow;
    bool     pairs;         /* which columns are rotated together: those of QSF_ROPE_PAIRS */
    float    mscale;        /* multiplies sine and cosine */
    double  *freq;          /* [half] radians a position */
    float   *cos, *sin;     /* [rows][half] of the batch's rows: output */
} qsf_rope;

/* Fills all but cos and sin; freq[half] is the caller's.  n_ctx decides between a table's two sets
 * of factors, the length that was asked for which pairs are slow. */
void qsf_rope_init(qsf_rope *r, const qsf_rope_record *of, double *freq, uint32_t n_ctx, uint32_t asked);
/* cos[half], sin[half] of one position. */
void qsf_rope_angles(const qsf_rope *r, uint32_t pos, float *cos_out, float *sin_out);

static inline uint32_t qsf_rope_half(const qsf_rope_record *r) { return r->dim / 2; }
/* Of all rotary tables together. */
uint32_t qsf_ropes_half(const qsf_source *s);
/* Whether one of them takes its factors for long contexts. */
bool     qsf_ropes_long(const qsf_source *s, uint32_t n_ctx);

#endif
