/* The head: from the last layer's rows to logits, of all of the vocabulary or (qsf_head_mode) of
 * what few rows of the head promise.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_HEAD_H
#define QSF_HEAD_H

#include "layers/head_clusters.h"
#include "layers/head_screen.h"

typedef struct qsf_head {
    qsf_head_mode mode;
    bool ready;               /* screen or clusters are made from the head in memory, at its first use */
    qsf_head_screen screen;
    qsf_head_clusters clusters;
} qsf_head;

/* Memory that the mode takes besides the head itself.  QSF_E_UNSUPPORTED: the mode does not work
 * with this head; the message says why. */
qsf_status qsf_head_bytes(const qsf_source *s, const qsf_context_options *o, uint64_t *bytes, qsf_error *err);
qsf_status qsf_head_init(qsf_head *h, const qsf_source *s, const qsf_platform *mem,
                         const qsf_context_options *o, qsf_error *err);
void       qsf_head_done(qsf_head *h);          /* accepts a partly built one */

/* QSF_E_CORRUPT, for logits that are not finite. */
qsf_status qsf_head_not_finite(const qsf_source *s, qsf_error *err);

/* Norms n rows of the batch from row r on by the vectors of p->w: the i-th to b->tmp[i]. */
void qsf_head_hidden(const qsf_pass *p, uint32_t r, uint32_t n);
/* The logits of part, for the rows that asked.  first: norms these before, by the vectors of
 * p->w. */
void qsf_head_compute(qsf_head *h, const qsf_pass *p, const qsf_head_part *part, bool first);
/* Whether a batch in which n_asked rows want logits gets them for a part of the vocabulary only. */
bool       qsf_head_leaves_out(const qsf_head *h, uint32_t n_asked);
/* Those of mask's tokens that row j of the last batch has no logits of: they are computed now.  The
 * head is in memory and the rows that asked are still normed. */
void       qsf_head_rows(const qsf_head *h, const qsf_pass *p, const qsf_head_part *part, uint32_t j,
                         const uint32_t *mask);
/* [n_vocab] where each token's row of the head is now, NULL: in the file's order.  A tied embedding
 * is looked up there. */
const uint32_t *qsf_head_places(const qsf_head *h);

#endif
