/* Mamba-1 (Gu and Dao 2023, arXiv:2312.00752): x, z -> convolution of x -> steps, B, C of x -> sums
 * that decay -> gate -> output.
 * SPDX-License-Identifier: MIT
 *
 * A column's sums S [state] become S * exp(step * decay) + step * x B; the column gives S C and a
 * part of x.  A row is x and z; then, from a whole tile on, the steps' few columns, B and C.
 * PLaMo 2 has heads, whose columns share a step and a decay as in Mamba-2: its row is x; z; B, C
 * and the steps' few columns; steps, each from a whole tile on. */
#include "layers/mamba.h"
#include "layers/mixer.h"
#include "layers/product.h"

static bool has_heads(const qsf_layer *l) { return l->mixer == QSF_MIXER_PLAMO; }

/* The columns at which z begins; what x is narrowed to; in it the steps' columns. */
static uint32_t z_at(const qsf_layer *l, const qsf_weights *w)
{
    return has_heads(l) ? qsf_result_columns(w, QSF_K_MIX_IN) : l->mix_inner;
}
static uint32_t narrow_at(const qsf_weights *w)
{
    return qsf_result_columns(w, QSF_K_MIX_IN) + qsf_result_columns(w, QSF_K_MIX_GATE);
}
static uint32_t steps_at(const qsf_layer *l, const qsf_weights *w)
{
    return narrow_at(w) + (has_heads(l) ? 2 * l->mix_state : 0);
}
static float *steps_row(const qsf_pass *p, size_t r)
{
    return p->b->mix + r * p->b->ld_mix + steps_at(p->layer, p->w);
}
/* B, which C follows. */
static float *write_row(const qsf_pass *p, size_t r)
{
    const uint32_t at = narrow_at(p->w) + (has_heads(p->layer) ? 0 : p->layer->mix_rank);
    return p->b->mix + r * p->b->ld_mix + at;
}

/* Of heads, what the steps are widened to. */
static uint32_t heads_at(const qsf_weights *w) { return narrow_at(w) + qsf_result_columns(w, QSF_K_MIX_X); }
static float *heads_row(const qsf_pass *p, size_t r)
{
    return p->b->mix + r * p->b->ld_mix + heads_at(p->w);
}

static void convolve_x(const qsf_pass *p, const qsf_task *t)
{
    qsf_mixer_convolve(p, p->b->mix, p->b->ld_mix, qsf_mixer_mine(t), true);
}

/* ---- steps, B and C ---- */

static void norm_part(const qsf_pass *p, float *x, size_t n, uint32_t weight)
{
    double sum = 0;
    if (p->w->v[weight]) {
        p->k->rms_norm(x, x, p->w->v[weight], n, p->layer->norm.eps);
        return;
    }
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    p->k->vec_scale(x, (float)(1 / sqrt(sum / (double)n + p->layer->norm.eps)), n);
}

/* Norms of the three. */
static void norm_parts(const qsf_pass *p, const qsf_task *t)
{
    const size_t rank = p->layer->mix_rank, n = p->layer->mix_state;
    for (size_t r = t->begin; r < t->end; r++) {
        norm_part(p, steps_row(p, r), rank, QSF_K_MIX_STEP_NORM);
        norm_part(p, write_row(p, r), n, QSF_K_MIX_WRITE_NORM);
        norm_part(p, write_row(p, r) + n, n, QSF_K_MIX_READ_NORM);
    }
}

/* ---- the sums ---- */

/* Columns of all rows, whose steps are in att: what they give takes their place. */
static void scan_columns(const qsf_pass *p, const qsf_task *t)
{
    const qsf_layer *l = p->layer;
    const qsf_range mine = qsf_mixer_mine(t);
    const size_t first = mine.begin, len = mine.end - first, n = l->mix_state;
    const size_t at = (size_t)(l->mix_conv - 1) * l->mix_channels + first * n;
    qsf_scan s = { .ld = p->b->ld_mix, .ld_y = p->b->ld_q, .n = n };
    for (size_t r = 0; r < p->batch->n; r += s.tokens) {
        s.tokens = qsf_mixer_run(p, r);
        s.k = write_row(p, r);
        s.q = s.k + n;
        s.v = p->b->mix + r * s.ld + first;
        s.y = p->b->att + r * s.ld_y + first;
        for (size_t t = 0; t < s.tokens; t++) p->k->softplus_inplace(s.y + t * s.ld_y, len);
        p->k->scan_steps(qsf_mixer_after(p, r) + at, qsf_mixer_before(p, r) + at, len,
                         p->w->v[QSF_K_MIX_DECAY] + first * n, p->w->v[QSF_K_MIX_SKIP] + first, &s);
    }
}

