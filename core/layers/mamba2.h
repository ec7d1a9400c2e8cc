/* Mamba-2: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA2_H
#define QSF_MAMBA2_H

#include "layers/pass.h"

void qsf_mamba2_run(qsf_pass_job *job);

#endif
