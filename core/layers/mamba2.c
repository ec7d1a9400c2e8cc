/* Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): z, x, B, C, steps -> convolution of x, B, C ->
 * sums that decay -> gate and norm -> output.
 * SPDX-License-Identifier: MIT
 *
 * A head's sums S [columns][state] become S * exp(step * decay) + step * x B; the head gives S C
 * and a part of x. */
#include "layers/mamba2.h"
#include "layers/mixer.h"

/* The row after z, with which it begins. */
static float *convolved(const qsf_pass *p, size_t r)
{
    return p->b->mix + r * p->b->ld_mix + p->layer->mix_inner;
}

static void convolve_all(const qsf_pass *p, const qsf_task *t)
{
    qsf_mixer_convolve(p, convolved(p, 0), p->b->ld_mix, qsf_mixer_mine(t), true);
}

static void step_gates(const qsf_pass *p, size_t r, size_t head, float *keep, float *gain)
{
    const float *steps = convolved(p, r) + p->layer->mix_channels;
    *gain = qsf_softplus(steps[head] + p->w->v[QSF_K_MIX_STEP_BIAS][head]);
    *keep = (float)exp(*gain * p->w->v[QSF_K_MIX_DECAY][head]);
}

static qsf_mixer_head mamba2_head(const qsf_pass *p, size_t head)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->mix_state, group = head / (l->mix_heads / l->mix_groups);
    const float *x = convolved(p, 0), *b = x + l->mix_inner + group * n;
    return (qsf_mixer_head){ .k = b, .q = b + l->mix_groups * n,
                             .v = x + head * (l->mix_inner / l->mix_heads),
                             .skip = p->w->v[QSF_K_MIX_SKIP][head], .gates = step_gates };
}

static void scan_heads(const qsf_pass *p, const qsf_task *t) { qsf_mixer_scan(p, t, mamba2_head); }

/* The gate, then the norm of each group, if the model has one. */
static void gate_rows(const qsf_pass *p, const qsf_task *t)
{
    const float *weight = p->w->v[QSF_K_MIX_NORM];
    const size_t n = p->layer->mix_inner, each = n / p->layer->mix_groups;
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->att + r * p->b->ld_q, *z = p->b->mix + r * p->b->ld_mix;
        p->k->silu_mul(z, z, y, n);
        if (!weight) memcpy(y, z, n * sizeof *y);
        for (size_t at = 0; weight && at < n; at += each)
            p->k->rms_norm(y + at, z + at, weight + at, each, p->layer->norm.eps);
    }
}

void qsf_mamba2_list(const qsf_layer *l, qsf_program *g)
{
    qsf_mixer_list_in(g);
    qsf_mixer_list_columns(g, QSF_WORK_CONVOLVE, qsf_mixer_view(l->mix_channels, l->mix_inner), convolve_all);
    qsf_mixer_list_scan(l, g, scan_heads);
    qsf_mixer_list_rows(g, QSF_WORK_ACTIVATE, qsf_mixer_result(l), qsf_mixer_view(l->mix_inner, 0),
                        gate_rows);
    qsf_mixer_list_out(l, g);
}
