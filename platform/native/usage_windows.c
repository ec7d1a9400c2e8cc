/* Windows: memory use of the process.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <windows.h>
/* must come after windows.h */
#include <psapi.h>

bool qsf_native_memory_used(void *user, qsf_usage *out)
{
    (void)user;
    PROCESS_MEMORY_COUNTERS m;
    if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &m, sizeof m)) return false;
    out->resident = m.WorkingSetSize;
    out->peak = m.PeakWorkingSetSize;
    return true;
}

/* The cache manager keeps this to itself. */
bool qsf_native_cached(void *user, qsf_file *f, uint64_t *bytes)
{
    (void)user;
    (void)f;
    (void)bytes;
    return false;
}
#endif
