/* What all parts of a pass share: norms, angles, jobs.
 * SPDX-License-Identifier: MIT */
#include "engine/pass.h"

void qsf_pass_norm(const qsf_pass *p, float *y, const float *x, const float *weight, const float *bias,
                   size_t n)
{
    if (p->hp->norm == QSF_NORM_RMS) p->k->rms_norm(y, x, weight, n, p->hp->norm_eps);
    else p->k->layer_norm(y, x, weight, bias, n, p->hp->norm_eps);
}

void qsf_pass_angles(const qsf_pass *p, uint32_t r)
{
    for (int i = 0; i < 2 && p->hp->rope != QSF_ROPE_NONE; i++) {
        const size_t half = p->rope[i].half;
        qsf_rope_angles(&p->rope[i], p->batch->rows[r].pos, p->b->cos[i] + r * half, p->b->sin[i] + r * half);
    }
}

qsf_pass_job qsf_pass_begin(const qsf_pass *p)
{
    return (qsf_pass_job){ .p = p, .clock = qsf_now(p->platform) };
}

void qsf_pass_run(qsf_pass_job *job, size_t items, void (*fn)(void *job, uint32_t thread, uint32_t piece),
                  uint64_t *account)
{
    const qsf_pass *p = job->p;
    const uint32_t n = p->batch->n, most = 4 * qsf_pool_pieces(p->pool, items);
    job->items = items;
    job->n_pieces = qsf_pool_pieces(p->pool, items);
    if (n > QSF_ATTENTION_ROWS)         /* a piece of a prompt is long */
        job->n_pieces = (uint32_t)QSF_MIN(QSF_MIN(most, items), QSF_POOL_PIECES);
    qsf_pool_run(p->pool, job->n_pieces, n, fn, job);
    const uint64_t now = qsf_now(p->platform);
    *account += now - job->clock;
    job->clock = now;
}
