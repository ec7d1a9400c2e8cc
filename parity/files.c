/* Reading in steps, so that any size is summed in the memory of one.
 * SPDX-License-Identifier: MIT */
#include "files.h"

#include <stdlib.h>

#include "engine.h"

enum { FILE_STEP = 1 << 20 };

static qsf_status file_refused(const qsf_platform *p, const char *path, qsf_status st, bool writing,
                               qsf_error *err)
{
    const char *why = p->why ? p->why(p->user, path, writing) : NULL;
    if (st == QSF_E_NOT_FOUND) why = "no such file";
    return parity_fail(err, st, "%s: %s", path, why ? why : qsf_status_text(st));
}

qsf_status file_in_open(file_in *f, const char *path, qsf_error *err)
{
    *f = (file_in){ .p = qsf_platform_native(), .path = path };
    qsf_status st = f->p->open(f->p->user, path, &f->file);
    if (!st) st = f->p->length(f->p->user, f->file, &f->length);
    if (!st) return QSF_OK;
    file_refused(f->p, path, st, false, err);
    file_in_close(f);
    return st;
}

qsf_status file_in_read(file_in *f, void *dst, size_t n, qsf_error *err)
{
    qsf_read *read = NULL;
    if (n > f->length - f->at)
        return parity_fail(err, QSF_E_CORRUPT, "%s: it is truncated at byte %llu",
                           f->path,
                           (unsigned long long)f->length);
    if (!n) return QSF_OK;
    qsf_status st = f->p->read_start(f->p->user, f->file, f->at, dst, n, &read);
    if (!st) st = f->p->read_wait(f->p->user, read);
    if (st) return parity_fail(err, st, "%s: %s", f->path, qsf_status_text(st));
    f->at += n;
    return QSF_OK;
}

void file_in_close(file_in *f)
{
    if (f->file) f->p->close(f->p->user, f->file);
    f->file = NULL;
}

qsf_status file_whole(const char *path, size_t most, char **text, size_t *len, qsf_error *err)
{
    file_in f;
    *text = NULL, *len = 0;
    qsf_status st = file_in_open(&f, path, err);
    if (st) return st;
    if (f.length > most) {
        st = parity_fail(err, QSF_E_UNSUPPORTED, "%s: %llu bytes, more than the maximum of %zu", path,
                         (unsigned long long)f.length, most);
    } else if (!(*text = malloc((size_t)f.length + 1))) {
        st = parity_fail(err, QSF_E_MEMORY, "out of memory");
    } else {
        *len = (size_t)f.length;
        (*text)[*len] = 0;
        st = file_in_read(&f, *text, *len, err);
    }
    file_in_close(&f);
    if (st) free(*text), *text = NULL;
    return st;
}

qsf_status file_sum(const char *path, char sum[SHA256_HEX], uint64_t *bytes, qsf_error *err)
{
    file_in f;
    sha256 s;
    qsf_status st = file_in_open(&f, path, err);
    if (st) return st;
    uint8_t *step = malloc(FILE_STEP);
    if (!step) st = parity_fail(err, QSF_E_MEMORY, "out of memory");
    sha256_begin(&s);
    while (!st && f.at < f.length) {
        const size_t n = f.length - f.at < FILE_STEP ? (size_t)(f.length - f.at) : FILE_STEP;
        if (!(st = file_in_read(&f, step, n, err))) sha256_add(&s, step, n);
    }
    sha256_end_hex(&s, sum);
    *bytes = f.length;
    free(step);
    file_in_close(&f);
    return st;
}

qsf_status file_out_begin(file_out *f, const char *path, qsf_error *err)
{
    *f = (file_out){ .p = qsf_platform_native(), .path = path };
    const qsf_status st = f->p->create(f->p->user, path, &f->out);
    return st ? file_refused(f->p, path, st, true, err) : QSF_OK;
}

qsf_status file_out_write(file_out *f, const void *bytes, size_t n, qsf_error *err)
{
    const qsf_status st = f->p->write(f->p->user, f->out, f->at, bytes, n);
    if (st) return parity_fail(err, st, "%s: %s", f->path, qsf_status_text(st));
    f->at += n;
    return QSF_OK;
}

qsf_status file_out_end(file_out *f, qsf_status st, qsf_error *err)
{
    if (st) {
        f->p->abort(f->p->user, f->out);
        return st;
    }
    st = f->p->commit(f->p->user, f->out);
    return st ? parity_fail(err, st, "%s: %s", f->path, qsf_status_text(st)) : QSF_OK;
}
