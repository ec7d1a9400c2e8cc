/* A network's way forwards, and the parts of it that the way back takes, too.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_FORWARD_H
#define QSF_TUNE_FORWARD_H

#include "tune/net.h"
#include "tune/rows.h"

/* All rows up to the final norm, whose result is r->hidden. */
void      qsf_tune_forward(tune_run *r, const tune_net *n, const tune_batch *b);

/* ---- parts ---- */

/* One layer, of rows that the run has the positions of. */
typedef struct tune_part {
    tune_run         *r;
    const tune_net   *n;
    const tune_batch *b;
    const qsf_layer  *l;
    tune_kept        *kept;
    uint32_t          unit;
    size_t            rows, embd;
} tune_part;

tune_part qsf_tune_part(tune_run *r, const tune_net *n, const tune_batch *b, uint32_t unit);
/* The bias added after a matrix of this kind; NULL: no bias. */
tune_tensor *qsf_tune_bias(const tune_part *p, uint32_t kind);
/* y[rows][rows of the matrix] = x . W', and the bias */
void      qsf_tune_times(const tune_part *p, uint32_t kind, float *y, const float *x);
/* qr, kr of the run: queries and keys after their norms and the rotation. */
void      qsf_tune_place(const tune_part *p);
void      qsf_tune_rotate(const tune_part *p, float *x, uint32_t heads, bool back);

#endif
