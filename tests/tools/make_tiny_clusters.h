/* Clusters of a tiny model's head and of its embedding, for tests: rows in a random order, random
 * centroids.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MAKE_TINY_CLUSTERS_H
#define QSF_MAKE_TINY_CLUSTERS_H

#include "make_tiny_qsf.h"

enum { TINY_CLUSTERS = 40 };        /* the first is empty */

typedef struct tiny_clusters {
    qsf_clusters k;
    qsf_tensor   centroids;
    uint32_t     first[TINY_CLUSTERS + 1];
    float        radius[TINY_CLUSTERS];
} tiny_clusters;

/* For a head of rows x cols; all of the given radius. */
static inline bool tiny_clusters_make(tiny_clusters *t, uint32_t rows, uint32_t cols, float radius)
{
    uint64_t seed = 7;
    memset(t, 0, sizeof *t);
    t->k = (qsf_clusters){ .n = TINY_CLUSTERS, .first = t->first, .radius = t->radius };
    t->k.order = malloc(rows * sizeof(uint32_t));
    t->k.scale = malloc(cols * sizeof(float));
    for (uint32_t i = 0; i < rows; i++) {           /* Fisher and Yates, inside out */
        const uint32_t j = (uint32_t)(tiny_uniform(&seed) * (i + 1));
        t->k.order[i] = t->k.order[j];
        t->k.order[j] = i;
    }
    for (uint32_t j = 0; j < cols; j++) t->k.scale[j] = 0.5f + (float)tiny_uniform(&seed);
    for (uint32_t i = 0; i < TINY_CLUSTERS; i++) {
        t->first[i + 1] = (uint32_t)((uint64_t)rows * i / (TINY_CLUSTERS - 1));
        t->radius[i] = radius;
    }
    const qsf_status st = tiny_tensor(&t->centroids, QSF_K_OUTPUT, QSF_T_8BIT, 64, 1, TINY_CLUSTERS, cols, 0,
                                      1, &seed, NULL);
    t->k.centroids = t->centroids;
    return !st;
}

static inline void tiny_clusters_free(tiny_clusters *t)
{
    free(t->k.order);
    free(t->k.scale);
    free((void *)(uintptr_t)t->centroids.data);
}

/* Clusters for an embedding of rows x cols. */
static inline bool tiny_embd_clusters_make(qsf_embd_clusters *k, uint32_t n, uint32_t rows, uint32_t cols)
{
    uint64_t seed = 9;
    *k = (qsf_embd_clusters){ .n = n, .of = malloc(rows * sizeof *k->of) };
    for (uint32_t i = 0; i < rows; i++) k->of[i] = (uint16_t)(tiny_uniform(&seed) * n);
    return !tiny_tensor(&k->centroids, QSF_K_TOKEN_EMBD, QSF_T_8BIT, 64, 0, n, cols, 0, 1, &seed, NULL);
}

static inline void tiny_embd_clusters_free(qsf_embd_clusters *k)
{
    free(k->of);
    free((void *)(uintptr_t)k->centroids.data);
}

#endif
