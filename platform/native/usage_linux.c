/* Linux: memory use of the process, and the part of a file in the page cache.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__linux__)
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "VmRSS:      1234 kB" in bytes; 0: not there. */
static uint64_t usage_field(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

bool qsf_native_memory_used(void *user, qsf_usage *out)
{
    (void)user;
    char status[4096];
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof status - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return false;
    status[n] = 0;
    out->resident = usage_field(status, "\nVmRSS:");
    out->peak = usage_field(status, "\nVmHWM:");
    out->own = usage_field(status, "\nRssAnon:");
    out->files = usage_field(status, "\nRssFile:");
    return out->resident > 0;
}

/* Code and constants are mapped from files and never written to, so their pages can be dropped at
 * any time. */
static int usage_drop_code(struct dl_phdr_info *object, size_t size, void *user)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size, (void)user;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_W)) continue;
        const uintptr_t at = object->dlpi_addr + part->p_vaddr, begin = at & ~(page - 1);
        (void)madvise((void *)begin, at + part->p_memsz - begin, MADV_DONTNEED);
    }
    return 0;
}

void qsf_native_release_code(void *user)
{
    (void)user;
    (void)dl_iterate_phdr(usage_drop_code, NULL);
}

/* From the kernel's linux/mman.h of 6.5, which older C libraries lack. */
typedef struct usage_range { uint64_t off, len; } usage_range;
typedef struct usage_stat { uint64_t cached, dirty, writeback, evicted, recently_evicted; } usage_stat;
enum { USAGE_CACHESTAT = 451 };

/* Older kernels: page by page.  They tell it of a file that is the caller's own only, and call
 * every other one cached whole. */
static bool usage_mincore(int fd, uint64_t length, uint64_t *bytes)
{
    enum { PART = 64 << 20 };
    static const size_t page = 4096;
    unsigned char in[PART / 4096];
    struct stat s;
    if (sysconf(_SC_PAGESIZE) != (long)page || fstat(fd, &s) || (s.st_uid != geteuid() && geteuid() != 0))
        return false;
    *bytes = 0;
    for (uint64_t at = 0; at < length; at += PART) {
        const size_t len = (size_t)(length - at < PART ? length - at : PART);
        void *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)at);
        if (p == MAP_FAILED) return false;
        const int e = mincore(p, len, in);
        munmap(p, len);
        if (e) return false;
        for (size_t i = 0; i < (len + page - 1) / page; i++) *bytes += (uint64_t)(in[i] & 1) * page;
    }
    return true;
}

bool qsf_native_fd_cached(int fd, uint64_t length, uint64_t *bytes)
{
    usage_range all = { 0, length };
    usage_stat s = { 0 };
    if (syscall(USAGE_CACHESTAT, fd, &all, &s, 0)) return usage_mincore(fd, length, bytes);
    *bytes = s.cached * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}
#endif
