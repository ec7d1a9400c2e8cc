/* The clock of deadlines and measurements.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SERVE_CLOCK_H
#define QSF_SERVE_CLOCK_H

#include <stdint.h>

/* Nanoseconds, from some beginning on; never goes back. */
uint64_t serve_now(void);

#endif
