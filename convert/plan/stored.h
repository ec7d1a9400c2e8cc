/* Whether an input's tensor has the form already that the plan gives it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_STORED_H
#define QSF_CONVERT_STORED_H

#include "plan/plan.h"
#include "read/input.h"

/* *from is how tensor i is stored (without its bytes) if that is c's type, block and packing and
 * nothing of the plan changes its values; else all 0. */
qsf_status qsf_conv_stored(input *in, uint32_t i, const convert_tensor *c, input_stored *from,
                           qsf_error *err);

#endif
