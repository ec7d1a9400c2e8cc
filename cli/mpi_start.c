/* Starting programs that need MPI.  They are programs of their own, so that the others need none.
 * SPDX-License-Identifier: MIT */
#include "mpi_start.h"

#include "start.h"

#include <stdio.h>
#include <string.h>

bool mpi_wanted(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--mpi")) return true;
    return false;
}

int mpi_start(const char *program, char **argv)
{
    const char *self = argv[0];
    const int code = start_program(self, program, argv);
    if (code >= 0) return code;
    fprintf(stderr, "%s --mpi needs the program %s in the same folder; it is built if an MPI is installed: "
            "docs/many-machines.md\n", self, program);
    return 1;
}
