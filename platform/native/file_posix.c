/* Files for reading on Linux and macOS; how reads run beside the caller is left to a native_reader.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct qsf_file {
    int      fd;
    uint64_t length;
    const native_reader *reader;
    void    *state;
};

/* The order of trying.  The last one works everywhere. */
static qsf_status file_choose_reader(qsf_file *f)
{
    static const native_reader *const readers[] = { &native_reader_uring, &native_reader_pread };
    qsf_status st = QSF_E_UNSUPPORTED;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0] && st == QSF_E_UNSUPPORTED; i++) {
        f->reader = readers[i];
        st = f->reader->open(f->fd, &f->state);
    }
    return st;
}

static qsf_status file_status_of(int e)
{
    return e == ENOENT || e == ENOTDIR ? QSF_E_NOT_FOUND : e == ENOMEM ? QSF_E_MEMORY : QSF_E_IO;
}

/* Length of what can be read at any place: regular files and block devices. */
static qsf_status file_measure(qsf_file *f)
{
    struct stat s;
    if (fstat(f->fd, &s)) return QSF_E_IO;
    if (!S_ISREG(s.st_mode) && !S_ISBLK(s.st_mode)) return QSF_E_IO;
    const off_t end = lseek(f->fd, 0, SEEK_END);
    if (end < 0) return QSF_E_IO;
    f->length = (uint64_t)end;
    return QSF_OK;
}

qsf_status native_open(void *user, const char *path, qsf_file **out)
{
    (void)user;
    *out = NULL;
    qsf_file *f = calloc(1, sizeof *f);
    if (!f) return QSF_E_MEMORY;
    qsf_status st;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);       /* without O_NONBLOCK a pipe waits here for its writer */
    if (f->fd < 0) {
        st = file_status_of(errno);
        goto fail;
    }
    if ((st = file_measure(f)) || (st = file_choose_reader(f))) goto fail;
    *out = f;
    return QSF_OK;
fail:
    if (f->fd >= 0) close(f->fd);
    free(f);
    return st;
}

void native_close(void *user, qsf_file *f)
{
    (void)user;
    if (!f) return;
    f->reader->close(f->state);
    close(f->fd);
    free(f);
}

qsf_status native_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)user;
    *out = f->length;
    return QSF_OK;
}

qsf_status native_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    *out = NULL;
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    return f->reader->start(f->state, at, dst, len, out);
}

qsf_status native_read_poll(void *user, qsf_read *r)
{
    (void)user;
    return r->reader->poll(r);
}

qsf_status native_read_wait(void *user, qsf_read *r)
{
    (void)user;
    return r->reader->wait(r);
}

qsf_status native_map(void *user, qsf_file *f, const void **out)
{
    (void)user;
    *out = NULL;
    if (f->length == 0 || f->length > SIZE_MAX) return QSF_E_UNSUPPORTED;
    void *p = mmap(NULL, (size_t)f->length, PROT_READ, MAP_SHARED, f->fd, 0);
    if (p == MAP_FAILED) return file_status_of(errno);
    *out = p;
    return QSF_OK;
}

void native_unmap(void *user, qsf_file *f, const void *p)
{
    (void)user;
    if (p) munmap((void *)(uintptr_t)p, (size_t)f->length);
}

bool native_cached(void *user, qsf_file *f, uint64_t *bytes)
{
    (void)user;
    return native_fd_cached(f->fd, f->length, bytes);
}
#endif
