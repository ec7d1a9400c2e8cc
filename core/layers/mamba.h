/* Mamba-1: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA_H
#define QSF_MAMBA_H

#include "layers/program.h"

void qsf_mamba_list(const qsf_layer *l, qsf_program *g);

#endif
