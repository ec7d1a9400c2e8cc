/* A feed-forward of experts: a router chooses some of them for each row.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_FEED_FORWARD_EXPERTS_H
#define QSF_FEED_FORWARD_EXPERTS_H

#include "layers/pass.h"

/* At the beginning of a layer: if its router chooses by the layer's input, its logits. */
void qsf_feed_forward_experts_early(qsf_pass_job *job);
/* From the normed rows to its output: xn -> tmp.  If experts are read one by one, this begins a
 * walk through them (p->cpu->walk->n); each wave of it is one call of the next. */
void qsf_feed_forward_experts_run(qsf_pass_job *job);
/* Computes experts [begin, end) of the walk; true: that was the last wave, tmp is whole. */
bool qsf_feed_forward_experts_wave(qsf_pass_job *job);

#endif
