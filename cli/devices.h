/* --list-devices and --device: the GPUs, the library that they come from, and layers on one.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_DEVICES_H
#define QSF_CLI_DEVICES_H

#include "common_options.h"

#include <stdio.h>

/* Lists the GPUs.  Returns the exit code. */
int run_devices(void);
enum { DEVICE_NOTE = 512 };
/* Moves layers of a new context to a GPU if --device asks for it.  note: what is there, in words;
 * "" if nothing is.  A GPU that is full, lost or has a defect is a warning: everything stays on the
 * CPU. */
qsf_status device_use(const device_settings *g, qsf_context *c, char note[DEVICE_NOTE], qsf_error *err);
/* The same; writes the note to log (NULL: nowhere).  Errors are reported; returns the exit code. */
int device_begin(const device_settings *g, qsf_context *context, FILE *log);

#endif
