/* Types under a size: see budget.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_BUDGET_H
#define QSF_CONVERT_BUDGET_H

#include "convert.h"

/* Changes the types of all matrices that are not fixed, so that the file fits o->target_bytes or, without one, `mixed`. */
qsf_status convert_budget(input *in, const convert_options *o, convert_report *r, qsf_error *err);
/* Gives c the next larger form; false: it has the largest. */
bool       convert_raise(const input_tensor *t, const convert_options *o, convert_tensor *c);

#endif
