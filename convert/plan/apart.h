/* A row whose largest weights are kept apart, and lists of such weights.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_APART_H
#define QSF_CONVERT_APART_H

#include "plan/plan.h"

/* What the quantised weights lack, as fp16, row after row. */
typedef struct convert_found {
    uint32_t  n, cap;
    uint32_t *row, *col;
    uint16_t *delta;
} convert_found;
qsf_status qsf_conv_found_copy(const qsf_platform *p, const convert_found *from, convert_found *to,
                               qsf_error *err);
void       qsf_conv_found_free(const qsf_platform *p, convert_found *f);
/* The sparse tensor's bytes (the caller's, c->outlier_bytes of them)
 * out of n lists in the order of their rows. */
qsf_status qsf_conv_found_join(const qsf_platform *p, const convert_found *f, uint32_t n, uint32_t rows,
                               convert_tensor *c, void **data, qsf_error *err);

/* One row w[cols], whose largest weights are added to *found and do not count in their blocks; adds
 * to *e (may be NULL).  weight[cols] and back[cols] are scratch. */
typedef struct convert_row { float *w, *weight, *back; uint32_t row, cols; } convert_row;
qsf_status qsf_conv_row_apart(const qsf_platform *p, const convert_tensor *c, const convert_row *r,
                              uint8_t *dst, convert_found *found, qsf_quant_error *e, qsf_error *err);

#endif
