/* A feed-forward with a gate: gate, up -> act(gate) * up -> down.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_GATED_H
#define QSF_FEED_FORWARD_GATED_H

#include "layers/program.h"

/* act(gate) * up of n values, in gate. */
void qsf_activate_gated(const qsf_pass *p, float *gate, const float *up, size_t n);
/* From the normed rows to its output: xn -> tmp. */
void qsf_feed_forward_gated_list(const qsf_layer *l, qsf_program *g);

#endif
