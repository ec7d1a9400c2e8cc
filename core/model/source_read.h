/* What the readers of file formats need of a source's files.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SOURCE_READ_H
#define QSF_SOURCE_READ_H

#include "model/source.h"

/* Reads [at, at+len) of file `file` whole; outside the file is QSF_E_CORRUPT ("cut short?"). what:
 * "tensor headers of layer 3". */
qsf_status qsf_source_read(const qsf_source *s, uint32_t file, uint64_t at, void *dst, uint64_t len,
                           const char *what, qsf_error *err);
/* Opens a further file (a split) as the next of s->files. */
qsf_status qsf_source_add_file(qsf_source *s, const char *path, qsf_error *err);

#endif
