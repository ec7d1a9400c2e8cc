/* A feed-forward of experts: a router chooses some of them for each row.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_EXPERTS_H
#define QSF_FEED_FORWARD_EXPERTS_H

#include "engine/pass.h"

/* From the normed rows to its output: xn -> tmp. */
/* At the beginning of a layer: where its router chooses by the layer's input, its logits. */
void qsf_feed_forward_experts_early(qsf_pass_job *job);
void qsf_feed_forward_experts_run(qsf_pass_job *job);

#endif
