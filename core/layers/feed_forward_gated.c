/* A feed-forward with a gate: gate, up -> act(gate) * up -> down.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward_gated.h"
#include "layers/feed_forward.h"
#include "layers/product.h"

/* act(gate) * up of gpt-oss: (up + 1) * gate * sigmoid(1.702 gate), of clamped values. */
static void swiglu_oai(float *gate, const float *up, size_t n)
{
    const float alpha = 1.702f, limit = 7;
    for (size_t i = 0; i < n; i++) {
        const float g = QSF_MIN(gate[i], limit), u = QSF_MAX(QSF_MIN(up[i], limit), -limit);
        gate[i] = (float)(g / (1 + exp(-alpha * g))) * (u + 1);
    }
}

void qsf_activate_gated(const qsf_pass *p, float *gate, const float *up, size_t n)
{
    if (p->layer->act == QSF_ACT_SILU) {
        p->k->silu_mul(gate, gate, up, n);
    } else if (p->layer->act == QSF_ACT_GELU) {
        p->k->gelu_mul(gate, gate, up, n);
    } else if (p->layer->act == QSF_ACT_SWIGLU_OAI) {
        qsf_pass_check(p, gate, n);     /* clamping would hide NaN */
        qsf_pass_check(p, up, n);
        swiglu_oai(gate, up, n);
    } else {
        qsf_pass_check(p, gate, n);     /* max(0, NaN) is 0 */
        p->k->relu_inplace(gate, n);
        if (p->layer->act == QSF_ACT_RELU2) p->k->vec_mul(gate, gate, gate, n);
        p->k->vec_mul(gate, gate, up, n);
    }
}

static void widen_gated(const qsf_pass *p, const qsf_task *t)
{
    const qsf_buffers *b = p->b;
    const qsf_matrix *up = &p->w->m[QSF_K_FFN_UP], *gate = &p->w->m[QSF_K_FFN_GATE];
    const qsf_matrix_in in = qsf_view_in(p, &t->row->in);
    const qsf_range tiles = { t->begin, t->end };
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, up->t.rows);
    qsf_matrix_multiply(p, up, p->w->v[QSF_K_FFN_UP_BIAS], &in, b->up, b->ld_ff, tiles, t->thread);
    qsf_matrix_multiply(p, gate, p->w->v[QSF_K_FFN_GATE_BIAS], &in, b->gate, b->ld_ff, tiles, t->thread);
    if (p->layer->sparse > 0) return;           /* whole rows are needed */
    for (size_t j = 0; begin < end && j < p->batch->n; j++) {
        const size_t at = j * b->ld_ff + begin;
        qsf_activate_gated(p, b->gate + at, b->up + at, end - begin);
    }
}

/* The sum of (x - mean)^power, power 1 or 2. */
static double sum_apart(const float *x, size_t n, double mean, bool square)
{
    double sum[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++) {
            const double far = x[i + l] - mean;
            sum[l] += square ? far * far : far;
        }
    for (; i < n; i++) sum[0] += square ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
    for (size_t l = 1; l < 8; l++) sum[0] += sum[l];
    return sum[0];
}

/* Gates that are not far above their mean count as zero, the others by how far they are. */
static void drop_small(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->layer->n_ff;
    for (size_t r = t->begin; r < t->end; r++) {
        float *gate = p->b->gate + r * p->b->ld_ff;
        const double mean = sum_apart(gate, n, 0, false) / (double)n;
        const double squares = sum_apart(gate, n, mean, true);
        qsf_pass_check(p, gate, n);
        const float least = (float)(mean + p->layer->sparse * sqrt(squares / (double)(n - 1)));
        for (size_t i = 0; i < n; i++) gate[i] = QSF_MAX(gate[i] - least, 0);
        qsf_activate_gated(p, gate, p->b->up + r * p->b->ld_ff, n);
    }
}

void qsf_feed_forward_gated_list(const qsf_layer *l, qsf_program *g)
{
    QSF_ADD(g, .op = QSF_OP_FFN_UP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_FIRST_TILES,
            .in = qsf_stream_view(g, QSF_BUF_XN), .codes = QSF_OP_FFN_CODES, .watch = 1 + QSF_K_FFN_UP,
            .n = 2, .kinds = { QSF_K_FFN_UP, QSF_K_FFN_GATE },
            .bias = { QSF_K_FFN_UP_BIAS, QSF_K_FFN_GATE_BIAS },
            .to = { { .buffer = QSF_BUF_UP }, { .buffer = QSF_BUF_GATE } }, .fn = widen_gated);
    if (l->sparse > 0)
        QSF_ADD(g, .op = QSF_OP_FFN_CODES, .work = QSF_WORK_ACTIVATE, .over = QSF_OVER_ROWS,
                .to = { { .buffer = QSF_BUF_GATE, .cols = l->n_ff } }, .fn = drop_small);
    qsf_feed_forward_list_down(l, g);
}
