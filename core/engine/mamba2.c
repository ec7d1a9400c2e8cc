/* Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): z, x, B, C, steps -> convolution of x, B, C ->
 * sums that decay -> gate and norm -> output.
 * SPDX-License-Identifier: MIT
 *
 * A head's sums S [columns][state] become S * exp(step * decay) + step * x B; the head gives S C
 * and a part of x. */
#include "engine/mamba2.h"
#include "engine/mixer.h"

/* Behind z, which the row begins with. */
static float *convolved(const qsf_pass *p, size_t r)
{
    return p->b->mix + r * p->b->ld_mix + p->layer->mix_inner;
}

static void convolve_all(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    (void)thread;
    qsf_mixer_convolve_rows(job->p, convolved(job->p, 0), qsf_pass_mine(job, piece));
}

/* One head of one row. */
static void scan_head(const qsf_pass *p, size_t r, size_t head)
{
    const qsf_layer *l = p->layer;
    const size_t cols = l->mix_inner / l->mix_heads, n = l->mix_state;
    const size_t group = head / (l->mix_heads / l->mix_groups);
    const float *x = convolved(p, r), *b = x + l->mix_inner + group * n, *c = b + l->mix_groups * n;
    const float step = qsf_softplus(x[l->mix_channels + head] + p->w->v[QSF_K_MIX_STEP_BIAS][head]);
    const float keep = (float)exp(step * p->w->v[QSF_K_MIX_DECAY][head]);
    const float skip = p->w->v[QSF_K_MIX_SKIP][head];
    const size_t at = (size_t)(l->mix_conv - 1) * l->mix_channels + head * cols * n;
    const float *before = qsf_mixer_before(p, r) + at;
    float *after = qsf_mixer_after(p, r) + at, *y = p->b->att + r * p->b->ld_q + head * cols;
    x += head * cols;
    for (size_t i = 0; i < cols; i++) {
        const float in = x[i] * step;
        float sum = 0;
        for (size_t k = 0; k < n; k++) {
            const float s = before[i * n + k] * keep + in * b[k];
            after[i * n + k] = s;
            sum += s * c[k];
        }
        y[i] = sum + x[i] * skip;
    }
}

static void scan_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_range mine = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t head = mine.begin; head < mine.end; head++)
        for (size_t r = 0; r < job->p->batch->n; r++) scan_head(job->p, r, head);
}

/* The gate, then the norm of each group, where the model has one. */
static void gate_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const float *weight = p->w->v[QSF_K_MIX_NORM];
    const size_t n = p->layer->mix_inner, each = n / p->layer->mix_groups;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *y = p->b->att + r * p->b->ld_q, *z = p->b->mix + r * p->b->ld_mix;
        p->k->silu_mul(z, z, y, n);
        if (!weight) memcpy(y, z, n * sizeof *y);
        for (size_t at = 0; weight && at < n; at += each)
            p->k->rms_norm(y + at, z + at, weight + at, each, p->layer->norm.eps);
    }
}

void qsf_mamba2_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_mixer_in(job);
    qsf_pass_run(job, QSF_OP_MIX, p->layer->mix_channels, convolve_all);
    qsf_pass_run(job, QSF_OP_MIX, p->layer->mix_heads, scan_heads);
    qsf_pass_run(job, QSF_OP_MIX, p->batch->n, gate_rows);
    qsf_mixer_out(job);
}
