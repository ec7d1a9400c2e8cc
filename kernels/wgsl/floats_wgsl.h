/* Weights stored as floats: readers in shader text, and products with rows of floats.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_WGSL_FLOATS_H
#define QSF_WGSL_FLOATS_H

#include "wgsl.h"

typedef enum qsf_wgsl_storage { QSF_WGSL_F32, QSF_WGSL_F16, QSF_WGSL_BF16 } qsf_wgsl_storage;

/* fn weight(i) -> f32: number i of W: array<u32>, which the caller has declared. */
void qsf_wgsl_read_floats(qsf_wgsl_text *t, qsf_wgsl_storage storage);

typedef struct qsf_wgsl_floats {
    qsf_wgsl_storage storage;
    uint32_t rows;              /* of the batch for a workgroup: 1 to 8 */
    bool     bias, add, scaled; /* as of qsf_wgsl_product */
} qsf_wgsl_floats;

/* Binding 0.  1: W [rows][cols]; 2: X (floats); 3: Y (floats); with bias 4: B (floats). */
typedef struct qsf_wgsl_floats_numbers {
    uint32_t rows, cols, n;             /* of the matrix; rows of the batch */
    uint32_t x_ld, x_at, y_ld, y_at;    /* floats */
    float    scale, times;
} qsf_wgsl_floats_numbers;

/* Y[m][y_at + row] = W[row] . X[m], m < n.  Workgroups: one a row of the matrix
 * (qsf_wgsl_dispatch); z: n / rows, rounded up.  With bf16 each x is rounded to bf16, as
 * qsf_kernels' matmul_bf16 does. */
void qsf_wgsl_product_floats(qsf_wgsl_text *t, const qsf_wgsl_floats *f);

#endif
