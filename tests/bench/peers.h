/* Shared by benchmarks that compare with other programs' libraries.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_BENCH_PEERS_H
#define QSF_BENCH_PEERS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds of a steady clock. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A function of the library `file` in `directory` (with its last slash, or ""); ends the program if
 * it is not found. */
static inline void *symbol(const char *directory, const char *file, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", directory, file);
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *f = lib ? dlsym(lib, name) : NULL;
    if (!f) fprintf(stderr, "%s\n", dlerror());
    if (!f) exit(1);
    return f;
}

#endif
