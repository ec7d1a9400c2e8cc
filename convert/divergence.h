/* How far one distribution of the next token is from another.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_DIVERGENCE_H
#define QSF_CONVERT_DIVERGENCE_H

#include "base/base.h"

/* The Kullback-Leibler divergence, in nats, of the distribution given by the logits x[n] from
 * the one whose log-probabilities are base[n]; first: x's own are stored in base, and the result
 * is 0. */
double qsf_conv_divergence(const float *x, uint32_t n, float *base, bool first);

#endif
