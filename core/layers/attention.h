/* Attention over the KV cache, grouped or not: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ATTENTION_H
#define QSF_ATTENTION_H

#include "layers/program.h"

/* From the normed rows to its output: xn -> tmp. */
void qsf_attention_list(const qsf_layer *l, qsf_program *g);

#endif
