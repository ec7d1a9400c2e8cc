/* Reading past the page cache on Linux, and how much memory there is for it.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX) && defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Through /proc it is the same file, whatever has the path by now.  A file system that refuses does
 * so here: tmpfs when opening, others with the first read. */
int qsf_native_direct_open(int fd)
{
    char name[64];
    void *block = NULL;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const int direct = open(name, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (direct < 0) return -1;
    ssize_t n = -1;
    if (posix_memalign(&block, NATIVE_DIRECT_ALIGN, NATIVE_DIRECT_ALIGN) == 0)
        do n = pread(direct, block, NATIVE_DIRECT_ALIGN, 0);
        while (n < 0 && errno == EINTR);
    free(block);
    if (n > 0) return direct;
    close(direct);
    return -1;
}

/* The number that follows `key` in a file of /proc or /sys; UINT64_MAX: none, or "max". */
static uint64_t direct_number(const char *path, const char *key)
{
    char line[256];
    unsigned long long v;
    uint64_t found = UINT64_MAX;
    FILE *f = fopen(path, "re");
    if (!f) return found;
    while (found == UINT64_MAX && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%llu", &v) == 1) found = v;
    fclose(f);
    return found;
}

/* The limit of the control group, of which a container sees its own at the root. */
static uint64_t direct_group_limit(void)
{
    char line[256], path[320];
    uint64_t least = direct_number("/sys/fs/cgroup/memory.max", "");
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        const bool old = strstr(line, ":memory:") != NULL;
        const char *group = !strncmp(line, "0::", 3) ? line + 3 : old ? strstr(line, ":memory:") + 8 : NULL;
        if (!group) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, old ? "/sys/fs/cgroup/memory%s/memory.limit_in_bytes"
                 : "/sys/fs/cgroup%s/memory.max", group);
        const uint64_t limit = direct_number(path, "");
        if (limit < least) least = limit;
    }
    if (f) fclose(f);
    return least;
}

uint64_t qsf_native_free_memory(void)
{
    const uint64_t kb = direct_number("/proc/meminfo", "MemAvailable:"), limit = direct_group_limit();
    const uint64_t bytes = kb > UINT64_MAX / 1024 ? UINT64_MAX : kb * 1024;
    return bytes < limit ? bytes : limit;
}
#endif
