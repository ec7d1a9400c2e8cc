/* What is done to rows one by one, and its way back: norms, rotation, gates.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_ROWS_H
#define QSF_TUNE_ROWS_H

#include "tune/net.h"

/* y[rows][n] = the RMS norm of x by gain; y may be x. */
void qsf_tune_norm(tune_team *t, float *y, const float *x, const float *gain, float eps, size_t rows,
                   size_t n);
/* dx[rows][n] (+)= the gradient of x from dy, which may be dx without `add`; then d_gain[n].
 * inverse[rows] is scratch. */
void qsf_tune_norm_back(tune_team *t, float *dx, const float *dy, const float *x, const float *gain,
                        float eps, size_t rows, size_t n, bool add, float *d_gain, float *inverse);

/* Heads of rows at x[rows][heads * dim] turned by their positions; back: the other way. */
typedef struct tune_turn {
    float       *x;
    uint32_t     heads, dim, half;
    bool         pairs, back;
    const float *cos, *sin;             /* [longest][stride] */
    size_t       stride;
    const uint32_t *pos;                /* of each row */
} tune_turn;
void qsf_tune_turn(tune_team *t, const tune_turn *k, size_t rows);

/* h = act(gate) * up */
void qsf_tune_gate(tune_team *t, float *h, const float *gate, const float *up, uint8_t act, size_t n);
/* d_gate and d_up from dh; d_up may be dh. */
void qsf_tune_gate_back(tune_team *t, float *d_gate, float *d_up, const float *dh, const float *gate,
                        const float *up, uint8_t act, size_t n);

/* y += x; y[rows][n] += x[n]; sums[n] of rows. */
void qsf_tune_add(tune_team *t, float *y, const float *x, size_t n);
void qsf_tune_add_bias(tune_team *t, float *y, const float *bias, size_t rows, size_t n);
void qsf_tune_sum_rows(tune_team *t, float *sums, const float *x, size_t rows, size_t n);

#endif
