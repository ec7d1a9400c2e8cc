/* A layer's feed-forward network, gated or not.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_H
#define QSF_FEED_FORWARD_H

#include "engine/pass.h"

/* Whether it takes its input as codes, too. */
bool qsf_feed_forward_takes_codes(const qsf_pass *p);
/* From the normed rows to its output: xn -> tmp. */
void qsf_feed_forward_run(qsf_pass_job *job);

#endif
