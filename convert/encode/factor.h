/* The factor of a Hessian that error feedback works with: see factor.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_FACTOR_H
#define QSF_CONVERT_FACTOR_H

#include "encode/encode_lanes.h"
#include "qsf_convert.h"

/* Statistics of a matrix's inputs: h[cols][cols] is the mean of x x', symmetric, or with
 * `diagonal` h[cols] is its diagonal; first[cols] is x at the first position of a sequence,
 * NULL: not counted. */
typedef struct encode_inputs {
    uint32_t     cols;
    bool         diagonal;
    const float *h, *first;
    /* [cols], NULL: 1.  The matrix's columns were multiplied with it, so its inputs were divided */
    const float *col_scale;
    double       identity;      /* this share of the mean of h's diagonal is added to the diagonal */
    double       damping;       /* then this share of the new mean, since h may be singular */
    bool         steps;         /* columns in the order of a trellis's steps, else in their own */
} encode_inputs;

/* QSF_E_CORRUPT: numbers that are not finite, or of no mean of x x'. */
qsf_status qsf_enc_factor_new(const qsf_platform *p, const qsf_convert_options *o, const encode_inputs *in,
                              encode_factor **out, qsf_error *err);
/* The factor for inputs about which nothing is known. */
qsf_status qsf_enc_factor_none(const qsf_platform *p, uint32_t cols, bool steps, encode_factor **out,
                               qsf_error *err);
uint64_t   qsf_enc_factor_bytes(const encode_factor *f);
void       qsf_enc_factor_free(const qsf_platform *p, encode_factor *f);       /* takes NULL */

#endif
