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

static bool has_heads(const qsf_pass *p) { return p->layer->mixer == QSF_MIXER_PLAMO; }

/* What x is narrowed to; in it the steps' columns; and B, which C follows. */
static float *narrow_row(const qsf_pass *p, size_t r)
{
    return p->b->mix + r * p->b->ld_mix + qsf_mixer_columns(p, QSF_K_MIX_IN)
        + qsf_mixer_columns(p, QSF_K_MIX_GATE);
}
static float *steps_row(const qsf_pass *p, size_t r)
{
    return narrow_row(p, r) + (has_heads(p) ? 2 * p->layer->mix_state : 0);
}
static float *write_row(const qsf_pass *p, size_t r)
{
    return narrow_row(p, r) + (has_heads(p) ? 0 : p->layer->mix_rank);
}

/* Of heads, what the steps are widened to. */
static float *heads_row(const qsf_pass *p, size_t r)
{
    return narrow_row(p, r) + qsf_mixer_columns(p, QSF_K_MIX_X);
}

static void convolve_x(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    (void)thread;
    qsf_mixer_convolve(p, p->b->mix, p->b->ld_mix, qsf_mixer_mine(job, piece, p->layer->mix_channels), true);
}

/* ---- steps, B and C ---- */

static qsf_matrix_in columns_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->mix, p->b->ld_mix, p->layer->mix_inner, 0, p->batch->n);
}

static qsf_matrix_in steps_in(const qsf_pass *p)
{
    return qsf_matrix_input(p, steps_row(p, 0), p->b->ld_mix, p->layer->mix_rank, 0, p->batch->n);
}

static void make_column_codes(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = columns_in(job->p);
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
}

static void narrow_columns(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = columns_in(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_MIX_X], NULL, &in, narrow_row(p, 0), p->b->ld_mix,
                        qsf_pass_mine(job, piece), thread);
}

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

static bool has_norms(const qsf_pass *p) { return p->layer->mix_norms || has_heads(p); }

/* Norms of the three, if the model has them, and the steps' codes. */
static void ready_steps(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t rank = p->layer->mix_rank, n = p->layer->mix_state;
    const qsf_matrix_in in = steps_in(p);
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; has_norms(p) && r < rows.end; r++) {
        norm_part(p, steps_row(p, r), rank, QSF_K_MIX_STEP_NORM);
        norm_part(p, write_row(p, r), n, QSF_K_MIX_WRITE_NORM);
        norm_part(p, write_row(p, r) + n, n, QSF_K_MIX_READ_NORM);
    }
    if (qsf_matrix_takes_codes(p, &p->w->m[QSF_K_MIX_STEP])) qsf_matrix_quantize(p, &in, rows);
}

static void widen_steps(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = steps_in(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_MIX_STEP], p->w->v[QSF_K_MIX_STEP_BIAS], &in,
                        has_heads(p) ? heads_row(p, 0) : p->b->att,
                        has_heads(p) ? p->b->ld_mix : p->b->ld_q, qsf_pass_mine(job, piece), thread);
}

/* ---- the sums ---- */

/* Columns of all rows, whose steps are in att: what they give takes their place. */
static void scan_columns(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_layer *l = p->layer;
    const qsf_range mine = qsf_mixer_mine(job, piece, l->mix_inner);
    const size_t first = mine.begin, len = mine.end - first, n = l->mix_state;
    const size_t at = (size_t)(l->mix_conv - 1) * l->mix_channels + first * n;
    qsf_scan s = { .ld = p->b->ld_mix, .ld_y = p->b->ld_q, .n = n };
    (void)thread;
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

static void scan_plamo(void *arg, uint32_t thread, uint32_t piece)
{
    (void)thread;
    qsf_mixer_scan_piece(arg, piece, plamo_head);
}

static void gate_columns(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->layer->mix_inner, behind = has_heads(p) ? qsf_mixer_columns(p, QSF_K_MIX_IN) : n;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *y = p->b->att + r * p->b->ld_q, *z = p->b->mix + r * p->b->ld_mix + behind;
        p->k->silu_mul(z, z, y, n);
        memcpy(y, z, n * sizeof *y);
    }
}

void qsf_mamba_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *narrow = &p->w->m[QSF_K_MIX_X], *widen = &p->w->m[QSF_K_MIX_STEP];
    const uint32_t n = p->batch->n;
    qsf_mixer_in(job);
    qsf_pass_run(job, QSF_OP_MIX, qsf_mixer_items(p->layer->mix_channels), convolve_x);
    if (qsf_matrix_takes_codes(p, narrow)) qsf_pass_run(job, QSF_OP_MIX_CODES, n, make_column_codes);
    qsf_pass_watch(p, QSF_K_MIX_X, p->b->mix, p->b->ld_mix, p->layer->mix_inner, 0, n);
    qsf_pass_run(job, QSF_OP_MIX_X, qsf_matrix_tiles(narrow), narrow_columns);
    if (has_norms(p) || qsf_matrix_takes_codes(p, widen))
        qsf_pass_run(job, QSF_OP_MIX_CODES, n, ready_steps);
    qsf_pass_watch(p, QSF_K_MIX_STEP, steps_row(p, 0), p->b->ld_mix, p->layer->mix_rank, 0, n);
    qsf_pass_run(job, QSF_OP_MIX_STEP, qsf_matrix_tiles(widen), widen_steps);
    if (has_heads(p)) qsf_mixer_scan(job, scan_plamo);
    else qsf_pass_run(job, QSF_OP_MIX, qsf_mixer_items(p->layer->mix_inner), scan_columns);
    qsf_pass_run(job, QSF_OP_MIX, n, gate_columns);
    qsf_mixer_out(job);
}
