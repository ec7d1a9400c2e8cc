/* qsf-serve --mpi: joins the ranks of mpirun.
 * SPDX-License-Identifier: MIT
 *
 * qsf-serve itself is not linked with MPI, so there this starts the program that is: the same main,
 * with mpi/serve/serve_ranks.c in place of serve_ranks.c. */
#ifndef QSF_CLI_SERVE_RANKS_H
#define QSF_CLI_SERVE_RANKS_H

#include <stdbool.h>

struct serve_settings;

typedef struct serve_ranks_asked {
    const char *check;            /* "some" or "all": what of the files is compared */
    const char *split, *wire;     /* of a pipeline: layers of each rank, how states travel */
    bool        pipeline;         /* ranks have ranges of layers, and not all of them */
    double      silent;           /* seconds without a sign of life after which a rank counts as dead */
} serve_ranks_asked;

/* Sets set->link, and the settings that differ between ranks.  Returns an exit code if it
 * cannot. */
int serve_ranks_join(struct serve_settings *set, const serve_ranks_asked *a, int argc, char **argv);

#endif
