/* Whole files for the command line, through the platform's table.
 * SPDX-License-Identifier: MIT */
#include "out_file.h"

qsf_status out_file_begin(out_file *f, const char *path, const char **why)
{
    *f = (out_file){ .p = qsf_platform_native() };
    *why = NULL;
    const qsf_status st = f->p->create(f->p->user, path, &f->out);
    if (st && f->p->why) *why = f->p->why(f->p->user, path, true);
    if (st && !*why) *why = qsf_status_text(st);
    return st;
}

qsf_status out_file_write(void *file, const void *bytes, size_t len)
{
    out_file *f = file;
    const qsf_status st = f->p->write(f->p->user, f->out, f->at, bytes, len);
    f->at += len;
    return st;
}

qsf_status out_file_end(out_file *f, qsf_status st)
{
    if (!st) return f->p->commit(f->p->user, f->out);
    f->p->abort(f->p->user, f->out);
    return st;
}
