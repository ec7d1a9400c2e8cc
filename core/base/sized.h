/* Public structs that begin with their size, so that caller and library may be of different
 * versions: the caller's struct may be shorter (older) or longer (newer) than ours.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BASE_SIZED_H
#define QSF_BASE_SIZED_H

#include "base/base.h"

#include <stddef.h>

#if !defined(QSF_ONE_VERSION)
/* The defaults of an option struct: as many bytes as the caller's has, its size among them.
 * Members that we do not know become 0.  A size that no struct has: nothing is written. */
void qsf_sized_defaults(void *out, size_t size, const void *ours, size_t whole);
/* What the caller has of an option struct (NULL: nothing) over the defaults in *ours, whose
 * size becomes `whole`.  name is the type's, for the error: QSF_E_ARGUMENT if the size is
 * none, and *ours stays. */
qsf_status qsf_sized_take(void *ours, size_t whole, const void *given, const char *name, qsf_error *err);
/* Copies a result to out as far as the caller's struct has room; its size member stays.  Members
 * that we do not know become 0.  QSF_E_ARGUMENT: as above, and nothing is written. */
qsf_status qsf_sized_give(void *out, const void *ours, size_t whole, qsf_error *err);
/* The error of qsf_sized_give, which then does not fail: for calls that must not lose a result. */
qsf_status qsf_sized_check(const void *out, qsf_error *err);
#else
/* A module of WebAssembly is compiled as a whole: no struct in it is of another version. */
static inline void qsf_sized_defaults(void *out, size_t size, const void *ours, size_t whole)
{
    (void)size;
    memcpy(out, ours, whole);
}
static inline qsf_status qsf_sized_take(void *ours, size_t whole, const void *given, const char *name,
                                        qsf_error *err)
{
    (void)name, (void)err;
    if (given) memcpy(ours, given, whole);
    return QSF_OK;
}
static inline qsf_status qsf_sized_give(void *out, const void *ours, size_t whole, qsf_error *err)
{
    (void)err;
    memcpy((char *)out + sizeof whole, (const char *)ours + sizeof whole, whole - sizeof whole);
    return QSF_OK;
}
static inline qsf_status qsf_sized_check(const void *out, qsf_error *err)
{
    (void)out, (void)err;
    return QSF_OK;
}
#endif

#define QSF_TAKE(ours, given, type, err) qsf_sized_take((ours), sizeof(type), (given), #type, (err))
#define QSF_GIVE(out, ours, err)         qsf_sized_give((out), (ours), sizeof *(ours), (err))

/* Whether the caller's struct, whose size is right, reaches to the end of this member. */
#define QSF_SIZED_HAS(given, type, member) ((given)->size >= offsetof(type, member) + sizeof (given)->member)

#endif
