/* macOS: memory use of the process.  Written for it, never run by our tests.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__APPLE__)
#include <mach/mach.h>

bool qsf_native_memory_used(void *user, qsf_usage *out)
{
    (void)user;
    mach_task_basic_info_data_t info;
    mach_msg_type_number_t n = MACH_TASK_BASIC_INFO_COUNT;
    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &n) != KERN_SUCCESS)
        return false;
    out->resident = info.resident_size;
    out->peak = info.resident_size_max;
    return true;
}

/* No call tells it without mapping the file. */
bool qsf_native_fd_cached(int fd, uint64_t length, uint64_t *bytes)
{
    (void)fd;
    (void)length;
    (void)bytes;
    return false;
}
#endif
