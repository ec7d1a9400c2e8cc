/* How far the sizes of the channels after a norm are made equal: see level.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_LEVEL_H
#define QSF_CONVERT_LEVEL_H

#include "read/input.h"

typedef struct level_norm {
    const int    *readers;      /* tensors of the input, of n columns each */
    int           n_readers;
    uint32_t      n;
    double        bits;         /* of a weight, about */
    const double *gain;         /* [n] of the norm, none negative */
    const float  *size;         /* [n] root mean squares after the norm; 0: not known */
} level_norm;

/* Whether a channel of the hidden state is far larger than their geometric mean. */
bool       qsf_conv_level_odd(const level_norm *of);

/* scale[n]: what the readers' columns are multiplied with, and the norm's gain divided by. */
qsf_status qsf_conv_level(input *in, const level_norm *of, float *scale, qsf_error *err);

#endif
