/* Copying as much of a struct as both sides know.
 * SPDX-License-Identifier: MIT */
#include "base/sized.h"

#if !defined(QSF_ONE_VERSION)

/* The size covers itself and at least one member, and is at most what any version will have: an
 * uninitialised struct has some other number there. */
static bool sized_right(size_t size)
{
    enum { SIZED_MOST = 1 << 16 };
    return size > sizeof size && size <= SIZED_MOST;
}

static size_t sized_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static qsf_status sized_refuse(const char *name, size_t size, qsf_error *err)
{
    return qsf_fail(err, QSF_E_ARGUMENT, "%s has the size %llu: the caller must set it to sizeof", name,
                    (unsigned long long)size);
}

/* Copies the bytes after the size that both sides have; the others of out become 0. */
static void sized_copy(void *out, size_t size, const void *ours, size_t whole)
{
    const size_t head = sizeof size, common = QSF_MIN(size, whole);
    memcpy((char *)out + head, (const char *)ours + head, common - head);
    memset((char *)out + common, 0, size - common);
}

void qsf_sized_defaults(void *out, size_t size, const void *ours, size_t whole)
{
    if (!sized_right(size)) return;
    memcpy(out, &size, sizeof size);
    sized_copy(out, size, ours, whole);
}

qsf_status qsf_sized_take(void *ours, size_t whole, const void *given, const char *name, qsf_error *err)
{
    if (!given) return QSF_OK;
    const size_t size = sized_of(given);
    if (!sized_right(size)) return sized_refuse(name, size, err);
    memcpy((char *)ours + sizeof size, (const char *)given + sizeof size, QSF_MIN(size, whole) - sizeof size);
    return QSF_OK;
}

qsf_status qsf_sized_check(const void *out, qsf_error *err)
{
    const size_t size = sized_of(out);
    return sized_right(size) ? QSF_OK : sized_refuse("the result", size, err);
}

qsf_status qsf_sized_give(void *out, const void *ours, size_t whole, qsf_error *err)
{
    const qsf_status st = qsf_sized_check(out, err);
    if (!st) sized_copy(out, sized_of(out), ours, whole);
    return st;
}
#endif
