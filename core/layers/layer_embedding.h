/* Per-layer embeddings: a layer's input for a token in addition to the residual stream.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYER_EMBEDDING_H
#define QSF_LAYER_EMBEDDING_H

#include "layers/pass.h"

/* After the layer's two parts. */
void qsf_layer_embedding_run(qsf_pass_job *job);

#endif
