/* What the side module exports: layers of a context on the GPU.
 * SPDX-License-Identifier: MIT */
#include "gpu.h"
#include "own.h"
#include "device/device_make.h"
#include "device/device_trial.h"

static qsf_status one_open(qsf_devices *d, uint32_t i, qsf_device **out, qsf_error *err)
{
    (void)d;
    (void)i;
    (void)err;
    *out = gpu_device();
    return QSF_OK;
}

static void one_close(qsf_devices *d) { (void)d; }

/* qsf_context_use_device, for the GPU that JavaScript has opened.  memory: bytes, 0: no limit. */
GPU_EXPORT("use") int32_t gpu_use(uint32_t context, uint32_t n_layers, double memory)
{
    flat_context *c = qsf_flat_context_at(context);
    qsf_devices one = { .source = "WebGPU", .n = 1, .info = gpu_device()->info, .open = one_open,
                        .close = one_close };
    if (!c) return QSF_E_ARGUMENT;
    return (int32_t)qsf_flat_said(&c->o, qsf_context_use_device(c->context, &one, 0, n_layers,
                                                               (uint64_t)memory));
}

/* qsf_context_device: how many layers are on the GPU, how many bytes their weights, their keys and
 * values, and the buffers of a batch take there, and whether it has the head; how many layers pass
 * through, and how many bytes their slots take.  Then why other layers are not there, and for which
 * batches layers pass through. */
GPU_EXPORT("about") void gpu_about(uint32_t context, double numbers[7], char texts[2][160])
{
    const flat_context *c = qsf_flat_context_at(context);
    qsf_device_use use = { .size = sizeof use };
    if (!c || qsf_context_device(c->context, &use)) return;
    const double all[] = { use.n_layers, (double)use.weights, (double)use.kv, (double)use.batch, use.head,
                           use.streamed, (double)use.slots };
    memcpy(numbers, all, sizeof all);
    memcpy(texts[0], use.left, sizeof use.left);
    memcpy(texts[1], use.stream, sizeof use.stream);
}

/* qsf_device_trial_step, of the context that moved last: its status, or QSF_PENDING +
 * QSF_FLAT_WAITING if bytes of the file are missing.  ns: by qsf_trial_kind. */
GPU_EXPORT("trial") int32_t gpu_trial(uint32_t context, bool begins, double ns[QSF_N_TRIAL_KINDS])
{
    static qsf_device_trial trial;
    flat_context *c = qsf_flat_context_at(context);
    bool reading;
    if (!c) return QSF_E_ARGUMENT;
    if (begins) trial = (qsf_device_trial){ 0 };
    const qsf_status st = qsf_flat_said(&c->o, qsf_device_trial_step(c->context, &trial, &reading));
    memcpy(ns, trial.ns, sizeof trial.ns);
    return (int32_t)st + (reading ? QSF_FLAT_WAITING : 0);
}

/* All layers are the CPU's again: the GPU is not worth it. */
GPU_EXPORT("leave") void gpu_leave(uint32_t context)
{
    flat_context *c = qsf_flat_context_at(context);
    if (c) qsf_context_leave_device(c->context);
}
