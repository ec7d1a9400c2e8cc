/* Which matrices keep their outliers apart: see outliers.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_OUTLIERS_H
#define QSF_CONVERT_OUTLIERS_H

#include "plan/plan.h"

qsf_status qsf_conv_outliers(input *in, const qsf_convert_options *o, convert_report *r, qsf_error *err);

#endif
