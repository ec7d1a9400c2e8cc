/* Shared libraries by dlopen.  They stay until the program ends: threads of theirs may still run.
 * SPDX-License-Identifier: MIT */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if defined(__APPLE__)
#  define LIBRARY_END ".dylib"
#else
#  define LIBRARY_END ".so"
#endif

bool library_possible(void) { return true; }

library *library_open(const char *path, char *why, size_t cap)
{
    void *l = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        const char *text = dlerror();
        snprintf(why, cap, "%s", text ? text : "unknown reason");
    }
    return l;
}

void library_preload(const char *path)
{
    FILE *there = fopen(path, "rb");
    if (!there) return;
    fclose(there);
    (void)dlopen(path, RTLD_NOW | RTLD_GLOBAL);     /* if this fails, so does what needs it, with a reason */
}

library_fn library_find(library *l, const char *name)
{
    library_fn fn = NULL;
    void *at = dlsym(l, name);
    memcpy(&fn, &at, sizeof fn);                    /* C does not define a conversion between these two */
    return fn;
}

void library_file(library_fn fn, char *out, size_t cap)
{
    Dl_info info;
    void *at = NULL;
    memcpy(&at, &fn, sizeof at);
    snprintf(out, cap, "%s", dladdr(at, &info) && info.dli_fname ? info.dli_fname : "");
}

bool library_name(const char *name, int i, char *out, size_t cap)
{
    if (i == 0) snprintf(out, cap, "lib%s" LIBRARY_END, name);
    else if (i == 1) snprintf(out, cap, "lib%s" LIBRARY_END ".0", name);
    return i < 2;
}
