/* The step: what others need of it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEP_H
#define QSF_STEP_H

#include "engine/context.h"
#include "model/part.h"

/* Computes what an approximate head has left out of the logits that qsf_logits(c, i) gives, for the
 * tokens of mask, a bit for each token. */
qsf_status qsf_logits_of(qsf_context *c, size_t i, const uint32_t *mask);

/* Whether a layer has been computed at this stage. */
bool qsf_stage_after(qsf_stage s, uint32_t layer);

#endif
