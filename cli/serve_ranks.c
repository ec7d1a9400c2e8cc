/* Starting qsf-mpi-serve.
 * SPDX-License-Identifier: MIT */
#include "serve_ranks.h"
#include "mpi_start.h"

int serve_ranks_join(struct serve_settings *set, const serve_ranks_asked *a, int argc, char **argv)
{
    (void)set, (void)a, (void)argc;
    return mpi_start("qsf-mpi-serve", argv);
}
