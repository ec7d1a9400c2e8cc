/* Files for reading on Linux and macOS; asynchronous reads are left to a native_reader.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX)
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Shorter reads go through the page cache wherever the file is:
 * rows of the embedding, which come again. */
#define FILE_DIRECT_LEAST ((size_t)256 << 10)

typedef struct file_way {
    const native_reader *reader;           /* NULL: not open */
    void *state;
} file_way;

struct qsf_file {
    int      fd, direct;                   /* direct: past the page cache, -1 if unused */
    uint64_t length;
    struct timespec written;               /* when, as it was opened */
    bool     regular;
    /* over the ways that follow, which qsf_native_read_by may change */
    pthread_mutex_t lock;
    /* through the page cache; past it, for aligned reads and for others (which may be one) */
    file_way cached, straight, unaligned;
};

/* The order of trying.  The last one works everywhere. */
static qsf_status file_choose_reader(int fd, bool direct, file_way *w)
{
    static const native_reader *const readers[] = { &qsf_native_reader_uring, &qsf_native_reader_pread };
    qsf_status st = QSF_E_UNSUPPORTED;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0] && st == QSF_E_UNSUPPORTED; i++) {
        w->reader = readers[i];
        st = w->reader->open(fd, direct, &w->state);
    }
    if (st) w->reader = NULL;
    return st;
}

static qsf_status file_status_of(int e)
{
    return e == ENOENT || e == ENOTDIR ? QSF_E_NOT_FOUND : e == ENOMEM ? QSF_E_MEMORY : QSF_E_IO;
}

static struct timespec file_written(const struct stat *s)
{
#if defined(__APPLE__)
    return s->st_mtimespec;
#else
    return s->st_mtim;
#endif
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
    f->regular = S_ISREG(s.st_mode);
    f->written = file_written(&s);
    return QSF_OK;
}

/* Whether the file was written, truncated or extended: then data read earlier and later belongs to
 * different versions. */
static bool file_changed(const qsf_file *f)
{
    struct stat s;
    if (!f->regular) return false;
    if (fstat(f->fd, &s)) return true;
    const struct timespec now = file_written(&s);
    return (uint64_t)s.st_size != f->length || now.tv_sec != f->written.tv_sec
        || now.tv_nsec != f->written.tv_nsec;
}

qsf_status qsf_native_open(void *user, const char *path, qsf_file **out)
{
    (void)user;
    *out = NULL;
    qsf_file *f = calloc(1, sizeof *f);
    if (!f) return QSF_E_MEMORY;
    qsf_status st;
    f->direct = -1;
    /* without O_NONBLOCK a pipe waits here for its writer */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        st = file_status_of(errno);
        goto fail;
    }
    if ((st = file_measure(f)) || (st = file_choose_reader(f->fd, false, &f->cached))) goto fail;
    pthread_mutex_init(&f->lock, NULL);
    *out = f;
    return QSF_OK;
fail:
    if (f->fd >= 0) close(f->fd);
    free(f);
    return st;
}

static void file_close_way(file_way *w)
{
    if (w->reader) w->reader->close(w->state);
    *w = (file_way){ 0 };
}

void qsf_native_close(void *user, qsf_file *f)
{
    (void)user;
    if (!f) return;
    if (f->unaligned.state == f->straight.state) f->unaligned = (file_way){ 0 };
    file_close_way(&f->unaligned);
    file_close_way(&f->straight);
    file_close_way(&f->cached);
    if (f->direct >= 0) close(f->direct);
    close(f->fd);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

qsf_status qsf_native_length(void *user, qsf_file *f, uint64_t *out)
{
    (void)user;
    *out = f->length;
    return QSF_OK;
}

/* Switches to another way of reading through the cache; the old one must not have reads in
 * progress. */
static qsf_status file_read_by(qsf_file *f, const native_reader *reader)
{
    file_way w = { reader, NULL };
    if (f->cached.reader == reader) return QSF_OK;
    const qsf_status st = reader->open(f->fd, false, &w.state);
    if (st) return st;
    file_close_way(&f->cached);
    f->cached = w;
    return QSF_OK;
}

/* Opens the files for reading past the page cache; if one fails, nothing changes. */
static void file_go_direct(qsf_file *f, const native_reader *reader)
{
    file_way straight = { reader, NULL }, unaligned = { &qsf_native_reader_pread, NULL };
    const int fd = qsf_native_direct_open(f->fd);
    if (fd < 0) return;
    if (reader == &qsf_native_reader_mmap || reader->open(fd, true, &straight.state)) goto fail;
    if (reader == &qsf_native_reader_pread) unaligned = straight;
    else if (unaligned.reader->open(fd, true, &unaligned.state)) goto fail_straight;
    f->direct = fd;
    f->straight = straight;
    f->unaligned = unaligned;
    return;
fail_straight:
    straight.reader->close(straight.state);
fail:
    close(fd);
}

qsf_status qsf_native_read_by(void *user, qsf_file *f, qsf_io io, bool streams, const char **how)
{
    static const native_reader *const readers[] = { [QSF_IO_URING] = &qsf_native_reader_uring,
                                                    [QSF_IO_PREAD] = &qsf_native_reader_pread,
                                                    [QSF_IO_MMAP] = &qsf_native_reader_mmap };
    qsf_status st = QSF_OK;
    (void)user;
    *how = NULL;
    pthread_mutex_lock(&f->lock);
    if (io != QSF_IO_AUTO) st = file_read_by(f, readers[io]);
    const bool pays = io == QSF_IO_AUTO ? f->length > qsf_native_free_memory() / 2 : io != QSF_IO_MMAP;
    if (!st && streams && pays && f->direct < 0) file_go_direct(f, f->cached.reader);
    if (!st)
        *how = f->direct < 0 ? f->cached.reader->name : f->straight.reader == &qsf_native_reader_uring
            ? "io_uring, direct" : "pread, direct";
    pthread_mutex_unlock(&f->lock);
    return st;
}

qsf_status qsf_native_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out)
{
    (void)user;
    *out = NULL;
    if (at > INT64_MAX || len > INT64_MAX - at) return QSF_E_IO;
    pthread_mutex_lock(&f->lock);
    const bool aligned = at % NATIVE_DIRECT_ALIGN == 0 && len % NATIVE_DIRECT_ALIGN == 0
        && (uintptr_t)dst % NATIVE_DIRECT_ALIGN == 0;
    const file_way w = f->direct < 0 || len < FILE_DIRECT_LEAST ? f->cached : aligned ? f->straight
        : f->unaligned;
    pthread_mutex_unlock(&f->lock);
    const qsf_status st = w.reader->start(w.state, at, dst, len, out);
    if (!st) (*out)->file = f;
    return st;
}

static qsf_status file_read_end(const qsf_file *f, qsf_status st)
{
    return st != QSF_PENDING && file_changed(f) ? QSF_E_CORRUPT : st;
}

qsf_status qsf_native_read_poll(void *user, qsf_read *r)
{
    const qsf_file *f = r->file;
    (void)user;
    return file_read_end(f, r->reader->poll(r));
}

qsf_status qsf_native_read_wait(void *user, qsf_read *r)
{
    const qsf_file *f = r->file;
    (void)user;
    return file_read_end(f, r->reader->wait(r));
}

bool qsf_native_cached(void *user, qsf_file *f, uint64_t *bytes)
{
    (void)user;
    return qsf_native_fd_cached(f->fd, f->length, bytes);
}

#undef FILE_DIRECT_LEAST
#endif
