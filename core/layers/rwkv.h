/* RWKV-7: a layer's mixer, and its feed-forward.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_RWKV_H
#define QSF_RWKV_H

#include "layers/pass.h"

void qsf_rwkv_run(qsf_pass_job *job);
void qsf_rwkv_feed_forward_run(qsf_pass_job *job);

#endif
