/* How far one distribution of the next token is from another.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_DIVERGENCE_H
#define QSF_CONVERT_DIVERGENCE_H

#include "base/base.h"

/* The Kullback-Leibler divergence, in nats, of the distribution that the logits x[n] say from the
 * one whose log-probabilities are base[n]; first: x's own go to base, and it is 0. */
double qsf_conv_divergence(const float *x, uint32_t n, float *base, bool first);

#endif
