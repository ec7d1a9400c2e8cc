/* Gated short convolutions: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SHORT_CONV_H
#define QSF_SHORT_CONV_H

#include "layers/pass.h"

void qsf_short_conv_run(qsf_pass_job *job);

#endif
