/* The step: what others need of it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_STEP_H
#define QSF_STEP_H

#include "engine/context.h"

/* Drops the batch under way: its positions are taken back. */
void qsf_batch_drop(qsf_context *c);

#endif
