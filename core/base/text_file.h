/* A small file of a directory, read whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_FILE_H
#define QSF_TEXT_FILE_H

#include "base/host.h"

/* Reads dir/name (at most max bytes) into newly allocated memory of *len + 1 bytes, terminated by a
 * 0; the caller frees it with qsf_dealloc(p, text, len + 1).  If the file does not exist:
 * QSF_E_NOT_FOUND without a message. */
qsf_status qsf_text_file_read(const qsf_platform *p, const char *dir, const char *name, uint64_t max,
                              char **text, uint64_t *len, qsf_error *err);

#endif
