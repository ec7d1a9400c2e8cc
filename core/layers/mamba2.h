/* Mamba-2: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA2_H
#define QSF_MAMBA2_H

#include "layers/program.h"

void qsf_mamba2_list(const qsf_layer *l, qsf_program *g);

#endif
