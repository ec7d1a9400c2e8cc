/* How much each matrix matters: see sensitivity.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SENSITIVITY_H
#define QSF_CONVERT_SENSITIVITY_H

#include "convert.h"

/* The form that matrices are tried in. */
enum { QSF_SENS_TYPE = QSF_T_TRELLIS3 };

/* kl[in->n_tensors]: mean divergence of the next token's distribution when that matrix alone has
 * the form QSF_SENS_TYPE.  asked[in->n_tensors]: which of them are measured; the others get 0.
 * *known false: ram_bytes is too small to measure, which is logged.  path: temporary files are
 * placed next to it; o's effort is 2 or 3.  With a calibration file the numbers are saved next to
 * it and read from there the next time. */
qsf_status qsf_sens_measure(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                            const char *path, const bool *asked, double *kl, bool *known, qsf_error *err);

#endif
