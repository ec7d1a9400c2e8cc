/* Gated delta nets: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DELTA_NET_H
#define QSF_DELTA_NET_H

#include "layers/program.h"

void qsf_delta_net_list(const qsf_layer *l, qsf_program *g);

#endif
