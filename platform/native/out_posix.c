/* Files for writing on Linux and macOS: written to a temporary file in the same directory, synced,
 * then renamed.
 * SPDX-License-Identifier: MIT
 *
 * At every moment, even after a power failure, the name refers to the whole old file or the whole
 * new one: the bytes are on disk before the rename, and the directory is synced after it.
 *
 * A process that is killed leaves its temporary file.  While it is being written, its writer holds
 * a lock on it, which the system releases when the process ends: the next file written under that
 * name removes temporary files that are not locked. */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

/* A symbolic link stays a link, and its target is replaced; anything but a regular file (/dev/null)
 * is never renamed over. */
static qsf_status out_resolve(qsf_out *o, const char *path, mode_t *mode)
{
    struct stat s;
    if (!*path) return QSF_E_NOT_FOUND;
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

/* ---- what killed processes have left ---- */

static bool out_process_ended(long pid) { return kill((pid_t)pid, 0) != 0 && errno == ESRCH; }

/* Whether the file's writer is gone.  On a file system without locks, the process ID decides. */
static bool out_abandoned(int dir, const char *name, long pid)
{
    struct stat s;
    const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool abandoned = !fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid();
    if (abandoned && flock(fd, LOCK_EX | LOCK_NB)) abandoned = errno != EWOULDBLOCK && out_process_ended(pid);
    close(fd);
    return abandoned;
}

/* Removes "NAME.PID-N.tmp" files of processes that are gone, and their intermediate files
 * (native.h). */
static void out_clear(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *folder = slash ? strdup(path) : strdup(".");
    if (folder && slash) folder[slash == path ? 1 : slash - path] = 0;
    DIR *dir = folder ? opendir(folder) : NULL;
    free(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)); ) {
        long pid;
        const native_leftover kind = qsf_native_leftover_of(base, e->d_name, &pid);
        if (kind == NATIVE_LEFT_TEMPORARY && !out_abandoned(dirfd(dir), e->d_name, pid)) continue;
        if (kind == NATIVE_LEFT_BETWEEN && !out_process_ended(pid)) continue;
        if (kind != NATIVE_LEFT_NOTHING) unlinkat(dirfd(dir), e->d_name, 0);
    }
    closedir(dir);
}

/* Another process that clears up may have taken the file in the moment before it was locked. */
static bool out_lock(int fd)
{
    struct stat s;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return false;
    return !fstat(fd, &s) && s.st_nlink > 0;
}

static qsf_status out_open_temporary(qsf_out *o, mode_t mode)
{
    const size_t room = strlen(o->path) + 48;
    if (!(o->temporary = malloc(room))) return QSF_E_MEMORY;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(o->temporary, room, "%s.%ld-%u.tmp", o->path, (long)getpid(), i);
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (o->fd >= 0 && out_lock(o->fd)) return QSF_OK;
        if (o->fd < 0 && errno != EEXIST) return out_status_of(errno);
        if (o->fd >= 0) close(o->fd);
        o->fd = -1;
    }
    return QSF_E_IO;
}

qsf_status qsf_native_create(void *user, const char *path, qsf_out **out)
{
    (void)user;
    *out = NULL;
    qsf_out *o = calloc(1, sizeof *o);
    if (!o) return QSF_E_MEMORY;
    o->fd = -1;
    mode_t mode = 0;
    qsf_status st;
    if (!(st = out_resolve(o, path, &mode))) {
        out_clear(o->path);
        if (strcmp(path, o->path)) out_clear(path);         /* a link's own directory */
        st = out_open_temporary(o, mode);
    }
    if (st) {
        out_free(o);
        return st;
    }
    *out = o;
    return QSF_OK;
}

qsf_status qsf_native_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len)
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

qsf_status qsf_native_commit(void *user, qsf_out *o)
{
    const bool synced = fsync(o->fd) == 0;
    const bool closed = close(o->fd) == 0;
    o->fd = -1;
    if (!synced || !closed || rename(o->temporary, o->path)) {
        qsf_native_abort(user, o);
        return QSF_E_IO;
    }
    out_sync_directory(o->path);
    out_free(o);
    return QSF_OK;
}

void qsf_native_abort(void *user, qsf_out *o)
{
    (void)user;
    if (!o) return;
    unlink(o->temporary);
    out_free(o);
}

/* ---- a file for a while ---- */

qsf_status qsf_native_between(void *user, const char *path, char *name, size_t cap)
{
    (void)user;
    for (unsigned i = 0; i < 100; i++) {
        const int n = snprintf(name, cap, "%s.%ld-%u.unmeasured", path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= cap) return QSF_E_ARGUMENT;
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) return close(fd) ? QSF_E_IO : QSF_OK;
        if (errno != EEXIST) return out_status_of(errno);
    }
    return QSF_E_IO;
}

void qsf_native_remove(void *user, const char *path)
{
    (void)user;
    unlink(path);
}
#endif
