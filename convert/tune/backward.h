/* The divergence of a network's predictions from another's, and its gradients: see backward.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TUNE_BACKWARD_H
#define QSF_TUNE_BACKWARD_H

#include "tune/net.h"

/* Is given gradients as they come, each tensor's once; x[rows][cols]: what a matrix was multiplied
 * with, else NULL.  It may change the tensor then. */
typedef struct tune_sink {
    void  *user;
    void (*take)(void *user, const tune_tensor *t, const float *g, const float *x, size_t rows);
} tune_sink;

/* The mean divergence, over the rows of the last forward run, from the predictions of `teacher` for
 * hidden[n_rows][n_embd].  sink: NULL, or gradients are computed and passed to it. */
double qsf_tune_divergence(tune_run *r, const tune_net *n, const tune_net *teacher, const float *hidden,
                           const tune_batch *b, const tune_sink *sink);

#endif
