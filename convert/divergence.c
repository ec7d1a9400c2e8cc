/* How far one distribution of the next token is from another.
 * SPDX-License-Identifier: MIT */
#include "divergence.h"

#include <math.h>

#define DIVERGENCE_LEAST (-20)  /* log-probabilities below it are ignored */

static double divergence_log_sum(const float *x, uint32_t n)
{
    float top = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) top = QSF_MAX(top, x[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

double qsf_conv_divergence(const float *x, uint32_t n, float *base, bool first)
{
    const double log_sum = divergence_log_sum(x, n);
    double kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double q = (double)x[i] - log_sum;
        if (first) base[i] = (float)q;
        else if (base[i] > DIVERGENCE_LEAST) kl += exp(base[i]) * (base[i] - q);
    }
    return kl;
}

#undef DIVERGENCE_LEAST
