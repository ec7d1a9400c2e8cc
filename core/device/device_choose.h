/* Which layers of a context a device computes: those it can, and those that its memory has room
 * for.  All of it is known before anything is created there.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_CHOOSE_H
#define QSF_DEVICE_CHOOSE_H

#include "device/device_layer.h"
#include "engine/context.h"

typedef struct qsf_device_choice {
    uint32_t first, end;            /* layers whose weights stay there */
    uint32_t streamed;              /* as many before them pass through slots there (device_stream.h) */
    uint64_t slot;                  /* bytes of a slot */
    bool     embedding;             /* rows of tokens are made there */
    uint64_t weights, kv, batch;    /* bytes that they take: the head's are weights, its logits batch */
    uint64_t memory;                /* their limit, with that of adapters; 0: none */
    char     stream[160];           /* for which batches layers pass through */
    char     left[160];             /* why others are not on the device; "": all are */
} qsf_device_choice;

/* The longest run of layers that the device can compute, of it the last n_layers, and of these the
 * last that fit into `memory` bytes (0: no limit).
 *
 * QSF_E_UNSUPPORTED   it can compute none, or not with the context's options
 * QSF_E_BUDGET        not even one fits */
qsf_status qsf_device_choose(const qsf_context *c, const qsf_device_info *info, uint32_t n_layers,
                             uint64_t memory, qsf_device_choice *out, qsf_error *err);

#endif
