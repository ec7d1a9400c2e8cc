/* No shared libraries: a program that is one static file would get a second C library with each.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX) && defined(QSF_STATIC)
#include <stdio.h>

void *qsf_native_library(const char *name, char *why, size_t cap)
{
    (void)name;
    snprintf(why, cap, "this program is one static file, which cannot load libraries");
    return NULL;
}

native_fn qsf_native_symbol(void *library, const char *name)
{
    (void)library, (void)name;
    return NULL;
}
#endif
