/* Per-layer embeddings (Gemma 3n and 4): a layer's input for a token in addition to the residual
 * stream, the sum of a row of its own table and a projection of the token's embedding.
 * SPDX-License-Identifier: MIT
 *
 *   embedding -> matrix -> norm -> + table's row -> * act(gate of x) -> matrix -> norm -> + x */
#include "layers/layer_embedding.h"
#include "layers/altup.h"
#include "layers/product.h"

/* gate = act(gate) * (norm(up) + the token's row) / sqrt(2) */
static void join_rows(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->layer->n_embd_layer;
    for (size_t r = t->begin; r < t->end; r++) {
        float *up = p->b->up + r * p->b->ld_ff, *gate = p->b->gate + r * p->b->ld_ff;
        const float *row = p->b->table + r * p->b->ld_table + (size_t)p->number * n;
        p->k->vec_scale(up, 1 / sqrtf((float)p->hp->n_embd), n);
        qsf_pass_norm(p, p->layer->norm, up, up, p->w->v[QSF_K_LAYER_EMBD_NORM], NULL, n);
        p->k->vec_add(up, up, row, n);
        p->k->vec_scale(up, 1 / sqrtf(2), n);
        p->k->gelu_mul(gate, gate, up, n);
    }
}

static void add_rows(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->hp->n_embd;
    const float *scale = p->w->v[QSF_K_LAYER_SCALE];
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = p->b->x + r * p->b->ld_embd, *t = p->b->tmp + r * p->b->ld_embd;
        qsf_pass_norm(p, p->layer->norm, t, t, p->w->v[QSF_K_LAYER_POST_NORM], NULL, n);
        if (p->layer->altup) qsf_altup_add(p, r, t);
        else p->k->vec_add(x, x, t, n);
        if (scale) p->k->vec_scale(x, *scale, n);
        qsf_pass_check(p, x, n);
    }
}

void qsf_layer_embedding_list(const qsf_layer *l, qsf_program *g)
{
    const qsf_view gate = { .buffer = QSF_BUF_GATE, .cols = l->n_embd_layer }, none = { 0 };
    const qsf_view tmp = qsf_stream_view(g, QSF_BUF_TMP);
    QSF_ADD(g, .op = QSF_OP_LAYER_EMBD, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, QSF_BUF_X0), .codes = QSF_OP_LAYER_CODES,
            .watch = 1 + QSF_K_LAYER_EMBD, .n = 1, .kinds = { QSF_K_LAYER_EMBD },
            .to = { { .buffer = QSF_BUF_UP } }, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_LAYER_GATE, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, l->altup ? QSF_BUF_XN : QSF_BUF_X), .codes = QSF_OP_LAYER_CODES,
            .watch = 1 + QSF_K_LAYER_GATE, .n = 1, .kinds = { QSF_K_LAYER_GATE },
            .to = { { .buffer = QSF_BUF_GATE } }, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_LAYER_CODES, .work = QSF_WORK_ACTIVATE, .over = QSF_OVER_ROWS,
            .to = { { .buffer = QSF_BUF_UP, .cols = l->n_embd_layer }, gate }, .fn = join_rows);
    QSF_ADD(g, .op = QSF_OP_LAYER_OUT, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = gate, .codes = QSF_OP_LAYER_CODES, .watch = 1 + QSF_K_LAYER_OUT, .n = 1,
            .kinds = { QSF_K_LAYER_OUT }, .to = { tmp }, .fn = qsf_product_row);
    QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_X), tmp, l->altup ? qsf_altup_view(g) : none },
            .fn = add_rows);
}
