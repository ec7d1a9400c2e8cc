/* Channels scaled between matrices: see equalize.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_EQUALIZE_H
#define QSF_CONVERT_EQUALIZE_H

#include "plan/plan.h"

/* Sets row_scale and col_scale of the layers' tensors so that the network's function stays. */
qsf_status qsf_conv_equalize(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err);

#endif
