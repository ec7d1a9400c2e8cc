/* Mamba-1: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAMBA_H
#define QSF_MAMBA_H

#include "layers/pass.h"

void qsf_mamba_run(qsf_pass_job *job);

#endif
