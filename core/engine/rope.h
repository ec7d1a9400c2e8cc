/* Rotary position embedding: the frequencies of a model and the sines and cosines of a batch.
 * SPDX-License-Identifier: MIT
 * Su et al. 2021, arXiv:2104.09864; YaRN: Peng et al. 2023, arXiv:2309.00071. */
#ifndef QSF_ROPE_H
#define QSF_ROPE_H

#include "model/source.h"

typedef struct qsf_rope {
    uint32_t half;          /* rotated pairs of a head */
    uint32_t slow;          /* pairs from here on turn by less than half a radian over the context that was asked for */
    double  *freq;          /* [half] radians a position */
    float    mscale;        /* multiplies sine and cosine */
} qsf_rope;

/* Fills freq[half] for global or windowed (local) layers.  n_ctx decides between longrope's two sets of factors, the length that
 * was asked for which pairs are slow. */
void qsf_rope_init(qsf_rope *r, const qsf_hparams *hp, bool local, uint32_t n_ctx, uint32_t asked);
/* cos[half], sin[half] of one position. */
void qsf_rope_angles(const qsf_rope *r, uint32_t pos, float *cos_out, float *sin_out);

static inline uint32_t qsf_rope_half(const qsf_hparams *hp)
{
    return hp->rope == QSF_ROPE_NONE ? 0 : (hp->rope_dim ? hp->rope_dim : hp->head_dim) / 2;
}

#endif
