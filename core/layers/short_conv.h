/* Gated short convolutions: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SHORT_CONV_H
#define QSF_SHORT_CONV_H

#include "layers/program.h"

void qsf_short_conv_list(const qsf_layer *l, qsf_program *g);

#endif
