/* The options of a context as a list: defaults, checks, names and help come from it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ENGINE_OPTIONS_H
#define QSF_ENGINE_OPTIONS_H

#include "base/base.h"

/* Every member within its range.  QSF_E_ARGUMENT names the option,
 * its value and what is possible. */
qsf_status qsf_context_check(const qsf_context_options *o, qsf_error *err);

#endif
