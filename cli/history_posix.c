/* The history's file on Linux, macOS and the like.
 * SPDX-License-Identifier: MIT
 *
 * A program that has the file open holds a lock on it.  Shortening the file replaces it with a new
 * one under the same name, so a program that is killed leaves one or the other whole, and a program
 * that waited for the lock checks whether the name still refers to the file it has locked. */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _DEFAULT_SOURCE               /* flock */
#  define _POSIX_C_SOURCE 200809L
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#  define _DARWIN_C_SOURCE
#endif
#include "history.h"

#if !defined(_WIN32) && !defined(__wasi__)
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct history_file {
    int         fd;
    bool        plain;            /* not /dev/null or the like */
    struct stat is;
    char        path[1024];
};

/* Waits a second at most; a file system without locks is written without one. */
static bool file_lock(int fd)
{
    const struct timespec wait = { 0, 10 * 1000000L };
    for (int i = 0; i < 100; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB)) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return true;
        nanosleep(&wait, NULL);
    }
    return false;
}

static bool file_try(history_file *f, const char **why, bool *moved)
{
    struct stat now;
    *moved = false;
    f->fd = open(f->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (f->fd < 0 || fstat(f->fd, &f->is)) {
        *why = strerror(errno);
        return false;
    }
    f->plain = S_ISREG(f->is.st_mode);
    if (!f->plain) return true;
    if (!file_lock(f->fd)) {
        *why = "another program has locked it";
        return false;
    }
    *moved = stat(f->path, &now) || now.st_ino != f->is.st_ino || now.st_dev != f->is.st_dev;
    *why = "it keeps being replaced";
    return !*moved && !fstat(f->fd, &f->is);
}

history_file *history_file_open(const char *path, const char **why)
{
    history_file *f = malloc(sizeof *f);
    bool moved = true;
    *why = "out of memory";
    if (!f) return NULL;
    snprintf(f->path, sizeof f->path, "%s", path);
    for (int i = 0; moved && i < 100; i++) {
        if (file_try(f, why, &moved)) return f;
        if (f->fd >= 0) close(f->fd);
    }
    free(f);
    return NULL;
}

void history_file_close(history_file *f)
{
    close(f->fd);
    free(f);
}

char *history_file_read(history_file *f, size_t *len)
{
    *len = 0;
    if (f->plain && f->is.st_size > HISTORY_FILE) return NULL;
    const size_t size = f->plain ? (size_t)f->is.st_size : 0;
    char *text = malloc(size + 1);
    while (text && *len < size) {
        const ssize_t got = pread(f->fd, text + *len, size - *len, (off_t)*len);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        *len += (size_t)got;
    }
    if (text) text[*len] = 0;
    return text;
}

static bool file_write(int fd, const char *bytes, size_t len)
{
    while (len) {
        const ssize_t done = write(fd, bytes, len);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        len -= (size_t)done;
    }
    return true;
}

bool history_file_add(history_file *f, const char *bytes, size_t len)
{
    char last = '\n';
    if (!f->plain) return true;
    /* an incomplete last line is ended, not continued */
    if (f->is.st_size && pread(f->fd, &last, 1, f->is.st_size - 1) == 1 && last != '\n' &&
        !file_write(f->fd, "\n", 1)) return false;
    return file_write(f->fd, bytes, len);
}

bool history_file_replace(history_file *f, const char *bytes, size_t len)
{
    char temporary[1040];
    char *target = realpath(f->path, NULL);       /* a link stays one */
    if (!f->plain || !target || strlen(target) + 5 > sizeof temporary) {
        free(target);
        return false;
    }
    snprintf(temporary, sizeof temporary, "%s.new", target);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool done = fd >= 0 && !fchmod(fd, f->is.st_mode & 0777) && file_write(fd, bytes, len) && !fsync(fd);
    if (fd >= 0) close(fd);
    done = done && !rename(temporary, target);
    if (fd >= 0 && !done) unlink(temporary);
    free(target);
    return done;
}

/* The folders of a path, for their user alone. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

void history_file_place(char *path, size_t cap)
{
    const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
    int n = 0;
    path[0] = 0;
#if defined(__APPLE__)
    (void)state;
    if (home && *home == '/') n = snprintf(path, cap, "%s/Library/Application Support/qsf/history", home);
#else
    if (state && *state == '/') n = snprintf(path, cap, "%s/qsf/history", state);
    else if (home && *home == '/') n = snprintf(path, cap, "%s/.local/state/qsf/history", home);
#endif
    if (n < 0 || (size_t)n >= cap) path[0] = 0;
    if (path[0]) make_folders(path);
}
#endif
