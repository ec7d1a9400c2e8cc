/* The directory of a zip archive, zip64 included; entries are only found, never expanded.
 * SPDX-License-Identifier: MIT
 * PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3. */
#ifndef QSF_CONVERT_ZIP_H
#define QSF_CONVERT_ZIP_H

#include "model/weights_file.h"

typedef struct zip_entry {
    const char *name;
    uint16_t    method;         /* 0: stored; others cannot be read */
    uint32_t    crc;
    uint64_t    at, size;       /* the entry's bytes in the file; checked for stored ones */
} zip_entry;

typedef struct zip_dir {
    uint32_t   n;
    zip_entry *entries;         /* sorted by name, none twice */
} zip_dir;

/* QSF_E_CORRUPT: no archive, or one that contradicts itself or the file's length. */
qsf_status qsf_zip_read_dir(const qsf_platform *p, const weights_file *f, qsf_arena *arena, zip_dir *out,
                            qsf_error *err);
/* NULL if not found. */
const zip_entry *qsf_zip_find(const zip_dir *d, const char *name);

#endif
