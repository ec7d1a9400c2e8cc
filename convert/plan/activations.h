/* How large each column of the hidden state before the head is: see activations.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_ACTIVATIONS_H
#define QSF_CONVERT_ACTIVATIONS_H

#include "plan/plan.h"

/* size[n_embd]: root mean square of each column of what the
 * head is multiplied with, 1 on average. */
qsf_status qsf_conv_activations(const input *in, const qsf_convert_options *o, float *size, qsf_error *err);

#endif
