/* Processors and waiting on a word on macOS.  Written for it, never run by our tests.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#include <unistd.h>

/* Not in a header, but since macOS 10.12 what libc++ and the system's own locks wait with. */
extern int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t timeout_us);
extern int __ulock_wake(uint32_t operation, void *address, uint64_t wake_value);
enum { ULOCK_COMPARE_AND_WAIT = 1, ULOCK_WAKE_ALL = 0x100 };

/* The fast cores: one slow core at a barrier makes all of them slow. */
uint32_t qsf_native_cpu_count(void *user)
{
    (void)user;
    int fast = 0;
    size_t size = sizeof fast;
    if (sysctlbyname("hw.perflevel0.logicalcpu", &fast, &size, NULL, 0) == 0 && fast > 0)
        return (uint32_t)fast;
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

void qsf_native_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns)
{
    (void)user;
    const uint64_t us = ns / 1000 + 1;                           /* 0 would be for ever */
    __ulock_wait(ULOCK_COMPARE_AND_WAIT, word, expected, us > UINT32_MAX ? UINT32_MAX : (uint32_t)us);
}

void qsf_native_wake32(void *user, uint32_t *word, uint32_t count)
{
    (void)user;
    __ulock_wake(count == 1 ? ULOCK_COMPARE_AND_WAIT : ULOCK_COMPARE_AND_WAIT | ULOCK_WAKE_ALL, word, 0);
}
#endif
