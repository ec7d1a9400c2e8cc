/* The native platform: the one table through which the core reaches Linux, macOS or Windows.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#include <stdlib.h>

static const char *native_env(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

const qsf_platform *qsf_platform_native(void)
{
    static const qsf_platform table = {
        .size = sizeof(qsf_platform),
        .user = NULL,
        .open = qsf_native_open,
        .close = qsf_native_close,
        .length = qsf_native_length,
        .read_start = qsf_native_read_start,
        .read_poll = qsf_native_read_poll,
        .read_wait = qsf_native_read_wait,
        .create = qsf_native_create,
        .write = qsf_native_write,
        .commit = qsf_native_commit,
        .abort = qsf_native_abort,
        .mem_alloc = qsf_native_mem_alloc,
        .mem_free = qsf_native_mem_free,
        .cpu_count = qsf_native_cpu_count,
        .thread_start = qsf_native_thread_start,
        .thread_join = qsf_native_thread_join,
        .wait32 = qsf_native_wait32,
        .wake32 = qsf_native_wake32,
        .now_ns = qsf_native_now_ns,
        .cpu_features = qsf_native_cpu_features,
        .env = native_env,
        .memory_used = qsf_native_memory_used,
        .cached = qsf_native_cached,
        .reads_cross_threads = true,
        .read_by = qsf_native_read_by,
        .same = qsf_native_same,
        .why = qsf_native_why,
        .between = qsf_native_between,
        .remove = qsf_native_remove,
        .wall_s = qsf_native_wall_s,
        .devices = qsf_native_devices,
#if defined(__linux__)
        .release_code = qsf_native_release_code,
#endif
    };
    return &table;
}
