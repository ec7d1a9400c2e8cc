/* Gated delta nets (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464): queries, keys, values ->
 * convolution -> sums that decay and are corrected -> norm and gate -> output.
 * SPDX-License-Identifier: MIT
 *
 * A head's sums S [values][keys] become S * decay, then S + beta (v - S k) k; the head gives S q.
 * A row is queries and keys of all groups, values of all heads; then, each from a whole tile on,
 * the gate, beta and alpha, which may be of one matrix. */
#include "layers/delta_net.h"
#include "layers/mixer.h"

static void convolve_qkv(const qsf_pass *p, const qsf_task *t)
{
    qsf_mixer_convolve(p, p->b->mix, p->b->ld_mix, qsf_mixer_mine(t), true);
}

/* The columns at which the gate begins, and the betas. */
static uint32_t delta_gate_at(const qsf_weights *w) { return qsf_result_columns(w, QSF_K_MIX_IN); }
static uint32_t betas_at(const qsf_weights *w)
{
    return delta_gate_at(w) + qsf_result_columns(w, QSF_K_MIX_GATE);
}

/* Row r's beta of a head; *to_alpha: how far after it its alpha is.  Alphas follow all betas, or
 * the betas of the head's group if one matrix has both. */
static float *beta_of(const qsf_pass *p, size_t r, size_t head, size_t *to_alpha)
{
    const qsf_layer *l = p->layer;
    const size_t share = l->mix_heads / l->mix_groups;
    *to_alpha = l->mix_neighbours ? share : qsf_result_columns(p->w, QSF_K_MIX_BETA);
    return p->b->mix + r * p->b->ld_mix + betas_at(p->w) +
        (l->mix_neighbours ? head + head / share * share : head);
}

/* Queries and keys get length 1, and queries the scale of their products; betas become what sums
 * are corrected by, alphas what stays of them. */
static void ready_rows(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->mix_state, groups = l->mix_groups;
    const float per_key = 1 / sqrtf((float)n), eps = l->norm.eps / (float)n;
    for (size_t r = t->begin; r < t->end; r++) {
        float *x = p->b->mix + r * p->b->ld_mix;
        for (size_t g = 0; g < 2 * groups; g++) p->k->rms_norm(x + g * n, x + g * n, NULL, n, eps);
        p->k->vec_scale(x, per_key * per_key, groups * n);
        p->k->vec_scale(x + groups * n, per_key, groups * n);
        for (size_t head = 0; head < l->mix_heads; head++) {
            size_t to_alpha;
            float *beta = beta_of(p, r, head, &to_alpha), *alpha = beta + to_alpha;
            const float step = qsf_softplus(*alpha + p->w->v[QSF_K_MIX_STEP_BIAS][head]);
            *alpha = (float)exp(step * p->w->v[QSF_K_MIX_DECAY][head]);
            *beta = 1 / (1 + (float)exp(-*beta));
        }
    }
}

static void delta_gates(const qsf_pass *p, size_t r, size_t head, float *keep, float *gain)
{
    size_t to_alpha;
    const float *beta = beta_of(p, r, head, &to_alpha);
    *keep = beta[to_alpha];
    *gain = *beta;
}

static qsf_mixer_head delta_head(const qsf_pass *p, size_t head)
{
    const qsf_layer *l = p->layer;
    const size_t n = l->mix_state, groups = l->mix_groups;
    const size_t group = l->mix_neighbours ? head / (l->mix_heads / groups) : head % groups;
    const float *q = p->b->mix + group * n;
    return (qsf_mixer_head){ .k = q + groups * n, .q = q, .v = p->b->mix + 2 * groups * n + head * n,
                             .correct = true, .gates = delta_gates };
}

static void correct_heads(const qsf_pass *p, const qsf_task *t) { qsf_mixer_scan(p, t, delta_head); }

/* The norm of each head, if the model has one, then the gate. */
static void gate_heads(const qsf_pass *p, const qsf_task *t)
{
    const float *weight = p->w->v[QSF_K_MIX_NORM];
    const size_t n = p->layer->mix_inner, each = n / p->layer->mix_heads;
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->att + r * p->b->ld_q;
        float *z = p->b->mix + r * p->b->ld_mix + delta_gate_at(p->w);
        for (size_t at = 0; weight && at < n; at += each)
            p->k->rms_norm(y + at, y + at, weight, each, p->layer->norm.eps);
        p->k->silu_mul(z, z, y, n);
        memcpy(y, z, n * sizeof *y);
    }
}

void qsf_delta_net_list(const qsf_layer *l, qsf_program *g)
{
    const uint32_t gates = qsf_result_columns(g->w, QSF_K_MIX_BETA) +
        qsf_result_columns(g->w, QSF_K_MIX_ALPHA);
    qsf_mixer_list_in(g);
    qsf_mixer_list_columns(g, QSF_WORK_CONVOLVE, qsf_mixer_view(l->mix_channels, 0), convolve_qkv);
    qsf_mixer_list_rows(g, QSF_WORK_NORM, qsf_mixer_view(2 * l->mix_groups * l->mix_state, 0),
                        qsf_mixer_view(gates, betas_at(g->w)), ready_rows);
    qsf_mixer_list_scan(l, g, correct_heads);
    qsf_mixer_list_rows(g, QSF_WORK_ACTIVATE, qsf_mixer_result(l),
                        qsf_mixer_view(l->mix_inner, delta_gate_at(g->w)), gate_heads);
    qsf_mixer_list_out(l, g);
}
