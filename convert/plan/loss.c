/* How much of the weights was lost: sums of errors as numbers that people compare.
 * SPDX-License-Identifier: MIT */
#include "plan/loss.h"

#include <math.h>

double qsf_conv_relative_error(const qsf_quant_error *e) { return e->sum_sq > 0 ? e->err_sq / e->sum_sq : 0; }
double qsf_conv_cosine(const qsf_quant_error *e)
{
    const double n = sqrt(e->sum_sq) * sqrt(e->deq_sq);
    return n > 0 ? e->dot / n : e->sum_sq > 0 ? 0 : 1;
}

void qsf_conv_add_error(qsf_quant_error *sum, const qsf_quant_error *e)
{
    sum->sum_sq += e->sum_sq;
    sum->err_sq += e->err_sq;
    sum->dot += e->dot;
    sum->deq_sq += e->deq_sq;
}

double qsf_conv_bits(uint64_t bytes, uint64_t weights)
{
    return weights ? 8.0 * (double)bytes / (double)weights : 0;
}
