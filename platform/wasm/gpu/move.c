/* What the side module exports: a context's layers go to the GPU.
 * SPDX-License-Identifier: MIT */
#include "gpu.h"
#include "own.h"

#include "device/device_executor.h"

/* Moves as many layers of a new context as the GPU can compute; *n becomes their number.
 * JavaScript's device belongs to the context from now on. */
GPU_EXPORT("move") int32_t gpu_move(uint32_t context, uint32_t *n)
{
    flat_context *c = qsf_flat_context_at(context);
    if (!c) return QSF_E_ARGUMENT;
    return (int32_t)qsf_flat_said(&c->o, qsf_context_move(c->context, gpu_device(), 0,
                                                          c->context->hp->n_layers, n));
}
