/* All that the core asks of a system: files, memory, threads, clock, processor.  One table of
 * functions; the core calls them only through the wrappers in core/base/host.h.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PLATFORM_H
#define QSF_PLATFORM_H

#include "qsf.h"

typedef struct qsf_file   qsf_file;     /* the host's own */
typedef struct qsf_read   qsf_read;
typedef struct qsf_out    qsf_out;
typedef struct qsf_thread qsf_thread;

/* Named bundles, set only if the operating system saves the registers too. */
enum {
    QSF_CPU_SSE42   = 1 << 0,    /* SSE4.2, SSSE3, POPCNT */
    QSF_CPU_AVX2    = 1 << 1,    /* AVX2, FMA, F16C, BMI (Haswell, Zen 1) */
    QSF_CPU_AVXVNNI = 1 << 2,    /* the above, AVX-VNNI and GFNI (Alder Lake, Zen 5) */
    QSF_CPU_AVX512  = 1 << 3,    /* F, BW, DQ, VL, VNNI (Ice Lake, Zen 4) */
    QSF_CPU_AVX512_BF16 = 1 << 4,
    QSF_CPU_PCLMUL  = 1 << 5,    /* PCLMULQDQ and SSE4.1 */
    QSF_CPU_AVX512_VBMI = 1 << 6,        /* VBMI, VBMI2 and GFNI (Ice Lake, Zen 4) */
    QSF_CPU_AMX     = 1 << 7,    /* tiles of int8 (Sapphire Rapids), which the system lets this process use */
    QSF_CPU_NEON    = 1 << 8,
    QSF_CPU_DOTPROD = 1 << 9,
    QSF_CPU_I8MM    = 1 << 10,
    QSF_CPU_WASM    = 1 << 12,   /* simd128: whether a module has it is known when it is compiled */
    QSF_CPU_WASM_RELAXED = 1 << 13,      /* relaxed SIMD, whose dot products have passed a test */
    QSF_CPU_WASM_DOT = 1 << 14   /* that of four bytes is one instruction */
};

struct qsf_platform {
    size_t size;    /* sizeof(qsf_platform) where the host was compiled; members beyond it count as NULL */
    void  *user;    /* first argument of every call, never looked into */

    /* -- files for reading -- */
    /* Opens path (UTF-8).  QSF_E_NOT_FOUND, QSF_E_IO, QSF_E_MEMORY:
     * *out is NULL and there is nothing to close. */
    qsf_status (*open)(void *user, const char *path, qsf_file **out);
    /* accepts NULL; ends running reads first */
    void       (*close)(void *user, qsf_file *f);
    qsf_status (*length)(void *user, qsf_file *f, uint64_t *out);
    /* Starts to fill dst with bytes [at, at+len); dst belongs to the read until poll or wait ends
     * it.  A read that cannot be whole is QSF_E_IO, never a short success; QSF_E_CORRUPT: the file
     * was changed since it was opened. */
    qsf_status (*read_start)(void *user, qsf_file *f, uint64_t at, void *dst, size_t len, qsf_read **out);
    /* QSF_PENDING; anything else is the end and r is gone */
    qsf_status (*read_poll)(void *user, qsf_read *r);
    qsf_status (*read_wait)(void *user, qsf_read *r);              /* NULL on a host that must not block */

    /* -- files for writing: whole or not at all -- */
    /* Creates a temporary file next to path.  commit syncs it and renames it to path; abort
     * removes it.  Both end *o. */
    qsf_status (*create)(void *user, const char *path, qsf_out **out);
    qsf_status (*write)(void *user, qsf_out *o, uint64_t at, const void *src, size_t len);
    qsf_status (*commit)(void *user, qsf_out *o);
    void       (*abort)(void *user, qsf_out *o);                   /* accepts NULL */

    /* -- memory -- */
    /* Zeroed; 64-byte aligned, page-aligned and in huge pages if size is large.
     * NULL: out of memory. */
    void      *(*mem_alloc)(void *user, size_t size);
    void       (*mem_free)(void *user, void *p, size_t size);      /* size as allocated; accepts NULL */

    /* -- threads (all NULL on a host without) -- */
    uint32_t   (*cpu_count)(void *user);                           /* processors this process may use */
    qsf_status (*thread_start)(void *user, void (*fn)(void *arg), void *arg, qsf_thread **out);
    void       (*thread_join)(void *user, qsf_thread *t);
    /* Sleeps while *word == expected, at most ns nanoseconds; may return early. */
    void       (*wait32)(void *user, uint32_t *word, uint32_t expected, uint64_t ns);
    void       (*wake32)(void *user, uint32_t *word, uint32_t count);

    /* -- clock and processor -- */
    uint64_t   (*now_ns)(void *user);                              /* steady */
    uint32_t   (*cpu_features)(void *user);                        /* QSF_CPU_* */
    const char *(*env)(void *user, const char *name);              /* NULL: not set */

    /* -- memory statistics of the system, for display (optional: NULL) -- */
    /* sets all members except cached, within out->size; false: not available */
    bool       (*memory_used)(void *user, qsf_usage *out);
    /* of f, in the system's page cache */
    bool       (*cached)(void *user, qsf_file *f, uint64_t *bytes);
    /* -- members that came later -- */
    /* A read may be waited for on another thread than the one that started it, while that one
     * starts and ends others. */
    bool        reads_cross_threads;
    /* Optional (NULL): sets how f is read from now on; while reads are under way, io must not
     * change.  streams: much of it will be read repeatedly, and memory is short.  *how: a word or
     * two that describe it, for display.  QSF_E_UNSUPPORTED: not possible on this machine; f is
     * read as before. */
    qsf_status (*read_by)(void *user, qsf_file *f, qsf_io io, bool streams, const char **how);
    /* Optional (NULL): whether a and b name one file or one directory, through links too; false
     * if one of them is not there. */
    bool        (*same)(void *user, const char *a, const char *b);
    /* Optional (NULL): why open (writing: create) has refused path, in words that follow its name:
     * "is a directory", "permission denied".  NULL: it is not known. */
    const char *(*why)(void *user, const char *path, bool writing);
    /* Optional (NULL), both or neither.  between creates an empty temporary file next to path that
     * only this process uses, and writes its name to name[0..cap); remove deletes such a file.
     * Files that a killed process left are deleted when path is next created. */
    qsf_status  (*between)(void *user, const char *path, char *name, size_t cap);
    void        (*remove)(void *user, const char *path);
    /* Optional (NULL): local time in seconds since 1970; 0: not known. */
    int64_t     (*wall_s)(void *user);
    /* Optional (NULL): finds GPUs (base/device.h).  library: what qsf_devices_open got.  On an
     * error *out is NULL, and err says why. */
    qsf_status  (*devices)(void *user, const char *library, qsf_devices **out, qsf_error *err);
    /* Optional (NULL): a context within a memory limit is open.  The program's own code and
     * constants leave memory; what is still used of them comes back from its file. */
    void        (*release_code)(void *user);
};

#endif
