/* The head by way of clusters, rows that lie near each other.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_CLUSTERS_H
#define QSF_HEAD_CLUSTERS_H

#include "layers/head_logits.h"

typedef struct qsf_head_clusters {
    const qsf_platform *mem;  /* whose memory it takes */
    const qsf_clusters *k;    /* the file's */
    uint32_t   n_vocab;
    qsf_matrix centroids;
    uint32_t  *tiles;         /* [room] tiles of the head that are computed */
    uint32_t   room, n_first, n_all;    /* listed after the first and after the second round */
    float     *promise, *first;         /* [clusters] what each may have, and of these the first round's */
    float     *scratch;       /* [n_vocab] */
    uint8_t   *taken;         /* [room] the tile is listed */
} qsf_head_clusters;

qsf_status qsf_clusters_bytes(const qsf_source *s, uint64_t *bytes, qsf_error *err);
qsf_status qsf_clusters_init(qsf_head_clusters *h, const qsf_source *s, const qsf_platform *mem,
                             qsf_error *err);
void       qsf_clusters_done(qsf_head_clusters *h);      /* accepts a partly built one */
/* Puts the head in memory, head->own, in the clusters' order.  begin: when the time that this
 * accounts for began; returns the time now. */
uint64_t   qsf_clusters_make(qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head,
                             uint64_t begin);
/* [n_vocab] where each token's row is in that order. */
const uint32_t *qsf_clusters_places(const qsf_head_clusters *h);
/* Logits of the rows that asked, which are normed and have codes; in the vocabulary's order. */
void       qsf_clusters_run(qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head,
                            uint64_t begin);
/* The logits of tile t's rows, for row j; several threads may ask for different tiles. */
void       qsf_clusters_tile(const qsf_head_clusters *h, const qsf_pass *p, const qsf_head_part *head,
                             uint32_t j, uint32_t t, uint32_t thread);
/* All logits of a batch that was computed whole, from the clusters' order to the vocabulary's. */
void       qsf_clusters_unsort(qsf_head_clusters *h, const qsf_pass *p);

#endif
