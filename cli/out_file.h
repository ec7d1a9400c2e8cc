/* A file that is written from its beginning on, and is there whole or not at all.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_OUT_FILE_H
#define QSF_CLI_OUT_FILE_H

#include "base/platform.h"

typedef struct out_file {
    const qsf_platform *p;
    qsf_out  *out;
    uint64_t  at;
} out_file;

/* After an error there is nothing to end, and *why has the system's reason. */
qsf_status out_file_begin(out_file *f, const char *path, const char **why);
/* file: an out_file; the form that qsf_session_save calls. */
qsf_status out_file_write(void *file, const void *bytes, size_t len);
/* st: how writing went.  QSF_OK puts the file in its place, anything else leaves what was there;
 * returns the first error. */
qsf_status out_file_end(out_file *f, qsf_status st);

#endif
