/* A feed-forward without a gate: up -> act(up) -> down.
 * SPDX-License-Identifier: MIT */
#include "layers/feed_forward_plain.h"
#include "layers/feed_forward.h"

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

static void widen_plain(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    const qsf_matrix *up = &p->w->m[QSF_K_FFN_UP];
    const qsf_matrix_in in = qsf_feed_forward_in(p);
    const qsf_range tiles = qsf_pass_mine(job, piece);
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, up->t.rows);
    qsf_matrix_multiply(p, up, p->w->v[QSF_K_FFN_UP_BIAS], &in, b->gate, b->ld_ff, tiles, thread);
    for (size_t j = 0; begin < end && j < p->batch->n; j++)
        qsf_activate_plain(p, b->gate + j * b->ld_ff + begin, end - begin);
}

void qsf_feed_forward_plain_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_pass_run(job, QSF_OP_FFN_UP, qsf_matrix_tiles(&p->w->m[QSF_K_FFN_UP]), widen_plain);
    qsf_feed_forward_down(job);
}
