/* What all parts of a pass share: norms, angles, jobs.
 * SPDX-License-Identifier: MIT */
#include "engine/pass.h"

void qsf_pass_norm(const qsf_pass *p, qsf_norm norm, float *y, const float *x, const float *weight,
                   const float *bias, size_t n)
{
    if (norm.kind == QSF_NORM_RMS) p->k->rms_norm(y, x, weight, n, norm.eps);
    else p->k->layer_norm(y, x, weight, bias, n, norm.eps);
}

void qsf_pass_angles(const qsf_pass *p, uint32_t r)
{
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        const qsf_rope *t = &p->ropes[i];
        const size_t at = (size_t)r * t->half;
        qsf_rope_angles(t, p->batch->rows[r].pos, t->cos + at, t->sin + at);
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
