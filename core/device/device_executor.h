/* The executor of a device: some layers on it, everything else on the CPU.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_EXECUTOR_H
#define QSF_DEVICE_EXECUTOR_H

#include "base/device.h"
#include "engine/context.h"

/* Moves layers [first, end) of a new context to the device, as far as it can compute them; *moved
 * becomes their number.  The device belongs to the context from now on, also after an error.  Their
 * weights go there when a batch first needs them. */
qsf_status qsf_context_move(qsf_context *c, qsf_device *d, uint32_t first, uint32_t end, uint32_t *moved);

#endif
