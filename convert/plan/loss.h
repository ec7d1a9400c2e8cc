/* How much of the weights was lost: sums of errors as numbers that people compare.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_LOSS_H
#define QSF_CONVERT_LOSS_H

#include "tensor/quant.h"

double qsf_conv_relative_error(const qsf_quant_error *e);    /* sum of squared errors over sum of squares */
double qsf_conv_cosine(const qsf_quant_error *e);            /* between the weights and what they became */
void   qsf_conv_add_error(qsf_quant_error *sum, const qsf_quant_error *e);
double qsf_conv_bits(uint64_t bytes, uint64_t weights);      /* a weight */

#endif
