/* A feed-forward without a gate: up -> act(up) -> down.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward_plain.h"
#include "layers/feed_forward.h"
#include "layers/product.h"

/* xIELU (Huang and Schlag 2024, arXiv:2411.13010), with its numbers as qsf_hparams has them. */
static void xielu(const float *of, float *x, size_t n)
{
    const float a = of[0], b = of[1], beta = of[2], eps = of[3];
    for (size_t i = 0; i < n; i++) {
        const float v = x[i];
        x[i] = v > 0 ? a * v * v + beta * v : (float)(exp(QSF_MIN(v, eps)) - 1 - v) * b + beta * v;
    }
}

void qsf_activate_plain(const qsf_pass *p, float *x, size_t n)
{
    if (p->layer->act == QSF_ACT_XIELU) {
        xielu(p->layer->xielu, x, n);
        return;
    }
    if (p->layer->act == QSF_ACT_SILU) p->k->silu_inplace(x, n);
    else if (p->layer->act == QSF_ACT_GELU) p->k->gelu_inplace(x, n);
    else {
        qsf_pass_check(p, x, n);        /* max(0, NaN) is 0 */
        p->k->relu_inplace(x, n);
    }
    if (p->layer->act == QSF_ACT_RELU2) p->k->vec_mul(x, x, x, n);
}

static void widen_plain(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const qsf_matrix *up = &p->w->m[QSF_K_FFN_UP];
    const qsf_matrix_in in = qsf_view_in(p, &t->row->in);
    const qsf_range tiles = { t->begin, t->end };
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, up->t.rows);
    qsf_matrix_multiply(p, up, p->w->v[QSF_K_FFN_UP_BIAS], &in, b->gate, b->ld_ff, tiles, t->thread);
    for (size_t j = 0; begin < end && j < p->batch->n; j++)
        qsf_activate_plain(p, b->gate + j * b->ld_ff + begin, end - begin);
}

void qsf_feed_forward_plain_list(const qsf_layer *l, qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_FFN_UP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_stream_view(g, QSF_BUF_XN), .codes = QSF_OP_FFN_CODES, .watch = 1 + QSF_K_FFN_UP,
            .n = 1, .kinds = { QSF_K_FFN_UP }, .bias = { QSF_K_FFN_UP_BIAS },
            .to = { { .buffer = QSF_BUF_GATE } }, .fn = widen_plain);
    qsf_feed_forward_list_down(l, g);
}
