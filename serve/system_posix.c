/* The server's needs on Linux and macOS.
 * SPDX-License-Identifier: MIT */
#include "system.h"

#if !defined(_WIN32)
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

bool system_begin(void)
{
    signal(SIGXFSZ, SIG_IGN);               /* file size limit: the write reports it */
    return signal(SIGPIPE, SIG_IGN) != SIG_ERR;
}

unsigned system_files(unsigned connections, unsigned others)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return connections;
    if (files.rlim_cur < connections + others) {
        files.rlim_cur = connections + others < files.rlim_max ? connections + others : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        (void)getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur < connections + others ? (unsigned)files.rlim_cur - others : connections;
}

void system_behind(void)
{
#if defined(__linux__)                  /* there it affects this thread alone */
    (void)setpriority(PRIO_PROCESS, 0, 10);
#elif defined(__APPLE__)
    (void)pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#endif
}

bool system_wake(int fd) { return write(fd, "", 1) == 1; }

int system_file_unnamed(const char *dir)
{
    char path[4096];
    const char *place = dir ? dir : getenv("TMPDIR");
    if (!place || !*place) place = "/tmp";
    errno = ENAMETOOLONG;
    if ((size_t)snprintf(path, sizeof path, "%s/qsf-serve-XXXXXX", place) >= sizeof path) return -1;
    const int fd = mkstemp(path);
    if (fd >= 0) unlink(path);
    return fd;
}

long long system_read_at(int fd, void *to, size_t len, uint64_t at) { return pread(fd, to, len, (off_t)at); }

long long system_write_at(int fd, const void *from, size_t len, uint64_t at)
{
    return pwrite(fd, from, len, (off_t)at);
}

void system_close(int fd) { (void)close(fd); }

bool system_flush(FILE *f) { return !fflush(f) && !fsync(fileno(f)); }

bool system_replace(const char *path, const char *other) { return !rename(path, other); }

bool system_folder(const char *path, void (*seen)(void *user, const char *name), void *user)
{
    DIR *dir = opendir(path);
    if (!dir) return false;
    for (const struct dirent *e; (e = readdir(dir)); ) seen(user, e->d_name);
    closedir(dir);
    return true;
}
#endif
