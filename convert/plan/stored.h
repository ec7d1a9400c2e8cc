/* Whether an input's tensor already has the planned form.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_STORED_H
#define QSF_CONVERT_STORED_H

#include "plan/plan.h"
#include "read/input.h"

/* Sets *from to how tensor i is stored (without its bytes) if that matches c's type, block and
 * packing and the plan does not change its values; otherwise zeroes it. */
qsf_status qsf_conv_stored(input *in, uint32_t i, const convert_tensor *c, input_stored *from,
                           qsf_error *err);

#endif
