/* Files, through the platform's table: sums of models, receipts, recorded logits.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_PARITY_FILES_H
#define QSF_PARITY_FILES_H

#include "sha256.h"
#include "base/platform.h"

/* A file that is read from its beginning on. */
typedef struct file_in {
    const qsf_platform *p;
    qsf_file *file;
    uint64_t  at, length;
    const char *path;
} file_in;

qsf_status file_in_open(file_in *f, const char *path, qsf_error *err);
/* QSF_E_CORRUPT: it ends before */
qsf_status file_in_read(file_in *f, void *dst, size_t n, qsf_error *err);
void       file_in_close(file_in *f);

/* All of a file of at most `most` bytes, terminated; the caller frees. */
qsf_status file_whole(const char *path, size_t most, char **text, size_t *len, qsf_error *err);
qsf_status file_sum(const char *path, char sum[SHA256_HEX], uint64_t *bytes, qsf_error *err);

/* A file that is there whole or not at all: it gets its name when it is written and synced. */
typedef struct file_out {
    const qsf_platform *p;
    qsf_out *out;
    uint64_t at;
    const char *path;
} file_out;

qsf_status file_out_begin(file_out *f, const char *path, qsf_error *err);
qsf_status file_out_write(file_out *f, const void *bytes, size_t n, qsf_error *err);
/* st: how the writing went; anything but QSF_OK leaves what was there. */
qsf_status file_out_end(file_out *f, qsf_status st, qsf_error *err);

#endif
