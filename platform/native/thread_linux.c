/* How many processors this process may use on Linux, and futexes.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A container's share of time: with more spinning threads than it pays for,
 * all of them are stopped together. */
static uint32_t linux_cpu_quota(void)
{
    unsigned long long quota, period;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f) return UINT32_MAX;
    const int n = fscanf(f, "%llu %llu", &quota, &period);       /* "max 100000" without a limit */
    fclose(f);
    if (n != 2 || period == 0) return UINT32_MAX;
    const unsigned long long cpus = quota / period + (quota % period != 0);
    return cpus == 0 ? 1 : cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
}

uint32_t qsf_native_cpu_count(void *user)
{
    (void)user;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {        /* more than 1024 processors */
        const long n = sysconf(_SC_NPROCESSORS_ONLN);
        return n > 0 ? (uint32_t)n : 1;
    }
    const uint32_t n = (uint32_t)CPU_COUNT(&allowed), quota = linux_cpu_quota();
    return n < 1 ? 1 : n < quota ? n : quota;
}

void qsf_native_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns)
{
    (void)user;
    struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0);
}

void qsf_native_wake32(void *user, uint32_t *word, uint32_t count)
{
    (void)user;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT32_MAX ? INT32_MAX : (int)count,
                  NULL, NULL, 0);
}
#endif
