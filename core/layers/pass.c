/* What all parts of a pass share: norms, angles, operations.
 * SPDX-License-Identifier: MIT */
#include "layers/matrix.h"

static void norm_bare(float *y, const float *x, size_t n, float eps)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    const double f = 1 / sqrt(squares / (double)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * f);
}

void qsf_pass_norm(const qsf_pass *p, qsf_norm norm, float *y, const float *x, const float *weight,
                   const float *bias, size_t n)
{
    if (norm.kind == QSF_NORM_RMS) {
        p->k->rms_norm(y, x, weight, n, norm.eps);
        if (bias) p->k->vec_add(y, y, bias, n);
    } else if (norm.kind == QSF_NORM_BARE) norm_bare(y, x, n, norm.eps);
    else p->k->layer_norm(y, x, weight, bias, n, norm.eps);
}

void qsf_pass_angles(const qsf_pass *p, uint32_t r)
{
    for (uint32_t i = 0; i < p->cpu->n_ropes; i++) {
        const qsf_rope *t = &p->cpu->ropes[i];
        const size_t at = (size_t)r * t->half;
        qsf_rope_angles(t, p->batch->rows[r].pos, t->cos + at, t->sin + at);
    }
}

void qsf_pass_give(const qsf_pass *p, uint32_t kind, const float *x, size_t ld, size_t cols, uint32_t first,
                   uint32_t n)
{
    const qsf_watched w = { .layer = p->number, .kind = kind, .x = x, .ld = ld, .cols = (uint32_t)cols,
                            .n = n, .rows = p->batch->rows + first, .k = p->k, .pool = p->cpu->pool };
    p->cpu->watch->fn(p->cpu->watch->user, &w);
}

static uint64_t pass_account(const qsf_pass *p, qsf_op_run *run)
{
    const uint64_t now = qsf_now(p->cpu->platform);
    qsf_account_op(p->cpu->account, run->op, now - run->begin);
    if (run->tiles)
        run->products[0].rows = QSF_TILE_ROWS * atomic_load_explicit(run->tiles, memory_order_relaxed);
    for (uint32_t i = 0; i < run->n_products; i++) {
        qsf_product *product = &run->products[i];
        product->kernel = qsf_matrix_kernel(p, product->m, product->n);
        qsf_account_product(p->cpu->account, product);
    }
    if (!qsf_pass_recorder(p)) return now;
    qsf_record_op(qsf_pass_recorder(p), run, p->number, p->batch->n, now);
    return qsf_now(p->cpu->platform);        /* writing records counts for no operation */
}

uint64_t qsf_pass_share(const qsf_pass *p, qsf_op_run *run)
{
    if (qsf_pass_recorder(p)) qsf_record_pool(qsf_pass_recorder(p), p->cpu->pool, run);
    else qsf_pool_run(p->cpu->pool, run->n_pieces, run->size, run->fn, run->arg);
    return pass_account(p, run);
}

uint64_t qsf_pass_alone(const qsf_pass *p, qsf_op op, uint64_t begin)
{
    qsf_op_run run = { .op = op, .begin = begin };
    if (qsf_pass_recorder(p)) qsf_record_none(qsf_pass_recorder(p));
    return pass_account(p, &run);
}
