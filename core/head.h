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
    bool       ready;         /* made from the head in memory, which happens when it is first used */
    qsf_matrix small;         /* screen: the head in fewer bits */
    uint32_t  *tiles;         /* [QSF_HEAD_ROWS][room] tiles of the head that are computed exactly */
    uint32_t   n_tiles[QSF_HEAD_ROWS], room;
    uint8_t   *screen;        /* its memory */
} qsf_head;

struct qsf_context;

/* Memory that the mode takes beside the head itself.  QSF_E_UNSUPPORTED: this head is not for it, and why. */
qsf_status qsf_head_bytes(const qsf_source *s, const qsf_context_options *o, uint64_t *bytes, qsf_error *err);
qsf_status qsf_head_init(qsf_head *h, const qsf_source *s, const qsf_context_options *o, qsf_error *err);
void       qsf_head_done(qsf_head *h);          /* takes half-built */

/* Whether the batch's logits are for qsf_head_run. */
bool qsf_head_wanted(const struct qsf_context *c);
/* Logits of the rows that asked, which are normed and quantised; head: all of it, in memory. */
void qsf_head_run(struct qsf_context *c, const qsf_matrix *head);

#endif
