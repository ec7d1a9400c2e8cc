/* What feed-forwards share: the way from their hidden state to their output.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward.h"
#include "layers/product.h"

static void norm_hidden(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = p->b->gate + r * p->b->ld_ff;
        qsf_pass_norm(p, p->layer->norm, x, x, p->w->v[QSF_K_FFN_SUB_NORM], NULL, p->layer->n_ff);
    }
}

void qsf_feed_forward_list_down(const qsf_layer *l, qsf_program *g)
{
    const qsf_view hidden = { .buffer = QSF_BUF_GATE, .cols = l->n_ff };
    if (g->w->v[QSF_K_FFN_SUB_NORM])
        QSF_ADD(g, .op = QSF_OP_FFN_CODES, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS, .to = { hidden },
                .fn = norm_hidden);
    QSF_ADD(g, .op = QSF_OP_FFN_DOWN, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = hidden, .codes = QSF_OP_FFN_CODES, .watch = 1 + QSF_K_FFN_DOWN, .n = 1,
            .kinds = { QSF_K_FFN_DOWN }, .bias = { QSF_K_FFN_DOWN_BIAS }, .to = { { .buffer = QSF_BUF_TMP } },
            .fn = qsf_product_row);
}
