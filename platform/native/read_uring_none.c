/* Stands for read_uring.c where liburing is not there.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX) && !defined(QSF_HAVE_URING)
static qsf_status uring_none_open(int fd, bool direct, void **state)
{
    (void)fd;
    (void)direct;
    *state = NULL;
    return QSF_E_UNSUPPORTED;
}

const native_reader qsf_native_reader_uring = { "none", uring_none_open, NULL, NULL, NULL, NULL };
#endif
