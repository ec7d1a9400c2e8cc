/* The options of contexts, samplers and turns as lists: defaults, checks, names and help come from
 * them.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_OPTIONS_H
#define QSF_ENGINE_OPTIONS_H

#include "base/base.h"

/* Every member within its range.  QSF_E_ARGUMENT names the option,
 * its value and what is possible. */
qsf_status qsf_context_check(const qsf_context_options *o, qsf_error *err);
/* Likewise, but a temperature, a top-p and the like may be out of range: then they are off. */
qsf_status qsf_sampler_check(const qsf_sampler_options *o, qsf_error *err);
qsf_status qsf_turn_check(const qsf_turn_options *o, qsf_error *err);

#endif
