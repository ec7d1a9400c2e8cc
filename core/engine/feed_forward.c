/* Feed-forward: gate, up -> act(gate) * up -> down; without a gate up -> act(up) -> down.
 * SPDX-License-Identifier: MIT */
#include "engine/feed_forward.h"
#include "engine/matrix.h"

static void activate(const qsf_pass *p, float *x, size_t n)
{
    if (p->hp->act == QSF_ACT_SILU) p->k->silu_inplace(x, n);
    else if (p->hp->act == QSF_ACT_GELU) p->k->gelu_inplace(x, n);
    else p->k->relu_inplace(x, n);
}

static void activate_gated(const qsf_pass *p, float *gate, const float *up, size_t n)
{
    if (p->hp->act == QSF_ACT_SILU) {
        p->k->silu_mul(gate, gate, up, n);
    } else if (p->hp->act == QSF_ACT_GELU) {
        p->k->gelu_mul(gate, gate, up, n);
    } else {
        p->k->relu_inplace(gate, n);
        p->k->vec_mul(gate, gate, up, n);
    }
}

/* What gate and up take, and what down takes. */
static qsf_matrix_in feed_forward_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
}
static qsf_matrix_in feed_forward_hidden(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->gate, p->b->ld_ff, p->layer.n_ff, 0, p->batch->n);
}

static void widen(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_buffers *b = p->b;
    const qsf_matrix *up = &p->w->m[QSF_K_FFN_UP], *gate = &p->w->m[QSF_K_FFN_GATE];
    const qsf_matrix_in in = feed_forward_in(p);
    const qsf_range tiles = qsf_pass_mine(job, piece);
    const size_t begin = tiles.begin * QSF_TILE_ROWS, end = QSF_MIN(tiles.end * QSF_TILE_ROWS, up->t.rows);
    qsf_matrix_multiply(p, up, p->w->v[QSF_K_FFN_UP_BIAS], &in, b->up, b->ld_ff, tiles, thread);
    if (p->hp->gated)
        qsf_matrix_multiply(p, gate, p->w->v[QSF_K_FFN_GATE_BIAS], &in, b->gate, b->ld_ff, tiles, thread);
    for (size_t j = 0; begin < end && j < p->batch->n; j++) {
        float *u = b->up + j * b->ld_ff + begin, *g = b->gate + j * b->ld_ff + begin;
        if (p->hp->gated) {
            activate_gated(p, g, u, end - begin);
        } else {
            memcpy(g, u, (end - begin) * sizeof(float));
            activate(p, g, end - begin);
        }
    }
}

static void quantize_hidden(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = feed_forward_hidden(job->p);
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
}

static void narrow(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = feed_forward_hidden(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_FFN_DOWN], p->w->v[QSF_K_FFN_DOWN_BIAS], &in, p->b->tmp,
                        p->b->ld_embd, qsf_pass_mine(job, piece), thread);
}

bool qsf_feed_forward_takes_codes(const qsf_pass *p)
{
    const qsf_matrix *m = p->w->m;
    return qsf_matrix_takes_codes(p, &m[QSF_K_FFN_UP]) || qsf_matrix_takes_codes(p, &m[QSF_K_FFN_GATE]);
}

void qsf_feed_forward_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *up = &p->w->m[QSF_K_FFN_UP], *down = &p->w->m[QSF_K_FFN_DOWN];
    qsf_pass_run(job, qsf_matrix_tiles(up), widen, &p->stats->ns_matmul);
    if (qsf_matrix_takes_codes(p, down)) qsf_pass_run(job, p->batch->n, quantize_hidden, &p->stats->ns_other);
    qsf_pass_run(job, qsf_matrix_tiles(down), narrow, &p->stats->ns_matmul);
}
