/* Feed-forwards of experts on a device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_EXPERTS_H
#define QSF_DEVICE_EXPERTS_H

#include "device/device_parts.h"

/* Slots of a row: one for each expert, and one for the shared ones if they are added to these. */
static inline uint32_t qsf_device_expert_slots(const qsf_layer *l)
{
    return l->n_used + (l->n_ff && !l->experts_beside);
}

/* The logits of a router that reads the layer's input, X, before the mixer changes it. */
void qsf_device_experts_early(qsf_device_maker *k);

#endif
