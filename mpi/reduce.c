/* Sums over all ranks, of messages.
 * SPDX-License-Identifier: MIT
 *
 * Few numbers go from every rank to every other one, which takes one message's time.  Of many, each
 * rank first adds up one part of all, and then gives it to the others: two messages' time, but only
 * twice the bytes of x, however many ranks there are. */
#include "reduce.h"
#include "link.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 16384 };           /* numbers: 64 KB */

static float *sums;
static size_t sums_cap;

static const float *part_of(int rank, size_t n)
{
    const void *bytes;
    if (link_receive(rank, true, &bytes) != n * sizeof(float))
        link_fail("rank %d sent the sums of another layer than this rank's", rank);
    return bytes;
}

/* sums[i] = what all ranks have, of which this one has mine[i], in the order of ranks. */
static void add_all(const float *mine, size_t n)
{
    if (sums_cap < n) {
        free(sums);
        sums_cap = n;
        if (!(sums = malloc(n * sizeof *sums))) link_fail("out of memory for sums");
    }
    for (int r = 0; r < link_ranks; r++) {
        const float *theirs = r == link_rank ? mine : part_of(r, n);
        for (size_t i = 0; i < n; i++) sums[i] = r ? sums[i] + theirs[i] : theirs[i];
    }
}

static size_t part_begin(size_t n, int rank) { return n / (size_t)link_ranks * (size_t)rank; }
static size_t part_len(size_t n, int rank)
{
    return (rank + 1 < link_ranks ? part_begin(n, rank + 1) : n) - part_begin(n, rank);
}

static void to_others(const float *x, size_t n)
{
    for (int r = 0; r < link_ranks; r++)
        if (r != link_rank) link_send(r, x, n * sizeof *x);
}

void reduce_sum(float *x, size_t n)
{
    const size_t at = part_begin(n, link_rank), len = part_len(n, link_rank);
    if (n <= FEW) {
        to_others(x, n);
        add_all(x, n);
        memcpy(x, sums, n * sizeof *x);
        return;
    }
    for (int r = 0; r < link_ranks; r++)
        if (r != link_rank) link_send(r, x + part_begin(n, r), part_len(n, r) * sizeof *x);
    add_all(x + at, len);
    memcpy(x + at, sums, len * sizeof *x);
    to_others(sums, len);
    for (int r = 0; r < link_ranks; r++) {
        const size_t theirs = part_len(n, r);
        if (r != link_rank) memcpy(x + part_begin(n, r), part_of(r, theirs), theirs * sizeof *x);
    }
}
