/* A layer of the network.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_LAYER_H
#define QSF_LAYER_H

#include "engine/pass.h"

/* What the hyperparameters say of layer i; kv is the caller's to set. */
qsf_layer qsf_layer_of(const qsf_hparams *hp, uint32_t i);
/* Bytes that the layer's mixer keeps of a sequence beside keys and values (state.h). */
size_t    qsf_layer_state_bytes(const qsf_layer *l);
/* The rows x of the batch, on by one layer. */
void      qsf_layer_compute(const qsf_pass *p);

#endif
