/* --mpi: the programs that run models over many machines.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_MPI_START_H
#define QSF_CLI_MPI_START_H

#include <stdbool.h>

/* Whether --mpi is among the words. */
bool mpi_wanted(int argc, char **argv);
/* Becomes the other program, which is in this one's directory or in PATH.  Returns only if it is
 * not found, after a message: the exit code. */
int  mpi_start(const char *program, char **argv);

#endif
