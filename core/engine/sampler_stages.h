/* The stages of a sampler by name and by letter.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_SAMPLER_STAGES_H
#define QSF_ENGINE_SAMPLER_STAGES_H

#include "base/base.h"

/* The letters of all stages, in the default order. */
#define QSF_SAMPLER_STAGES "edstmkypx"

/* Reads names separated by ';' or ',', or the letters themselves; "" is the default.  Writes the
 * letters and a terminating zero.  QSF_E_ARGUMENT: an unknown stage, or too many. */
qsf_status qsf_sampler_stages(const char *text, char out[QSF_SAMPLER_ORDER], qsf_error *err);
/* Checks letters that a caller wrote into its options. */
qsf_status qsf_sampler_stages_check(const char order[QSF_SAMPLER_ORDER], qsf_error *err);

#endif
