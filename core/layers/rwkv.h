/* RWKV-7: a layer's mixer, and its feed-forward.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_RWKV_H
#define QSF_RWKV_H

#include "layers/program.h"

void qsf_rwkv_list(const qsf_layer *l, qsf_program *g);
void qsf_rwkv_feed_forward_list(const qsf_layer *l, qsf_program *g);

#endif
