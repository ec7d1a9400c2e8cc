/* The one place that multiplies: rows of activations by a matrix of any type.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MATRIX_H
#define QSF_MATRIX_H

#include "layers/pass.h"

/* Rows that are multiplied: floats, and the same as codes of 8 bits for matrices that take
 * these. */
typedef struct qsf_matrix_in {
    const float *x;           /* [n][ld] */
    size_t       ld, cols;
    qsf_act      act;         /* n rows; a part of the pass's buffer */
} qsf_matrix_in;

static inline size_t qsf_matrix_tiles(const qsf_matrix *m)
{
    return (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
}

/* The part of s, a range of a concatenation, that falls into [at, at + n), counted from at. */
static inline qsf_range qsf_range_cut(qsf_range s, size_t at, size_t n)
{
    const size_t b = s.begin > at ? s.begin - at : 0, e = s.end > at ? s.end - at : 0;
    return (qsf_range){ QSF_MIN(b, n), QSF_MIN(e, n) };
}

/* Rows [first, first + n) of x[][ld], which have cols columns. */
qsf_matrix_in qsf_matrix_input(const qsf_pass *p, const float *x, size_t ld, size_t cols, uint32_t first,
                               uint32_t n);
/* The same with codes of their own. */
qsf_matrix_in qsf_matrix_input_of(const qsf_act *act, const float *x, size_t ld, size_t cols, uint32_t first,
                                  uint32_t n);
/* The kernel that multiplies n rows with m: of qsf_product. */
uint32_t qsf_matrix_kernel(const qsf_pass *p, const qsf_matrix *m, size_t n);
/* Whether m takes codes. */
bool qsf_matrix_takes_codes(const qsf_pass *p, const qsf_matrix *m);
/* Whether the rows that are multiplied with m are needed as floats: by m itself, its outliers,
 * adapters, or a watcher. */
bool qsf_matrix_takes_floats(const qsf_pass *p, const qsf_matrix *m);
/* Whether any of the layer's matrices of these kinds, or an adapter of one, takes codes; whether
 * rows are needed as floats. */
bool qsf_kinds_take_codes(const qsf_pass *p, const uint8_t *kinds, uint32_t n);
bool qsf_kinds_take_floats(const qsf_pass *p, const uint8_t *kinds, uint32_t n);
/* Makes the codes of these rows of in. */
void qsf_matrix_quantize(const qsf_pass *p, const qsf_matrix_in *in, qsf_range rows);

/* y[n][ldy] = in . m + bias, for these tiles of m; bias may be NULL.  If m takes codes, in must
 * have them. */
void qsf_matrix_multiply(const qsf_pass *p, const qsf_matrix *m, const float *bias, const qsf_matrix_in *in,
                         float *y, size_t ldy, qsf_range tiles, uint32_t thread);

/* The thread's scratch, [16][max_cols] floats, which a product may overwrite. */
float *qsf_matrix_scratch(const qsf_pass *p, uint32_t thread);

#endif
