/* Stands for direct_linux.c on other systems: their reads go through the system's cache.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX) && !defined(__linux__)
int native_direct_open(int fd)
{
    (void)fd;
    return -1;
}

uint64_t native_free_memory(void) { return UINT64_MAX; }
#endif
