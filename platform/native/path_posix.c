/* What a path refers to, on Linux and macOS: the same file as another path, or something that
 * cannot be read or written as a file.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool qsf_native_same(void *user, const char *a, const char *b)
{
    struct stat x, y;
    (void)user;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* errno in words; strerror's would not be the same on every system. */
static const char *path_error(int e)
{
    switch (e) {
    case ENOENT:       return "no such file or directory";
    case ENOTDIR:      return "a part of the path is not a directory";
    case EACCES:
    case EPERM:        return "permission denied";
    case EROFS:        return "the file system is read-only";
    case ELOOP:        return "its links go in a circle";
    case ENAMETOOLONG: return "the name is too long";
    case EMFILE:
    case ENFILE:       return "too many open files";
    case ENOSPC:
    case EDQUOT:       return "the disk is full";
    case EIO:          return "the disk reports an error";
    case ESTALE:       return "the network file system has lost it";
    default:           return NULL;
    }
}

static const char *path_kind(mode_t mode)
{
    if (S_ISDIR(mode)) return "is a directory";
    if (S_ISFIFO(mode)) return "is a FIFO (a pipe), not a file";
    if (S_ISSOCK(mode)) return "is a socket, not a file";
    if (S_ISCHR(mode)) return "is a device, not a file";
    return NULL;
}

/* A new file needs a directory that may be written to.
 * path may be a link: then it is its target's. */
static const char *path_why_not_written(const char *path)
{
    char *target = realpath(path, NULL);
    char *dir = target ? target : strdup(path);
    if (!dir) return NULL;
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    const int e = access(slash ? dir : ".", W_OK | X_OK) ? errno : 0;
    free(dir);
    return e == ENOENT ? "its directory does not exist" : e == EACCES ? "its directory may not be written to"
        : path_error(e);
}

const char *qsf_native_why(void *user, const char *path, bool writing)
{
    struct stat s;
    (void)user;
    if (!*path) return "the name is empty";
    if (stat(path, &s)) return writing && errno == ENOENT ? path_why_not_written(path) : path_error(errno);
    if (path_kind(s.st_mode)) return path_kind(s.st_mode);
    if (writing) return S_ISBLK(s.st_mode) ? "is a device, not a file" : path_why_not_written(path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return path_error(errno);
    close(fd);
    return NULL;
}
#endif
