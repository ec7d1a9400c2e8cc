/* Mamba-2 and attention on the same rows: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA2_BESIDE_H
#define QSF_MAMBA2_BESIDE_H

#include "layers/pass.h"

void qsf_mamba2_beside_run(qsf_pass_job *job);

#endif
