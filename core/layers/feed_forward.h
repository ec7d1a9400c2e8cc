/* What feed-forwards share: the way from their hidden state to their output.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_H
#define QSF_FEED_FORWARD_H

#include "layers/matrix.h"

/* The normed rows, which go in. */
qsf_matrix_in qsf_feed_forward_in(const qsf_pass *p);
/* The hidden state, in b->gate, through the matrix down: gate -> tmp. */
void          qsf_feed_forward_down(qsf_pass_job *job);

#endif
