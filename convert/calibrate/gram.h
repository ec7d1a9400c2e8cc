/* Sums of products of what matrices are multiplied with: see gram.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_GRAM_H
#define QSF_CONVERT_GRAM_H

#include "layers/watch.h"

enum { CAL_STRIP = 64, CAL_SKIPPED = 2 };
#define CAL_NO_INPUT UINT32_MAX
/* A kind and an expert in one number, as in files and in queries: the kind, plus CAL_EXPERT times 1
 * + the expert, or plus 0 for all rows. */
enum { CAL_EXPERT = 1 << 16 };

/* One input, which one matrix or several are multiplied with. */
typedef struct cal_gram {
    uint32_t unit, kind, cols;  /* kind: of the first of these matrices */
    uint32_t expert;            /* as in qsf_watched */
    /* The lower triangle in strips of CAL_STRIP rows, each with the columns up to its last row. */
    float   *sums;
    double  *first;             /* [cols] sums of rows at position 0, which are in no product */
    uint64_t tokens, firsts;    /* rows in sums and in first */
} cal_gram;

/* What one pass sums up. */
typedef struct cal_grams {
    const qsf_platform *platform;
    cal_gram *list;
    uint32_t  n;
    uint32_t  n_rows, max_cols, n_threads;
    float    *turned;           /* [max_cols][ld] rows that count, as columns */
    float    *tiles;            /* [n_threads][CAL_STRIP][CAL_STRIP] */
} cal_grams;

/* The kind of the input that matrices of this kind are multiplied with; CAL_NO_INPUT: it is not
 * known of any.  The embedding counts as the head that is tied to it. */
uint32_t   qsf_gram_kind(uint32_t kind);

/* Number of floats in the triangle for this number of columns. */
uint64_t   qsf_gram_floats(uint32_t cols);
/* Row i of g's sums, whose first i + 1 columns count. */
const float *qsf_gram_row(const cal_gram *g, uint32_t i);
qsf_status qsf_gram_init(const qsf_platform *p, cal_gram *g, qsf_error *err);  /* by its cols; all zeros */
void       qsf_gram_done(const qsf_platform *p, cal_gram *g);                  /* takes half-built */

/* Memory in addition to the sums themselves, for batches of n_rows. */
uint64_t   qsf_grams_bytes(uint32_t n_rows, uint32_t max_cols, uint32_t n_threads);
qsf_status qsf_grams_init(cal_grams *k, const qsf_platform *p, uint32_t n_rows, uint32_t max_cols,
                          uint32_t n_threads, qsf_error *err);
void       qsf_grams_done(cal_grams *k);                                       /* takes half-built */
/* A qsf_watch's function; user: a cal_grams.  What is in no entry of its list is passed over. */
void       qsf_grams_watch(void *user, const qsf_watched *w);

#endif
