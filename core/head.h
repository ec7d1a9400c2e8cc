/* The head where only few of its rows are computed: qsf_head_mode.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_H
#define QSF_HEAD_H

#include "loader.h"

enum {
    QSF_HEAD_ROWS = 8,        /* batches in which more rows ask for logits are computed exactly */
    QSF_HEAD_BEST = 256       /* rows that a screen lets through */
};

typedef struct qsf_head {
    qsf_head_mode mode;
    const qsf_source *source;
    const qsf_platform *mem;  /* whose memory it takes */
    bool       ready;         /* made from the head in memory, which happens when it is first used */
    qsf_matrix small;         /* screen: the head in fewer bits; clusters: their centroids */
    /* tiles of the head that are computed exactly; screen: [QSF_HEAD_ROWS][room], clusters:
     * [room] */
    uint32_t  *tiles;
    uint32_t   room, n_tiles[QSF_HEAD_ROWS];      /* clusters: after the first and after the second round */
    uint8_t   *screen;        /* small's memory */
    float     *promise, *first;     /* [clusters] what each may have, and of these the first round's */
    float     *scratch;       /* [n_vocab] */
    uint8_t   *taken;         /* [room] the tile is listed */
} qsf_head;

struct qsf_context;

/* Memory that the mode takes beside the head itself.
 * QSF_E_UNSUPPORTED: this head is not for it, and why. */
qsf_status qsf_head_bytes(const qsf_source *s, const qsf_context_options *o, uint64_t *bytes, qsf_error *err);
qsf_status qsf_head_init(qsf_head *h, const qsf_source *s, const qsf_platform *mem,
                         const qsf_context_options *o, qsf_error *err);
void       qsf_head_done(qsf_head *h);          /* takes half-built */

/* Whether the batch's logits are for qsf_head_run. */
bool qsf_head_wanted(const struct qsf_context *c);
/* Logits of the rows that asked, which are normed and quantised; head: all of it, in memory. */
void qsf_head_run(struct qsf_context *c, const qsf_matrix *head);
/* Logits of those `which` of the listed tiles, for the row-th row that asked. */
void qsf_head_tiles(const struct qsf_context *c, const qsf_matrix *head, uint32_t row, const uint32_t *tiles,
                    qsf_share which, uint32_t thread);
/* After a batch that was computed whole: brings its logits into the vocabulary's order. */
void qsf_head_order(struct qsf_context *c);
/* The row of the embedding that is a token's. */
uint32_t qsf_head_place(const struct qsf_context *c, int32_t token);

/* ---- head_clusters.c ---- */
qsf_status qsf_clusters_bytes(const qsf_source *s, const qsf_tensor *head, uint64_t *bytes, qsf_error *err);
qsf_status qsf_clusters_init(qsf_head *h, qsf_error *err);
void       qsf_clusters_done(qsf_head *h);
/* Puts the head in memory in the clusters' order. */
void       qsf_clusters_make(struct qsf_context *c, const qsf_matrix *head);
void       qsf_clusters_run(struct qsf_context *c, const qsf_matrix *head);
void       qsf_clusters_unsort(struct qsf_context *c);

#endif
