/* Gated delta nets: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DELTA_NET_H
#define QSF_DELTA_NET_H

#include "layers/pass.h"

void qsf_delta_net_run(qsf_pass_job *job);

#endif
