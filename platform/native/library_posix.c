/* Shared libraries that are loaded while the program runs.
 * SPDX-License-Identifier: MIT */
#include "native.h"

#if defined(NATIVE_POSIX) && !defined(QSF_STATIC)
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Weak, so that nothing has to be linked: before glibc 2.34 these are in a library of their own. */
#if !defined(__APPLE__)
#  pragma weak dlopen
#  pragma weak dlsym
#  pragma weak dlerror
static bool library_loader(void) { return dlopen && dlsym && dlerror; }
#else
static bool library_loader(void) { return true; }
#endif

void *qsf_native_library(const char *name, char *why, size_t cap)
{
    if (!library_loader()) {
        snprintf(why, cap, "this program cannot load libraries: it was linked without -ldl");
        return NULL;
    }
    void *l = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        const char *text = dlerror();
        snprintf(why, cap, "%s", text ? text : "unknown reason");
    }
    return l;
}

native_fn qsf_native_symbol(void *library, const char *name)
{
    native_fn fn = NULL;
    void *at = dlsym(library, name);
    memcpy(&fn, &at, sizeof fn);        /* C does not define a conversion between these two */
    return fn;
}
#endif
