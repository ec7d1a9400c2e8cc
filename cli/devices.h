/* --list-devices and --device: the GPUs, the library that they come from, and layers on one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_DEVICES_H
#define QSF_CLI_DEVICES_H

#include "common_options.h"

#include <stdio.h>

/* Lists the GPUs.  Returns the exit code. */
int run_devices(void);
enum { DEVICE_NOTE = 512 };
/* A new context of *o, with layers on a GPU if --device asks for them: o->device_layers becomes
 * the number of those whose weights do not stay in memory.  note: what is there, in words; "" if
 * nothing is.  A GPU that is full, lost or has a defect is a warning: everything stays on the CPU.
 * On an error *out is NULL. */
qsf_status device_context(const device_settings *g, qsf_model *m, qsf_context_options *o, qsf_context **out,
                          char note[DEVICE_NOTE], qsf_error *err);

#endif
