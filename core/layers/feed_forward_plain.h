/* A feed-forward without a gate: up -> act(up) -> down.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_PLAIN_H
#define QSF_FEED_FORWARD_PLAIN_H

#include "layers/program.h"

/* act(x) of n values. */
void qsf_activate_plain(const qsf_pass *p, float *x, size_t n);
/* From the normed rows to its output: xn -> tmp. */
void qsf_feed_forward_plain_list(const qsf_layer *l, qsf_program *g);

#endif
