/* A context's way to a device and back (qsf_context_use_device of qsf.h).
 * SPDX-License-Identifier: MIT */
#ifndef QSF_DEVICE_MAKE_H
#define QSF_DEVICE_MAKE_H

#include "engine/context.h"

/* A context without sequences: all its layers are the CPU's again. */
void qsf_context_leave_device(qsf_context *c);

#endif
