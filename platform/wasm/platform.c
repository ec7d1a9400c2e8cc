/* The table through which the core reaches a browser or Node.js.
 * SPDX-License-Identifier: MIT */
#include "wasm.h"

static uint64_t wasm_now_ns(void *user)
{
    (void)user;
    return (uint64_t)(wasm_js_now() * 1e6);
}

static uint32_t wasm_cpu_features(void *user)
{
    (void)user;
    return wasm_cpu;
}

const qsf_platform *qsf_platform_native(void)
{
    static const qsf_platform table = {
        .size = sizeof(qsf_platform),
        .open = wasm_open,
        .close = wasm_close,
        .length = wasm_length,
        .read_start = wasm_read_start,
        .read_poll = wasm_read_poll,
        .read_wait = wasm_read_wait,
        .mem_alloc = wasm_mem_alloc,
        .mem_free = wasm_mem_free,
#if defined(__wasm_atomics__)
        .cpu_count = wasm_cpu_count,
        .thread_start = wasm_thread_start,
        .thread_join = wasm_thread_join,
        .wait32 = wasm_wait32,
        .wake32 = wasm_wake32,
#endif
        .now_ns = wasm_now_ns,
        .cpu_features = wasm_cpu_features,
    };
    return &table;
}
