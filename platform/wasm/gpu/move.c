/* What the side module exports: layers of a context on the GPU.
 * SPDX-License-Identifier: MIT */
#include "gpu.h"
#include "own.h"

static qsf_status one_open(qsf_devices *d, uint32_t i, qsf_device **out, qsf_error *err)
{
    (void)d;
    (void)i;
    (void)err;
    *out = gpu_device();
    return QSF_OK;
}

static void one_close(qsf_devices *d) { (void)d; }

/* qsf_context_use_device, for the GPU that JavaScript has opened. */
GPU_EXPORT("use") int32_t gpu_use(uint32_t context, uint32_t n_layers)
{
    flat_context *c = qsf_flat_context_at(context);
    qsf_devices one = { .source = "WebGPU", .n = 1, .info = gpu_device()->info, .open = one_open,
                        .close = one_close };
    if (!c) return QSF_E_ARGUMENT;
    return (int32_t)qsf_flat_said(&c->o, qsf_context_use_device(c->context, &one, 0, n_layers, 0));
}

/* qsf_context_device: how many layers are on the GPU, in how many bytes; why others are not. */
GPU_EXPORT("about") void gpu_about(uint32_t context, double layers_and_bytes[2], char left[160])
{
    const flat_context *c = qsf_flat_context_at(context);
    qsf_device_use use = { .size = sizeof use };
    if (!c || qsf_context_device(c->context, &use)) return;
    layers_and_bytes[0] = use.n_layers;
    layers_and_bytes[1] = (double)use.bytes;
    memcpy(left, use.left, sizeof use.left);
}
