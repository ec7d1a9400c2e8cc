/* qsf-run --mpi: the program that runs a model over many machines.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CLI_MPI_START_H
#define QSF_CLI_MPI_START_H

#include <stdbool.h>

/* Whether --mpi is among the words. */
bool mpi_wanted(int argc, char **argv);
/* Becomes qsf-mpi, which lies beside this program or in PATH.  Returns only where there is none,
 * after a message: the exit code. */
int  mpi_start(char **argv);

#endif
