/* The receipt's description of the machine, without its name or anything about its owner.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_MACHINE_H
#define QSF_PARITY_MACHINE_H

#include <stddef.h>

void        machine_processor(char *out, size_t cap);    /* "AMD EPYC 7763 64-Core Processor", "unknown" */
const char *machine_system(void);                        /* "linux x86_64" */
const char *machine_commit(void);                        /* of the sources of this program */

#endif
