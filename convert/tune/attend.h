/* Attention of whole sequences, forwards and backwards.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_ATTEND_H
#define QSF_TUNE_ATTEND_H

#include "tune/net.h"

/* Rows of all heads, after norms and rotation: q, att, dq, datt[n_rows][n_heads * dim], k, v, dk,
 * dv[n_rows][n_kv_heads * dim]. */
typedef struct tune_attention {
    tune_team        *team;
    const tune_batch *batch;
    const qsf_layer  *layer;
    const float      *q, *k, *v;
    float            *att;              /* forwards: out */
    const float      *datt;             /* backwards: in */
    float            *dq, *dk, *dv;     /* backwards: out */
} tune_attention;

void qsf_tune_attend(tune_attention *a);
void qsf_tune_attend_back(tune_attention *a);

#endif
