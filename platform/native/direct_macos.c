/* Reading past the page cache on macOS.  Written for it, never run by our tests.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(__APPLE__)
#include <fcntl.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

/* The flag belongs to all descriptors of one open file description, so the file is opened again: by
 * its name, which may refer to another file by now. */
int qsf_native_direct_open(int fd)
{
    char name[MAXPATHLEN];
    struct stat was, is;
    if (fcntl(fd, F_GETPATH, name) == -1) return -1;
    const int direct = open(name, O_RDONLY | O_CLOEXEC);
    if (direct < 0) return -1;
    if (!fstat(fd, &was) && !fstat(direct, &is) && was.st_dev == is.st_dev && was.st_ino == is.st_ino
        && fcntl(direct, F_NOCACHE, 1) != -1)
        return direct;
    close(direct);
    return -1;
}

/* Unknown, so reads bypass the cache only if that is requested with QSF_IO_PREAD. */
uint64_t qsf_native_free_memory(void) { return UINT64_MAX; }
#endif
