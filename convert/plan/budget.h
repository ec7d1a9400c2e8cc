/* Types under a size: see budget.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_BUDGET_H
#define QSF_CONVERT_BUDGET_H

#include "plan/plan.h"

/* Changes the types of all matrices that are not fixed, so that the file
 * fits o->target_bytes or, without one, `mixed`. */
qsf_status qsf_conv_budget(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err);

#endif
