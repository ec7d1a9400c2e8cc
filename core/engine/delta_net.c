/* Gated delta nets (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464): queries, keys, values ->
 * convolution -> sums that decay and are corrected -> norm and gate -> output.
 * SPDX-License-Identifier: MIT
 *
 * A head's sums S [values][keys] become S * decay, then S + beta (v - S k) k; the head gives S q.
 * A row is queries and keys of all groups, values of all heads; then, each from a whole tile on,
 * the gate, beta and alpha, which may be of one matrix. */
#include "engine/delta_net.h"
#include "engine/mixer.h"

static void convolve_qkv(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    (void)thread;
    qsf_mixer_convolve_rows(job->p, job->p->b->mix, qsf_pass_mine(job, piece));
}

/* Queries and keys get length 1, and queries the scale of their products. */
static void norm_groups(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->layer->mix_state, groups = p->layer->mix_groups;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++)
        for (size_t g = 0; g < 2 * groups; g++) {
            float *x = p->b->mix + r * p->b->ld_mix + g * n;
            double sum = p->layer->norm.eps;
            for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
            p->k->vec_scale(x, (float)(1 / sqrt(g < groups ? sum * (double)n : sum)), n);
        }
}

/* One head of one row. */
static void correct_head(const qsf_pass *p, size_t r, size_t head)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->mix_state, groups = l->mix_groups, share = l->mix_heads / groups;
    const size_t group = l->mix_neighbours ? head / share : head % groups;
    const float *row = p->b->mix + r * p->b->ld_mix, *q = row + group * n, *k = q + groups * n;
    const float *v = row + 2 * groups * n + head * n;
    const float *betas = row + qsf_mixer_columns(p, QSF_K_MIX_IN) + qsf_mixer_columns(p, QSF_K_MIX_GATE);
    /* a group's betas, then its alphas, where one matrix has both */
    const size_t at_beta = l->mix_neighbours ? head + group * share : head;
    const size_t to_alpha = l->mix_neighbours ? share : qsf_mixer_columns(p, QSF_K_MIX_BETA);
    const float step = qsf_softplus(betas[at_beta + to_alpha] + p->w->v[QSF_K_MIX_STEP_BIAS][head]);
    const float keep = (float)exp(step * p->w->v[QSF_K_MIX_DECAY][head]);
    const float beta = 1 / (1 + (float)exp(-betas[at_beta]));
    const size_t at = (size_t)(l->mix_conv - 1) * l->mix_channels + head * n * n;
    const float *before = qsf_mixer_before(p, r) + at;
    float *after = qsf_mixer_after(p, r) + at, *y = p->b->att + r * p->b->ld_q + head * n;
    for (size_t i = 0; i < n; i++, before += n, after += n) {
        float known = 0, sum = 0;
        for (size_t j = 0; j < n; j++) {
            after[j] = before[j] * keep;
            known += after[j] * k[j];
        }
        const float more = beta * (v[i] - known);
        for (size_t j = 0; j < n; j++) {
            after[j] += more * k[j];
            sum += after[j] * q[j];
        }
        y[i] = sum;
    }
}

static void correct_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_range mine = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t head = mine.begin; head < mine.end; head++)
        for (size_t r = 0; r < job->p->batch->n; r++) correct_head(job->p, r, head);
}

/* The norm of each head, where the model has one, then the gate. */
static void gate_heads(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const float *weight = p->w->v[QSF_K_MIX_NORM];
    const size_t n = p->layer->mix_inner, each = n / p->layer->mix_heads;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *y = p->b->att + r * p->b->ld_q;
        float *z = p->b->mix + r * p->b->ld_mix + qsf_mixer_columns(p, QSF_K_MIX_IN);
        for (size_t at = 0; weight && at < n; at += each)
            p->k->rms_norm(y + at, y + at, weight, each, p->layer->norm.eps);
        p->k->silu_mul(z, z, y, n);
        memcpy(y, z, n * sizeof *y);
    }
}

void qsf_delta_net_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    qsf_mixer_in(job);
    qsf_pass_run(job, QSF_OP_MIX, p->layer->mix_channels, convolve_qkv);
    qsf_pass_run(job, QSF_OP_MIX, p->batch->n, norm_groups);
    qsf_pass_run(job, QSF_OP_MIX, p->layer->mix_heads, correct_heads);
    qsf_pass_run(job, QSF_OP_MIX, p->batch->n, gate_heads);
    qsf_mixer_out(job);
}
