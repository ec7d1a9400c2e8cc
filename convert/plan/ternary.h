/* Matrices that are already ternary: their codes and their scale are copied unchanged.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_TERNARY_H
#define QSF_CONVERT_TERNARY_H

#include "plan/plan.h"

/* The magnitude that all weights of tensor i have which are not zero (1 where all are zero); 0:
 * there are several.  Reads band rows at once, and no further than it must. */
qsf_status qsf_conv_ternary_scale(input *in, uint32_t i, uint32_t band, float *scale, qsf_error *err);

/* A row of -1, 0 and 1 as blocks of TERNARY2 or TERNARY5; anything else is QSF_E_CORRUPT. */
qsf_status qsf_conv_ternary_row(uint32_t type, const float *w, uint32_t cols, uint8_t *dst,
                                qsf_quant_error *e, qsf_error *err);

#endif
