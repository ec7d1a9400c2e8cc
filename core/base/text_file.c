/* A small file of a directory, read whole.
 * SPDX-License-Identifier: MIT */
#include "base/text_file.h"

qsf_status qsf_text_file_read(const qsf_platform *p, const char *dir, const char *name, uint64_t max,
                              char **text, uint64_t *len, qsf_error *err)
{
    char path[4096];
    qsf_file *f;
    qsf_status st;
    *text = NULL;
    *len = 0;
    if (qsf_format(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        return qsf_fail(err, QSF_E_ARGUMENT, "the path of %s is too long", name);
    if ((st = qsf_host_open(p, path, &f, len, err))) return st;
    if (*len > max)
        st = qsf_fail(err, QSF_E_CORRUPT, "%s: %llu bytes, more than the maximum of %llu",
                      path, (unsigned long long)*len, (unsigned long long)max);
    else if (!(*text = qsf_alloc(p, *len + 1, name, err))) st = QSF_E_MEMORY;
    else st = *len ? qsf_read_all(p, f, path, 0, *text, (size_t)*len, err) : QSF_OK;
    p->close(p->user, f);
    if (!st) (*text)[*len] = 0;
    else if (*text) qsf_dealloc(p, *text, *len + 1), *text = NULL;
    return st;
}
