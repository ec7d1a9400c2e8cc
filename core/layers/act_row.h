/* Activations in 8 bits with one scale for a whole row, as BitNet models were trained.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ACT_ROW_H
#define QSF_ACT_ROW_H

#include "kernels.h"

/* As quantize_act of the kernels (kernels.h), but each 64 columns have the row's scale: codes are
 * x * (127 / max|x|), to nearest even, if the maximum is at least 1e-5. */
void qsf_quantize_act_row(qsf_act *a, size_t m, const float *x, size_t cols);

#endif
