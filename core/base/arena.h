/* Memory that is freed all at once: a list of chunks from the platform.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_ARENA_H
#define QSF_ARENA_H

#include "base/host.h"

typedef struct qsf_arena qsf_arena;

qsf_status qsf_arena_new(const qsf_platform *p, qsf_arena **out, qsf_error *err);
void       qsf_arena_free(qsf_arena *a);                     /* takes NULL */
/* Zeroed, 16-byte aligned (64 from 1024 bytes on); lives until the arena is freed. */
void      *qsf_arena_alloc(qsf_arena *a, uint64_t size, const char *what, qsf_error *err);
void      *qsf_arena_array(qsf_arena *a, uint64_t n, uint64_t size, const char *what, qsf_error *err);
/* terminated copy */
char      *qsf_arena_text(qsf_arena *a, const void *bytes, size_t len, qsf_error *err);
uint64_t   qsf_arena_used(const qsf_arena *a);

#endif
