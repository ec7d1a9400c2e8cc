/* Memory, threads, clock and waiting on a word on Windows.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_WINDOWS)
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define WINDOWS_PAGES_FROM ((size_t)128 << 10)

void *qsf_native_mem_alloc(void *user, size_t size)
{
    (void)user;
    if (size >= WINDOWS_PAGES_FROM) return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    void *p = _aligned_malloc(size ? size : 1, 64);
    if (p) memset(p, 0, size);
    return p;
}

void qsf_native_mem_free(void *user, void *p, size_t size)
{
    (void)user;
    if (!p) return;
    if (size >= WINDOWS_PAGES_FROM) VirtualFree(p, 0, MEM_RELEASE);
    else _aligned_free(p);
}

uint32_t qsf_native_cpu_count(void *user)
{
    (void)user;
    DWORD_PTR mine, all;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all)) return 1;
    uint32_t n = 0;
    for (; mine; mine &= mine - 1) n++;
    return n ? n : 1;
}

struct qsf_thread {
    HANDLE handle;
    void (*fn)(void *arg);
    void  *arg;
};

static DWORD WINAPI thread_main_windows(void *arg)
{
    qsf_thread *t = arg;
    t->fn(t->arg);
    return 0;
}

qsf_status qsf_native_thread_start(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out)
{
    (void)user;
    *out = NULL;
    qsf_thread *t = malloc(sizeof *t);
    if (!t) return QSF_E_MEMORY;
    t->fn = fn;
    t->arg = arg;
    t->handle = CreateThread(NULL, 0, thread_main_windows, t, 0, NULL);
    if (!t->handle) {
        free(t);
        return QSF_E_MEMORY;
    }
    *out = t;
    return QSF_OK;
}

void qsf_native_thread_join(void *user, qsf_thread *t)
{
    (void)user;
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
    free(t);
}

void qsf_native_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns)
{
    (void)user;
    const uint64_t ms = ns / 1000000 + 1;
    WaitOnAddress(word, &expected, sizeof expected, ms > 0x7fffffff ? 0x7fffffff : (DWORD)ms);
}

void qsf_native_wake32(void *user, uint32_t *word, uint32_t count)
{
    (void)user;
    if (count == 1) WakeByAddressSingle(word);
    else WakeByAddressAll(word);
}

uint64_t qsf_native_now_ns(void *user)
{
    (void)user;
    LARGE_INTEGER ticks, rate;
    QueryPerformanceFrequency(&rate);
    QueryPerformanceCounter(&ticks);
    const uint64_t t = (uint64_t)ticks.QuadPart, hz = (uint64_t)rate.QuadPart;
    return t / hz * 1000000000u + t % hz * 1000000000u / hz;
}

int64_t qsf_native_wall_s(void *user)
{
    (void)user;
    FILETIME utc, here;         /* in units of 100 ns since 1601 */
    GetSystemTimeAsFileTime(&utc);
    if (!FileTimeToLocalFileTime(&utc, &here)) return 0;
    return (int64_t)(((uint64_t)here.dwHighDateTime << 32 | here.dwLowDateTime) / 10000000u) - 11644473600;
}

#undef WINDOWS_PAGES_FROM
#endif
