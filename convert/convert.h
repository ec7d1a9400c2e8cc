/* Makes the file: every tensor read, quantised and written in order.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_RUN_H
#define QSF_CONVERT_RUN_H

#include "calibrate/calibration.h"
#include "encode/source.h"
#include "plan/plan.h"

/* Plans, converts, writes path whole or not at all; path is none of the input's files.  On success
 * r tells what was done.  With o->embd_clusters in is untied first and stays so. */
qsf_status qsf_conv_run(input *in, const qsf_convert_options *o, const char *path, convert_report *r,
                        qsf_error *err);
/* The same with a calibration of in, which stays the caller's; NULL: none. */
qsf_status qsf_conv_run_calibrated(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                                   const char *path, convert_report *r, qsf_error *err);
/* The same with Hessians from elsewhere; NULL: none. */
qsf_status qsf_conv_run_with(input *in, const qsf_convert_options *o, const encode_hessians *hessians,
                             const char *path, convert_report *r, qsf_error *err);

#endif
