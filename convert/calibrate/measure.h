/* Runs a model on a text and sums up what its matrices are multiplied with: see measure.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_MEASURE_H
#define QSF_CONVERT_MEASURE_H

#include "calibrate/hessian_file.h"
#include "calibrate/text.h"

/* Inputs of a model: so many records its calibration file has. */
uint32_t   qsf_cal_inputs(const qsf_source *s);
/* Writes the Hessians of all inputs to w, which stays the caller's; *tokens: of so many rows. */
qsf_status qsf_cal_measure(qsf_model *m, const cal_text *t, const qsf_convert_options *o, cal_writer *w,
                           uint64_t *tokens, qsf_error *err);

#endif
