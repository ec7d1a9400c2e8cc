/* --list-devices and --device: the GPUs, the library that they come from, and layers on one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_DEVICES_H
#define QSF_CLI_DEVICES_H

#include "common_options.h"

#include <stdio.h>

/* Lists the GPUs.  Returns the exit code. */
int run_devices(void);
/* Moves layers of a new context to a GPU if --device asks for it, and writes to log what is there
 * (NULL: nothing).  Errors are reported; returns the exit code. */
int device_begin(const common_settings *c, qsf_context *context, FILE *log);

#endif
