/* Sums over all ranks.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MPI_REDUCE_H
#define QSF_MPI_REDUCE_H

#include <stddef.h>

/* x[i] becomes the sum of all ranks' x[i], added in the order of ranks: the same bits on all. */
void reduce_sum(float *x, size_t n);

#endif
