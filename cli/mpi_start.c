/* Starting programs that need MPI.  They are programs of their own, so that the others need none.
 * SPDX-License-Identifier: MIT */
#if !defined(_WIN32) && !defined(_GNU_SOURCE)
#  define _POSIX_C_SOURCE 200809L
#endif
#include "mpi_start.h"

#include <stdio.h>
#include <string.h>
#if !defined(_WIN32) && !defined(__wasi__)
#  include <unistd.h>
#endif

bool mpi_wanted(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--mpi")) return true;
    return false;
}

int mpi_start(const char *program, char **argv)
{
#if !defined(_WIN32) && !defined(__wasi__)
    char path[4096];
    const char *slash = strrchr(argv[0], '/');
    const int folder = slash ? (int)(slash - argv[0]) + 1 : 0;
    const int n = snprintf(path, sizeof path, "%.*s%s", folder, argv[0], program);
    if (n < (int)sizeof path) execvp(path, argv);
#endif
    fprintf(stderr, "%s --mpi needs the program %s in the same folder; it is built if an MPI is installed: "
            "docs/many-machines.md\n", argv[0], program);
    return 1;
}
