/* What feed-forwards share: the way from their hidden state to their output.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_H
#define QSF_FEED_FORWARD_H

#include "layers/program.h"

/* The norm of the hidden state, in b->gate, if the model has one, and the matrix down: gate ->
 * tmp. */
void qsf_feed_forward_list_down(const qsf_layer *l, qsf_program *g);

#endif
