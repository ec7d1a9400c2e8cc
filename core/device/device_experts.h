/* Feed-forwards of experts on a device.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_EXPERTS_H
#define QSF_DEVICE_EXPERTS_H

#include "device/device_parts.h"

/* The logits of a router that reads the layer's input, X, before the mixer changes it. */
void qsf_device_experts_early(qsf_device_maker *k);

#endif
