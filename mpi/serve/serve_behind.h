/* qsf-serve --mpi --pipeline: one model, whose layers the ranks share.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_SERVE_BEHIND_H
#define QSF_MPI_SERVE_BEHIND_H

#include "serve.h"
#include "serve_ranks.h"

/* Rank 0 gets the first range of layers to serve with, and access to the ranks that hold the rest;
 * those compute until it ends, and end with it. */
void serve_behind_join(serve_settings *set, const serve_ranks_asked *a);

#endif
