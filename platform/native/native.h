/* What the files of platform/native share.  Each of them includes it first, because it selects the
 * system's interfaces.
 * SPDX-License-Identifier: MIT
 *
 * Every function here has one prototype and one file per system (`_posix`, `_linux`, `_macos`,
 * `_windows`); files of other systems compile to nothing.  The table that joins them is in
 * native.c. */
#ifndef QSF_NATIVE_H
#define QSF_NATIVE_H

#if defined(_WIN32)
#  define NATIVE_WINDOWS 1
#  ifndef _WIN32_WINNT
#    define _WIN32_WINNT 0x0602      /* Windows 8: WaitOnAddress */
#  endif
#  ifndef WIN32_LEAN_AND_MEAN
#    define WIN32_LEAN_AND_MEAN
#  endif
#  ifndef NOMINMAX
#    define NOMINMAX
#  endif
#else
#  define NATIVE_POSIX 1
#  ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#  endif
#  ifndef _DARWIN_C_SOURCE
#    define _DARWIN_C_SOURCE
#  endif
#  ifndef _FILE_OFFSET_BITS
#    define _FILE_OFFSET_BITS 64
#  endif
#endif

#include "base/platform.h"

#if !defined(_WIN32) && !defined(__linux__) && !defined(__APPLE__)
#  error "platform/native knows Linux, macOS, Windows: add wait_*.c, cpu_*.c, thread_*.c for this system"
#endif

/* ---- files for reading: file_*.c ---- */
qsf_status qsf_native_open(void *user, const char *path, qsf_file **out);
void       qsf_native_close(void *user, qsf_file *f);
qsf_status qsf_native_length(void *user, qsf_file *f, uint64_t *out);
qsf_status qsf_native_read_start(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out);
qsf_status qsf_native_read_poll(void *user, qsf_read *r);
qsf_status qsf_native_read_wait(void *user, qsf_read *r);
qsf_status qsf_native_read_by(void *user, qsf_file *f, qsf_io io, bool streams, const char **how);

/* One way of reading in the background, for one file (read_uring.c, read_pread.c, read_mmap.c).
 * file_posix.c chooses. */
typedef struct native_reader {
    const char *name;
    /* direct: fd is past the page cache, and only multiples of NATIVE_DIRECT_ALIGN are read: place,
     * length and address.  The pread reader takes the rest, too.  After this only very many reads
     * at once take memory.  QSF_E_UNSUPPORTED: not on this machine, try the next. */
    qsf_status (*open)(int fd, bool direct, void **state);
    void       (*close)(void *state);              /* ends running reads first */
    qsf_status (*start)(void *state, uint64_t at, void *dst, size_t len, qsf_read **out);
    qsf_status (*poll)(qsf_read *r);
    qsf_status (*wait)(qsf_read *r);
} native_reader;
/* What every reader's own request begins with. */
struct qsf_read { const native_reader *reader; qsf_file *file; };

extern const native_reader qsf_native_reader_uring;
extern const native_reader qsf_native_reader_pread;
extern const native_reader qsf_native_reader_mmap;

/* ---- past the page cache: direct_*.c ---- */
enum { NATIVE_DIRECT_ALIGN = 4096 };
int      qsf_native_direct_open(int fd);   /* the same file; -1: not possible here */
uint64_t qsf_native_free_memory(void);     /* bytes that this process may still fill; UINT64_MAX: not known */

/* ---- files for writing: out_*.c; what a killed process leaves of them: leftover.c ---- */
qsf_status qsf_native_create(void *user, const char *path, qsf_out **out);
qsf_status qsf_native_write(void *user, qsf_out *o, uint64_t at, const void *src, size_t len);
qsf_status qsf_native_commit(void *user, qsf_out *o);
void       qsf_native_abort(void *user, qsf_out *o);
qsf_status qsf_native_between(void *user, const char *path, char *name, size_t cap);
void       qsf_native_remove(void *user, const char *path);
/* TEMPORARY: "NAME.PID-N.tmp", a file that is being written.  BETWEEN: "NAME.PID-N.unmeasured", an
 * intermediate file of a conversion, which continues from it (qsf_native_between).  PID is the
 * process ID. */
typedef enum native_leftover { NATIVE_LEFT_NOTHING, NATIVE_LEFT_TEMPORARY,
                               NATIVE_LEFT_BETWEEN } native_leftover;
native_leftover qsf_native_leftover_of(const char *base, const char *name, long *pid);

/* ---- what a path names: path_*.c ---- */
bool        qsf_native_same(void *user, const char *a, const char *b);
const char *qsf_native_why(void *user, const char *path, bool writing);

/* ---- memory: memory_*.c ---- */
void *qsf_native_mem_alloc(void *user, size_t size);
void  qsf_native_mem_free(void *user, void *p, size_t size);

/* ---- the system's memory statistics: usage_*.c; the file's: file_*.c ---- */
bool  qsf_native_memory_used(void *user, qsf_usage *out);
bool  qsf_native_cached(void *user, qsf_file *f, uint64_t *bytes);
#if defined(__linux__)
void  qsf_native_release_code(void *user);
#endif
#if defined(NATIVE_POSIX)
bool  qsf_native_fd_cached(int fd, uint64_t length, uint64_t *bytes);
#endif

/* ---- threads and clock: thread_*.c (also their count), wait_*.c ---- */
uint32_t   qsf_native_cpu_count(void *user);
qsf_status qsf_native_thread_start(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out);
void       qsf_native_thread_join(void *user, qsf_thread *t);
void       qsf_native_wait32(void *user, uint32_t *word, uint32_t expected, uint64_t ns);
void       qsf_native_wake32(void *user, uint32_t *word, uint32_t count);
uint64_t   qsf_native_now_ns(void *user);
int64_t    qsf_native_wall_s(void *user);

/* ---- processor: cpu_*.c ---- */
uint32_t qsf_native_cpu_features(void *user);

/* ---- libraries that are loaded while the program runs, and stay: library_*.c ---- */
typedef void (*native_fn)(void);
/* name: a path, or a name that the system looks for.  NULL: why has the reason. */
void     *qsf_native_library(const char *name, char *why, size_t cap);
native_fn qsf_native_symbol(void *library, const char *name);      /* NULL: not there */

/* ---- GPUs: device_webgpu.c ---- */
qsf_status qsf_native_devices(void *user, const char *library, qsf_devices **out, qsf_error *err);

#if defined(_WIN32)
/* UTF-8 as UTF-16; the caller frees.  NULL: out of memory or not UTF-8. */
unsigned short *qsf_native_wide(const char *utf8);
#endif

#endif
