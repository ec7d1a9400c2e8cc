/* The encoders' inner loops over the rows of a tile, and the product used to compute factors.
 * SPDX-License-Identifier: MIT
 *
 * Rows of a matrix are quantised independently of one another: a lane of a vector is a row.  The
 * loops are written once (encode_lanes_body.h) and compiled for several instruction sets.  Each
 * lane's operations and their order are the same in all of them, without contraction, so the
 * results are the same to the bit. */
#ifndef QSF_CONVERT_LANES_H
#define QSF_CONVERT_LANES_H

#include "base/base.h"
#include "base/platform.h"

enum {
    ENCODE_ROWS = 16,           /* of a tile */
    ENCODE_STEP = 16,           /* columns that are settled at once */
    ENCODE_WINDOW = 32,         /* columns that a search of the trellis looks at */
    ENCODE_GROUP = 64,          /* columns of a trellis that share a scale; factors are padded to them */
    ENCODE_BLOCK = 64,          /* side of a block of the factor's arithmetic */
    ENCODE_STATES = 8
};

/* L, lower triangular, of inverse(H) = L L'.  A rounding error of e * L[i][i] in column i of a row
 * is best compensated in the columns j > i, which are not yet rounded, by subtracting e * L[j][i]
 * from them; its cost is then e^2. */
typedef struct encode_factor {
    uint32_t        cols;       /* padded to a multiple of ENCODE_GROUP */
    bool            diagonal;   /* L is diagonal: errors are independent of one another */
    /* [cols]: the matrix's column at this place, at least the matrix's number of columns if it is
     * padding; trellis types use the order of their steps instead of the natural one */
    const uint32_t *column;
    /* Panel p: L[j][16p .. 16p + 15] for rows j from 16p on; one panel after another. */
    const float    *panels;
    const float    *weight;     /* [cols] 1 / L[c][c]^2: what the square of an error costs */
} encode_factor;

/* Offset of panel p in a factor with this many columns. */
static inline size_t encode_panel_at(uint32_t cols, uint32_t p)
{
    return (size_t)ENCODE_STEP * ((size_t)p * cols - (size_t)ENCODE_STEP * p * (p - 1) / 2);
}

/* The levels of a trellis in its four subsets, those whose index is c modulo 4: the first one, and
 * for each step to the next one the threshold between them and how far it is. */
typedef struct encode_levels {
    uint32_t bits, n;           /* n: levels of a subset */
    float    first[4], above[4][16], by[4][16];
    uint32_t n_scales;          /* how many are tried */
} encode_levels;

/* A tile of a trellis.  w becomes the values that the codes stand for. */
typedef struct encode_trellis {
    const encode_factor *f;
    const encode_levels *q;
    float   *w;                 /* [cols][16] */
    float   *scale;             /* [cols/64][16] */
    uint8_t *scale_byte;        /* [cols/64][16] */
    uint8_t *codes;             /* [cols][16] */
    double   loss[ENCODE_ROWS]; /* out: what the rows' errors cost */
} encode_trellis;

/* ENCODE_STEP columns of a tile of any other type, from `from` on: value = scale * code + zero, or
 * with a table the level at that place times scale. */
typedef struct encode_plain {
    const encode_factor *f;
    uint32_t from;
    float   *w;                 /* [cols][16]; these columns become values, later ones are corrected */
    float    scale[ENCODE_ROWS], zero[ENCODE_ROWS], inverse[ENCODE_ROWS], top;
    const encode_levels *table; /* NULL, or its one subset is the table */
    uint8_t *codes;             /* [cols][16] */
    double   loss[ENCODE_ROWS]; /* added to */
} encode_plain;

typedef struct encode_lanes {
    const char *isa;
    void (*trellis)(encode_trellis *t);
    void (*plain)(encode_plain *t);
    /* What it would cost to make all of w[cols][16] zero, added to loss; w is used up. */
    void (*energy)(const encode_factor *f, float *w, double loss[ENCODE_ROWS]);
    /* c[64][64] -= a[64][n] . b[n][64]; ldc, lda: numbers from row to row */
    void (*product)(double *c, size_t ldc, const double *a, size_t lda, const double *b, size_t n);
} encode_lanes;

/* The best set of cpu (QSF_CPU_*). */
const encode_lanes *qsf_enc_lanes(uint32_t cpu);

extern const encode_lanes qsf_enc_lanes_base;
#if defined(__x86_64__)
extern const encode_lanes qsf_enc_lanes_avx2, qsf_enc_lanes_avx512;
#endif

#endif
