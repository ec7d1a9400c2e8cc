/* Attention over the KV cache, grouped or not: a layer's mixer.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ATTENTION_H
#define QSF_ATTENTION_H

#include "layers/program.h"

/* Floats that a thread's attention needs, in any layer. */
size_t qsf_attention_scratch(const qsf_source *s, qsf_kv_type type);
/* From the normed rows to its output: xn -> tmp. */
void qsf_attention_list(const qsf_layer *l, qsf_program *g);

#endif
