/* Runs a model on calibration data and sums up the inputs of its matrices: see measure.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_MEASURE_H
#define QSF_CONVERT_MEASURE_H

#include "calibrate/hessian_file.h"
#include "calibrate/text.h"

/* Number of inputs of a model, which is also the number of records in its calibration file. */
uint32_t   qsf_cal_inputs(const qsf_source *s);
/* Writes the Hessians of all inputs to w, which the caller still owns; *tokens: the number of
 * rows. */
qsf_status qsf_cal_measure(qsf_model *m, const cal_text *t, const qsf_convert_options *o, cal_writer *w,
                           uint64_t *tokens, qsf_error *err);

#endif
