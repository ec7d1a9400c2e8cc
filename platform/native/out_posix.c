/* Files for writing on Linux and macOS: a temporary name beside the last one, synced, then renamed.
 * SPDX-License-Identifier: MIT
 *
 * At every moment the old file or the new one stands under the name, also after a power cut: the bytes are on the disk
 * before the name moves, and the directory is synced after it. */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct qsf_out {
    int   fd;
    char *path, *temporary;
};

static qsf_status out_status_of(int e)
{
    return e == ENOENT || e == ENOTDIR ? QSF_E_NOT_FOUND : e == ENOMEM ? QSF_E_MEMORY : QSF_E_IO;
}

static void out_free(qsf_out *o)
{
    if (o->fd >= 0) close(o->fd);
    free(o->path);
    free(o->temporary);
    free(o);
}

/* A link stays a link and what it points to is replaced; what is no regular file (/dev/null) is never renamed over. */
static qsf_status out_resolve(qsf_out *o, const char *path, mode_t *mode)
{
    struct stat s;
    if (stat(path, &s)) {
        if (errno != ENOENT) return out_status_of(errno);
        *mode = 0666;
        o->path = strdup(path);
    } else {
        if (!S_ISREG(s.st_mode)) return QSF_E_IO;
        *mode = s.st_mode & 07777;
        o->path = realpath(path, NULL);
    }
    return o->path ? QSF_OK : QSF_E_MEMORY;
}

static qsf_status out_open_temporary(qsf_out *o, mode_t mode)
{
    const size_t room = strlen(o->path) + 48;
    if (!(o->temporary = malloc(room))) return QSF_E_MEMORY;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(o->temporary, room, "%s.%ld-%u.tmp", o->path, (long)getpid(), i);
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (o->fd >= 0) return QSF_OK;
        if (errno != EEXIST) return out_status_of(errno);
    }
    return QSF_E_IO;
}

qsf_status native_create(void *user, const char *path, qsf_out **out)
{
    (void)user;
    *out = NULL;
    qsf_out *o = calloc(1, sizeof *o);
    if (!o) return QSF_E_MEMORY;
    o->fd = -1;
    mode_t mode;
    qsf_status st;
    if ((st = out_resolve(o, path, &mode)) || (st = out_open_temporary(o, mode))) {
        out_free(o);
        return st;
    }
    *out = o;
    return QSF_OK;
}

qsf_status native_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
{
    (void)user;
    const uint8_t *p = src;
    const size_t most = (size_t)1 << 30;
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    while (len) {
        const ssize_t n = pwrite(o->fd, p, len < most ? len : most, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return QSF_E_IO;
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return QSF_OK;
}

/* Some file systems cannot sync a directory; the rename is then as durable as they make it. */
static void out_sync_directory(const char *path)
{
    char *dir = strdup(path);
    if (!dir) return;
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    const int fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

qsf_status native_commit(void *user, qsf_out *o)
{
    const bool synced = fsync(o->fd) == 0;
    const bool closed = close(o->fd) == 0;
    o->fd = -1;
    if (!synced || !closed || rename(o->temporary, o->path)) {
        native_abort(user, o);
        return QSF_E_IO;
    }
    out_sync_directory(o->path);
    out_free(o);
    return QSF_OK;
}

void native_abort(void *user, qsf_out *o)
{
    (void)user;
    if (!o) return;
    unlink(o->temporary);
    out_free(o);
}
#endif
