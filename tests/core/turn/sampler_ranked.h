/* The candidates that a chain of samplers keeps, by rank.
 * SPDX-License-Identifier: MIT */
#ifndef SAMPLER_RANKED_H
#define SAMPLER_RANKED_H

#include "turn/sampler_own.h"

#include <stdlib.h>

typedef struct ranked { double p; int id; } ranked;
static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p) : x->id - y->id;
}

/* Returns the number of candidates. */
static int ranked_candidates(const sampler_pick *k, ranked *out)
{
    int n = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        float w = k->w ? k->w[i] : 0, sum;
        if (!k->w) k->s->k.exp_weights(&w, &sum, k->x + i, 1, &k->e);
        if (w > 0) out[n++] = (ranked){ (double)w, k->id ? k->id[i] : (int)i };
    }
    qsort(out, (size_t)n, sizeof *out, by_rank);
    return n;
}

#endif
