/* Tuning's inner loops: products of floats, distributions, and paths through trellises.
 * SPDX-License-Identifier: MIT
 *
 * They are written once (tune_lanes_body.h) and compiled for several instruction sets.  Sums go in
 * one order for any number of threads, but sets differ in their last bits: some have a product and
 * a sum in one rounding. */
#ifndef QSF_TUNE_LANES_H
#define QSF_TUNE_LANES_H

#include "base/base.h"
#include "base/platform.h"

enum {
    TUNE_M = 8, TUNE_N = 32,    /* rows and columns of a product that are computed at once */
    TUNE_ROWS = 16,             /* of a tile of a trellis */
    TUNE_GROUP = 64             /* columns that share a scale */
};

/* The levels of a trellis in its four subsets, those whose index is c modulo 4. */
typedef struct tune_levels {
    uint32_t bits, n;           /* n: levels of a subset */
    float    level[4][16], above[4][16];    /* above[c][i]: between level i and the next */
} tune_levels;

/* 16 rows of a trellis with scales that stay: the path of the least sum of weight * error^2.
 * Columns are in the order of steps, padded to whole groups. */
typedef struct tune_path {
    const tune_levels *q;
    uint32_t     cols;
    const float *weight;        /* [cols] */
    const float *scale;         /* [cols/64][16] */
    float       *w;             /* [cols][16]; becomes the values */
    uint8_t     *codes;         /* [cols][16] out; NULL: not asked for */
    int32_t     *ways;          /* [cols][16] scratch */
} tune_path;

typedef struct tune_lanes {
    const char *isa;
    /* c[8][ldc], 32 columns of it, = a[n][8] turned . b[n][32]; add: that is added */
    void   (*product)(float *c, size_t ldc, const float *a, const float *b, size_t n, bool add);
    void   (*path)(tune_path *p);
    /* Of logits x[n] and those wanted, t[n], n a multiple of 16: the divergence of x's distribution
     * from t's.  x becomes its gradient times by. */
    double (*divergence)(float *x, const float *t, size_t n, float by);
} tune_lanes;

extern const tune_lanes qsf_tune_lanes_base;
#if defined(__x86_64__)
extern const tune_lanes qsf_tune_lanes_avx2, qsf_tune_lanes_avx512;
#endif
/* The best for a processor with these QSF_CPU_ flags. */
const tune_lanes *qsf_tune_lanes(uint32_t cpu);

#endif
