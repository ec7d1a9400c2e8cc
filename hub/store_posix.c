/* The cache's file system on Linux and macOS.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#include "store.h"

#if defined(NATIVE_POSIX)
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct store_lock { int fd; };
struct store_file { int fd; };

static bool store_failed(char why[STORE_WHY])
{
    snprintf(why, STORE_WHY, "%s", errno == ENOSPC || errno == EDQUOT ? "the disk is full" : strerror(errno));
    return false;
}

bool store_make(const char *path, char why[STORE_WHY])
{
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return errno = ENAMETOOLONG, store_failed(why);
    for (char *p = part + 1; ; p++) {
        if (*p && *p != '/') continue;
        const char was = *p;
        *p = 0;
        if (mkdir(part, 0777) && errno != EEXIST) return store_failed(why);
        if (!was) break;
        *p = was;
    }
    return store_is_folder(path) || (errno = ENOTDIR, store_failed(why));
}

bool store_size(const char *path, uint64_t *out)
{
    struct stat s;
    if (stat(path, &s) || !S_ISREG(s.st_mode)) return false;
    *out = (uint64_t)s.st_size;
    return true;
}

bool store_is_folder(const char *path)
{
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

/* Made next to it and renamed: at every moment the link is there. */
bool store_link(const char *path, const char *target, const char *blob, char why[STORE_WHY])
{
    char beside[4096];
    (void)blob;
    if ((size_t)snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid()) >= sizeof beside)
        return errno = ENAMETOOLONG, store_failed(why);
    unlink(beside);
    if (!symlink(target, beside) && !rename(beside, path)) return true;
    store_failed(why);
    unlink(beside);
    return false;
}

bool store_rename(const char *from, const char *to, char why[STORE_WHY])
{
    return !rename(from, to) || store_failed(why);
}

bool store_remove(const char *path) { return !unlink(path) || !rmdir(path); }

bool store_link_target(const char *path, char *out, size_t cap)
{
    const ssize_t n = readlink(path, out, cap - 1);
    if (n < 0) return false;
    out[n] = 0;
    return true;
}

void store_list(const char *folder, bool (*fn)(void *user, const char *name), void *user)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)); )
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !fn(user, e->d_name)) break;
    closedir(dir);
}

uint64_t store_free(const char *folder)
{
    struct statvfs s;
    return statvfs(folder, &s) ? UINT64_MAX : (uint64_t)s.f_bavail * s.f_frsize;
}

uint64_t store_machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}

/* '\\' is a letter of names here. */
void store_slashes(char *path) { (void)path; }

bool store_write_text(const char *path, const char *text, char why[STORE_WHY])
{
    char beside[4096];
    if ((size_t)snprintf(beside, sizeof beside, "%s.%ld.tmp", path, (long)getpid()) >= sizeof beside)
        return errno = ENAMETOOLONG, store_failed(why);
    const int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool whole = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!whole) store_failed(why);
    if (fd >= 0 && close(fd) && whole) whole = store_failed(why);
    if (whole && rename(beside, path)) whole = store_failed(why);
    if (!whole) unlink(beside);
    return whole;
}

bool store_read_text(const char *path, char *out, size_t cap)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
    return n >= 0;
}

/* ---- SIGPIPE ---- */

static bool store_pipe_waits(void)
{
    sigset_t waiting;
    return !sigpending(&waiting) && sigismember(&waiting, SIGPIPE) > 0;
}

void store_pipe_hold(bool *held)
{
    sigset_t pipe_set, before;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    /* one that waits, or is blocked already, is someone else's */
    *held = !store_pipe_waits() && !pthread_sigmask(SIG_BLOCK, &pipe_set, &before)
        && !sigismember(&before, SIGPIPE);
}

void store_pipe_release(bool held)
{
    sigset_t pipe_set;
    int which;
    if (!held) return;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    if (store_pipe_waits()) (void)sigwait(&pipe_set, &which);
    (void)pthread_sigmask(SIG_UNBLOCK, &pipe_set, NULL);
}

/* ---- locks ---- */

store_held store_lock_try(const char *path, store_lock **out, char why[STORE_WHY])
{
    *out = NULL;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0) return store_failed(why), STORE_FAILED;
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        const store_held held = errno == EWOULDBLOCK ? STORE_BUSY : STORE_FAILED;
        store_failed(why);
        close(fd);
        return held;
    }
    struct stat own, now;           /* whoever held it may have removed the file */
    if (fstat(fd, &own) || stat(path, &now) || own.st_ino != now.st_ino) {
        close(fd);
        return STORE_BUSY;
    }
    store_lock *l = malloc(sizeof *l);
    if (!l) {
        store_failed(why);
        close(fd);
        return STORE_FAILED;
    }
    l->fd = fd;
    *out = l;
    return STORE_LOCKED;
}

void store_unlock(store_lock *l)
{
    if (!l) return;
    close(l->fd);
    free(l);
}

/* ---- a file that grows ---- */

store_file *store_open(const char *path, uint64_t *len, char why[STORE_WHY])
{
    struct stat s;
    store_file *f = malloc(sizeof *f);
    const int fd = f ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666) : -1;
    if (fd < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode)) {
        store_failed(why);
        if (fd >= 0) close(fd);
        free(f);
        return NULL;
    }
    f->fd = fd;
    *len = (uint64_t)s.st_size;
    return f;
}

store_file *store_open_again(const char *path)
{
    store_file *f = malloc(sizeof *f);
    if (f && (f->fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) return f;
    free(f);
    return NULL;
}

size_t store_read(store_file *f, uint64_t at, void *out, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(f->fd, (char *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

bool store_cut(store_file *f, uint64_t len, char why[STORE_WHY])
{
    return !ftruncate(f->fd, (off_t)len) || store_failed(why);
}

bool store_write(store_file *f, uint64_t at, const void *bytes, size_t n, char why[STORE_WHY])
{
    for (size_t done = 0; done < n; ) {
        const ssize_t put = pwrite(f->fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return store_failed(why);
        done += (size_t)put;
    }
    return true;
}

bool store_close(store_file *f, bool sync, char why[STORE_WHY])
{
    bool whole = !sync || !fsync(f->fd) || store_failed(why);
    if (close(f->fd) && whole) whole = store_failed(why);
    free(f);
    return whole;
}
#endif
