/* The clock of deadlines and measurements.
 * SPDX-License-Identifier: MIT */
#include "clock.h"

#include <time.h>

uint64_t serve_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
