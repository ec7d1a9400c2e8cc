/* Memory on Linux and macOS: small pieces from malloc, large ones from the system in whole (huge)
 * pages.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_HUGE ((size_t)2 << 20)

/* From this size on, memory comes from the system.  The address sanitizer sees overruns and leaks
 * only in malloc's memory. */
#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define MEMORY_MAP_FROM SIZE_MAX
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define MEMORY_MAP_FROM SIZE_MAX
#endif
#ifndef MEMORY_MAP_FROM
#  define MEMORY_MAP_FROM ((size_t)128 << 10)
#endif

static size_t memory_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Reads of huge pages measured a fifth faster than of small ones,
 * but they need an aligned start. */
static void *memory_map(size_t size)
{
    const size_t align = size >= 2 * MEMORY_HUGE ? MEMORY_HUGE : 0;
    const size_t page = memory_page();
    if (size > SIZE_MAX - align - page) return NULL;
    size = (size + page - 1) / page * page;
    uint8_t *p = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!align) return p;
    const size_t before = (align - (size_t)(uintptr_t)p % align) % align;
    if (before) munmap(p, before);
    if (align - before) munmap(p + before + size, align - before);
    p += before;
#if defined(MADV_HUGEPAGE)
    (void)madvise(p, size, MADV_HUGEPAGE);       /* only a hint: if it is refused, small pages are used */
#endif
    return p;
}

void *qsf_native_mem_alloc(void *user, size_t size)
{
    (void)user;
    if (size >= MEMORY_MAP_FROM) return memory_map(size);
    void *p;
    if (posix_memalign(&p, size < 131072 ? 64 : 4096, size ? size : 1)) return NULL;
    memset(p, 0, size);
    return p;
}

void qsf_native_mem_free(void *user, void *p, size_t size)
{
    (void)user;
    if (!p) return;
    if (size < MEMORY_MAP_FROM) {
        free(p);
        return;
    }
    const size_t page = memory_page();
    munmap(p, (size + page - 1) / page * page);
}

#undef MEMORY_HUGE
#undef MEMORY_MAP_FROM
#endif
