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
        .open = native_open,
        .close = native_close,
        .length = native_length,
        .read_start = native_read_start,
        .read_poll = native_read_poll,
        .read_wait = native_read_wait,
        .create = native_create,
        .write = native_write,
        .commit = native_commit,
        .abort = native_abort,
        .mem_alloc = native_mem_alloc,
        .mem_free = native_mem_free,
        .cpu_count = native_cpu_count,
        .thread_start = native_thread_start,
        .thread_join = native_thread_join,
        .wait32 = native_wait32,
        .wake32 = native_wake32,
        .now_ns = native_now_ns,
        .cpu_features = native_cpu_features,
        .env = native_env,
        .memory_used = native_memory_used,
        .cached = native_cached,
        .reads_cross_threads = true,
        .read_by = native_read_by,
        .same = native_same,
        .why = native_why,
        .between = native_between,
        .remove = native_remove,
        .wall_s = native_wall_s,
    };
    return &table;
}
