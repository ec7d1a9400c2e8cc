/* Per-layer embeddings: a layer's input for a token in addition to the residual stream.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYER_EMBEDDING_H
#define QSF_LAYER_EMBEDDING_H

#include "layers/program.h"

/* After the layer's two parts. */
void qsf_layer_embedding_list(const qsf_layer *l, qsf_program *g);

#endif
