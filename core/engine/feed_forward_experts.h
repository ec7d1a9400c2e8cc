/* A feed-forward of experts: a router chooses some of them for each row.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_EXPERTS_H
#define QSF_FEED_FORWARD_EXPERTS_H

#include "engine/pass.h"

/* From the normed rows to its output: xn -> tmp. */
void qsf_feed_forward_experts_run(qsf_pass_job *job);

#endif
