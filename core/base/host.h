/* The core's way to the platform table: checks what is optional and turns failures into messages.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HOST_H
#define QSF_HOST_H

#include "base/base.h"
#include "base/platform.h"

/* Zeroed memory; on failure NULL and *err says what for and how much.
 * size 0 gives a valid pointer. */
void *qsf_alloc(const qsf_platform *p, uint64_t size, const char *what, qsf_error *err);
/* The same for n elements of size bytes, checked. */
void *qsf_alloc_array(const qsf_platform *p, uint64_t n, uint64_t size, const char *what, qsf_error *err);
/* size as allocated (n * size for an array).  Takes NULL. */
void  qsf_dealloc(const qsf_platform *p, void *mem, uint64_t size);

qsf_status qsf_host_open(const qsf_platform *p, const char *path, qsf_file **out, uint64_t *length,
                         qsf_error *err);
/* Whether both name one file; hosts that cannot say compare the names. */
bool       qsf_host_same(const qsf_platform *p, const char *a, const char *b);
/* Why path could not be opened (writing: created), in words that follow its name; what st says
 * if the host knows no more. */
const char *qsf_host_why(const qsf_platform *p, const char *path, bool writing, qsf_status st);
/* Creates an empty temporary file next to path and writes its name to name[0..cap);
 * qsf_host_remove deletes it.  On an error name is "". */
qsf_status qsf_host_between(const qsf_platform *p, const char *path, char *name, size_t cap, qsf_error *err);
void       qsf_host_remove(const qsf_platform *p, const char *path);
/* Reads all of [at, at + len), blocking until it is done.  path: the file's name for the error. */
qsf_status qsf_read_all(const qsf_platform *p, qsf_file *f, const char *path, uint64_t at, void *dst,
                        size_t len, qsf_error *err);
/* zeros if the host does not know */
void       qsf_host_memory_used(const qsf_platform *p, qsf_usage *out);
uint64_t   qsf_host_cached(const qsf_platform *p, qsf_file *f);               /* the same */
void       qsf_host_release_code(const qsf_platform *p);
/* threads can be started, and sleep until they are woken */
bool       qsf_host_threads(const qsf_platform *p);
uint64_t   qsf_now(const qsf_platform *p);      /* 0 if the host has no clock */
int64_t    qsf_host_wall(const qsf_platform *p);    /* the table's wall_s; 0 if the host lacks it */

#endif
