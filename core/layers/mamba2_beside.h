/* Mamba-2 and attention on the same rows: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA2_BESIDE_H
#define QSF_MAMBA2_BESIDE_H

#include "layers/program.h"

void qsf_mamba2_beside_list(const qsf_layer *l, qsf_program *g);

#endif
