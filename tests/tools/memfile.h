/* A qsf_custom_file over memory, for tests and fuzz targets.
 * SPDX-License-Identifier: MIT
 *
 *   memfile m;
 *   memfile_init(&m, bytes, len);
 *   qsf_source_open(p, NULL, &m.file, ...);     m outlives the source and stays where it is */
#ifndef QSF_MEMFILE_H
#define QSF_MEMFILE_H

#include <string.h>
#include "qsf.h"

typedef struct memfile {
    qsf_custom_file file;
    const uint8_t  *bytes;
    uint64_t        reads, fail_at;   /* fail_at 0: no read fails */
    int             closed;        /* times */
} memfile;

static inline qsf_status memfile_read(void *user, uint64_t at, void *dst, size_t len)
{
    memfile *m = user;
    if (++m->reads == m->fail_at) return QSF_E_IO;
    if (at > m->file.length || len > m->file.length - at) return QSF_E_IO;
    if (len) memcpy(dst, m->bytes + at, len);
    return QSF_OK;
}
static inline void memfile_close(void *user) { ((memfile *)user)->closed++; }

static inline void memfile_init(memfile *m, const void *bytes, uint64_t len)
{
    memset(m, 0, sizeof *m);
    m->bytes = bytes;
    m->file.size = sizeof m->file;
    m->file.user = m;
    m->file.length = len;
    m->file.read = memfile_read;
    m->file.close = memfile_close;
}

/* What is written to it, for memfile_init: a qsf_write_fn. */
typedef struct memfile_bytes { uint8_t bytes[1 << 16]; size_t len; } memfile_bytes;

static inline qsf_status memfile_write(void *user, const void *bytes, size_t len)
{
    memfile_bytes *m = user;
    if (len > sizeof m->bytes - m->len) return QSF_E_FULL;
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
    return QSF_OK;
}

#endif
