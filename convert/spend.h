/* Types under a size, or under a divergence, by what calibration measures: see spend.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_SPEND_H
#define QSF_CONVERT_SPEND_H

#include "convert.h"

/* Converts as qsf_conv_run_calibrated does; with a calibration and o->target_bytes or o->target_kl
 * each matrix gets the form chosen by the measured sensitivities.
 *
 * QSF_E_ARGUMENT    target_kl with options that leave nothing to choose, or a size that no choice
 *                   fits */
qsf_status qsf_spend_run(input *in, convert_calibration *calibration, const qsf_convert_options *o,
                         const char *path, convert_report *r, qsf_error *err);

#endif
