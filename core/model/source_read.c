/* Reading a source's files, and opening more of them.
 * SPDX-License-Identifier: MIT */
#include "model/source_read.h"

#include "base/arena.h"

qsf_status qsf_source_read(const qsf_source *s, uint32_t file, uint64_t at, void *dst, uint64_t len,
                           const char *what, qsf_error *err)
{
    qsf_error io_err;
    const uint64_t length = s->lengths[file];
    if (at > length || len > length - at)
        return qsf_fail(err, QSF_E_CORRUPT,
                        "%s: %s: %llu bytes at %llu lie beyond the file's %llu; is it cut short?",
                        s->paths[file], what, (unsigned long long)len, (unsigned long long)at,
                        (unsigned long long)length);
    if (len > SIZE_MAX)
        return qsf_fail(err, QSF_E_MEMORY, "%s: %s: %llu bytes at once", s->paths[file], what,
                        (unsigned long long)len);
    const qsf_status st = qsf_read_all(s->io, s->files[file], s->paths[file], at, dst, (size_t)len, &io_err);
    return st ? qsf_fail(err, st, "%s (%s)", io_err.text, what) : QSF_OK;
}

qsf_status qsf_source_add_file(qsf_source *s, const char *path, qsf_error *err)
{
    if (s->n_files == QSF_MAX_SPLITS)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: more than %d files", s->path, QSF_MAX_SPLITS);
    const qsf_status st = qsf_host_open(s->io, path, &s->files[s->n_files], &s->lengths[s->n_files], err);
    if (st) return st;
    const char *name = qsf_arena_text(s->arena, path, strlen(path), err);
    s->paths[s->n_files++] = name;
    return name ? QSF_OK : QSF_E_MEMORY;
}