/* A head's step, the softplus of the matrix's output, and its decay. */
static void narrow_gates(const qsf_pass *p, size_t r, size_t head, float *keep, float *gain)
{
    *gain = qsf_softplus(heads_row(p, r)[head]);
    *keep = (float)exp(*gain * p->w->v[QSF_K_MIX_DECAY][head]);
}

static qsf_mixer_head plamo_head(const qsf_pass *p, size_t head)
{
    const qsf_layer *l = p->layer;
    return (qsf_mixer_head){ .k = write_row(p, 0), .q = write_row(p, 0) + l->mix_state,
                             .v = p->b->mix + head * (l->mix_inner / l->mix_heads),
                             .skip = p->w->v[QSF_K_MIX_SKIP][head], .gates = narrow_gates };
}

static void scan_plamo(const qsf_pass *p, const qsf_task *t) { qsf_mixer_scan(p, t, plamo_head); }

static void gate_columns(const qsf_pass *p, const qsf_task *t)
{
    const size_t n = p->layer->mix_inner, at = z_at(p->layer, p->w);
    for (size_t r = t->begin; r < t->end; r++) {
        float *y = p->b->att + r * p->b->ld_q, *z = p->b->mix + r * p->b->ld_mix + at;
        p->k->silu_mul(z, z, y, n);
        memcpy(y, z, n * sizeof *y);
    }
}

void qsf_mamba_list(const qsf_layer *l, qsf_program *g)
{
    const bool heads = has_heads(l);
    const qsf_view steps = heads ? qsf_mixer_view(0, heads_at(g->w)) : qsf_mixer_result(l);
    qsf_mixer_list_in(g);
    qsf_mixer_list_columns(g, QSF_WORK_CONVOLVE, qsf_mixer_view(l->mix_channels, 0), convolve_x);
    QSF_ADD(g, .op = QSF_OP_MIX_X, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_mixer_view(l->mix_inner, 0), .codes = QSF_OP_MIX_CODES, .watch = 1 + QSF_K_MIX_X,
            .n = 1, .kinds = { QSF_K_MIX_X }, .to = { qsf_mixer_view(0, narrow_at(g->w)) },
            .fn = qsf_product_row);
    if (heads || l->mix_norms)
        QSF_ADD(g, .op = QSF_OP_MIX_CODES, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS,
                .to = { qsf_mixer_view(l->mix_rank + 2 * l->mix_state, narrow_at(g->w)) }, .fn = norm_parts);
    QSF_ADD(g, .op = QSF_OP_MIX_STEP, .work = QSF_WORK_PRODUCT, .over = QSF_OVER_TILES,
            .in = qsf_mixer_view(l->mix_rank, steps_at(l, g->w)), .codes = QSF_OP_MIX_CODES,
            .watch = 1 + QSF_K_MIX_STEP, .n = 1, .kinds = { QSF_K_MIX_STEP }, .bias = { QSF_K_MIX_STEP_BIAS },
            .to = { steps }, .fn = qsf_product_row);
    if (heads) qsf_mixer_list_scan(l, g, scan_plamo);
    else qsf_mixer_list_columns(g, QSF_WORK_SCAN, qsf_mixer_result(l), scan_columns);
    qsf_mixer_list_rows(g, QSF_WORK_ACTIVATE, qsf_mixer_result(l),
                        qsf_mixer_view(l->mix_inner, z_at(l, g->w)), gate_columns);
    qsf_mixer_list_out(l, g);
}
