/* Our engine, as one side of a comparison.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_OURS_H
#define QSF_PARITY_OURS_H

#include "engine.h"

/* c has room for PARITY_ROWS logits; sequence 0 is used. */
parity_engine parity_ours_engine(qsf_context *c);
/* The file of a model has to be opened with options for this. */
void          parity_ours_options(qsf_context_options *o, size_t positions);

#endif
