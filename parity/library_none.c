/* No shared libraries: programs that are one static file.
 * SPDX-License-Identifier: MIT */
#include "library.h"

#include <stdio.h>

bool library_possible(void) { return false; }

library *library_open(const char *path, char *why, size_t cap)
{
    (void)path;
    snprintf(why, cap, "this build is one static file, which cannot load libraries");
    return NULL;
}

void library_preload(const char *path) { (void)path; }

library_fn library_find(library *l, const char *name)
{
    (void)l, (void)name;
    return NULL;
}

void library_file(library_fn fn, char *out, size_t cap)
{
    (void)fn;
    if (cap) *out = 0;
}

bool library_name(const char *name, int i, char *out, size_t cap)
{
    (void)name, (void)i, (void)out, (void)cap;
    return false;
}
