/* Checks a path before it becomes the output: an input must not be overwritten, and a path that
 * cannot be written is reported before the work begins.
 * SPDX-License-Identifier: MIT */
#include "output.h"

qsf_status qsf_conv_check_apart(const qsf_platform *p, const char *path, const char *what, const char *other,
                                qsf_error *err)
{
    if (strcmp(path, other) && !qsf_host_same(p, path, other)) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "%s: is %s, %s, which would be overwritten; choose another name",
                                         path,
                    what, other);
}

qsf_status qsf_conv_check_unread(input *in, const char *path, qsf_error *err)
{
    if (!in->reads || !in->reads(in, path)) return QSF_OK;
    return qsf_fail(err, QSF_E_ARGUMENT, "%s: is the input or a part of it, which would be overwritten; "
                    "choose another name for the output", path);
}

/* Does the first step of writing and undoes it: it fails in the same cases as at the end, and
 * removes what a killed run has left. */
qsf_status qsf_conv_check_place(const qsf_platform *p, const char *path, qsf_error *err)
{
    qsf_out *o;
    if (p->size < offsetof(qsf_platform, abort) + sizeof p->abort || !p->create || !p->abort) return QSF_OK;
    const qsf_status st = p->create(p->user, path, &o);
    if (st) return qsf_fail(err, st, "%s: cannot be written: %s", path, qsf_host_why(p, path, true, st));
    p->abort(p->user, o);
    return QSF_OK;
}

qsf_status qsf_conv_check_output(input *in, const char *path, qsf_error *err)
{
    const qsf_status st = qsf_conv_check_unread(in, path, err);
    return st ? st : qsf_conv_check_place(in->platform, path, err);
}

qsf_status qsf_conv_check_calibration(const qsf_platform *p, const char *text, const char *path,
                                      qsf_error *err)
{
    qsf_file *f;
    uint64_t length;
    qsf_status st = qsf_conv_check_apart(p, path, "the text to measure with", text, err);
    if (st || (st = qsf_host_open(p, text, &f, &length, err))) return st;
    p->close(p->user, f);
    return length ? QSF_OK : qsf_fail(err, QSF_E_ARGUMENT, "%s: is empty: no text to measure with", text);
}
