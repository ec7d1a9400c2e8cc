/* Turns a calibration into factors for the encoders: see source.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SOURCE_H
#define QSF_CONVERT_SOURCE_H

#include "encode/factor.h"
#include "plan/plan.h"

/* The source of the Hessians. */
typedef struct encode_hessians {
    void *user;
    /* Reads statistics of the inputs of the matrix of this unit and kind (+ (1 + e) << 16: expert
     * e's rows of it): h[cols][cols], full and symmetric (*diagonal: only the diagonal is known,
     * and the rest is 0); first[cols], the input at the first position of a sequence; *tokens 0:
     * nothing is known about this matrix. */
    qsf_status (*read)(void *user, uint32_t unit, uint32_t kind, uint32_t cols, float *h, float *first,
                       uint64_t *tokens, bool *diagonal, qsf_error *err);
} encode_hessians;

typedef struct encode_source {
    const input               *in;
    const qsf_convert_options *o;           /* effort is one of 0 to 3 */
    const encode_hessians     *hessians;    /* NULL: without calibration */
    uint32_t                   expert;      /* 1 + whose rows of the matrix the next factor is for; 0: all */
    encode_factor             *last;        /* and what it was made for */
    uint32_t                   unit, input;
    const float               *col_scale;
    bool                       steps, measured;
} encode_source;

/* The factor that tensor i is encoded with in the form c; NULL: without one.  It belongs to s and
 * is valid until the next call.  A diagonal factor for anything but a trellis only holds the
 * importance of columns.  *measured: it comes from calibration. */
qsf_status qsf_enc_factor_of(encode_source *s, uint32_t i, const convert_tensor *c,
                             const encode_factor **out, bool *measured, qsf_error *err);
/* The number of parts of equal rows that the tensor is encoded in, each with its own factor: the
 * number of experts, if calibration may have each one's inputs and each has whole tiles; else 1. */
uint32_t   qsf_enc_parts(const encode_source *s, const input_tensor *t, const convert_tensor *c);
void       qsf_enc_source_done(encode_source *s);

#endif
