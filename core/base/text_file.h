/* A small file of a directory, read whole.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_TEXT_FILE_H
#define QSF_TEXT_FILE_H

#include "base/host.h"

/* Reads dir/name (at most max bytes) into fresh memory of *len + 1 bytes, which ends with a 0; the
 * caller gives it back with qsf_dealloc(p, text, len + 1).  QSF_E_NOT_FOUND without a message where
 * there is none. */
qsf_status qsf_text_file_read(const qsf_platform *p, const char *dir, const char *name, uint64_t max,
                              char **text, uint64_t *len, qsf_error *err);

#endif
