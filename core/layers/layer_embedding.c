/* Per-layer embeddings (Gemma 3n and 4): a layer's input for a token in addition to the residual
 * stream, the sum of a row of its own table and a projection of the token's embedding.
 * SPDX-License-Identifier: MIT
 *
 *   embedding -> matrix -> norm -> + table's row -> * act(gate of x) -> matrix -> norm -> + x */
#include "layers/layer_embedding.h"
#include "layers/altup.h"
#include "layers/matrix.h"

static qsf_matrix_in layer_input(const qsf_pass *p, const float *x)
{
    return qsf_matrix_input(p, x, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
}
/* What the gate is made of. */
static const float *gate_input(const qsf_pass *p) { return p->layer->altup ? p->b->xn : p->b->x; }
static qsf_matrix_in gated_rows(const qsf_pass *p)
{
    return qsf_matrix_input(p, p->b->gate, p->b->ld_ff, p->layer->n_embd_layer, 0, p->batch->n);
}

/* Only one buffer of codes exists: the embedding's are used before the stream's are made. */
static void quantize_x0(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = layer_input(job->p, job->p->b->x0);
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
}
static void quantize_x(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_matrix_in in = layer_input(job->p, gate_input(job->p));
    (void)thread;
    qsf_matrix_quantize(job->p, &in, qsf_pass_mine(job, piece));
}

static void project_x0(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = layer_input(p, p->b->x0);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_LAYER_EMBD], NULL, &in, p->b->up, p->b->ld_ff,
                        qsf_pass_mine(job, piece), thread);
}
static void gate_x(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = layer_input(p, gate_input(p));
    qsf_matrix_multiply(p, &p->w->m[QSF_K_LAYER_GATE], NULL, &in, p->b->gate, p->b->ld_ff,
                        qsf_pass_mine(job, piece), thread);
}

/* gate = act(gate) * (norm(up) + the token's row) / sqrt(2) */
static void join_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->layer->n_embd_layer;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const qsf_matrix_in in = gated_rows(p);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *up = p->b->up + r * p->b->ld_ff, *gate = p->b->gate + r * p->b->ld_ff;
        const float *row = p->b->table + r * p->b->ld_table + (size_t)p->number * n;
        p->k->vec_scale(up, 1 / sqrtf((float)p->hp->n_embd), n);
        qsf_pass_norm(p, p->layer->norm, up, up, p->w->v[QSF_K_LAYER_EMBD_NORM], NULL, n);
        p->k->vec_add(up, up, row, n);
        p->k->vec_scale(up, 1 / sqrtf(2), n);
        p->k->gelu_mul(gate, gate, up, n);
    }
    if (qsf_matrix_takes_codes(p, &p->w->m[QSF_K_LAYER_OUT])) qsf_matrix_quantize(p, &in, rows);
}

static void widen_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_matrix_in in = gated_rows(p);
    qsf_matrix_multiply(p, &p->w->m[QSF_K_LAYER_OUT], NULL, &in, p->b->tmp, p->b->ld_embd,
                        qsf_pass_mine(job, piece), thread);
}

static void add_rows(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const size_t n = p->hp->n_embd;
    const float *scale = p->w->v[QSF_K_LAYER_SCALE];
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        float *x = p->b->x + r * p->b->ld_embd, *t = p->b->tmp + r * p->b->ld_embd;
        qsf_pass_norm(p, p->layer->norm, t, t, p->w->v[QSF_K_LAYER_POST_NORM], NULL, n);
        if (p->layer->altup) qsf_altup_add(p, r, t);
        else p->k->vec_add(x, x, t, n);
        if (scale) p->k->vec_scale(x, *scale, n);
        qsf_pass_check(p, x, n);
    }
}

void qsf_layer_embedding_run(qsf_pass_job *job)
{
    const qsf_pass *p = job->p;
    const qsf_matrix *embd = &p->w->m[QSF_K_LAYER_EMBD], *gate = &p->w->m[QSF_K_LAYER_GATE];
    const qsf_matrix *out = &p->w->m[QSF_K_LAYER_OUT];
    const uint32_t n = p->batch->n;
    if (qsf_matrix_takes_codes(p, embd)) qsf_pass_run(job, QSF_OP_LAYER_CODES, n, quantize_x0);
    qsf_pass_watch(p, QSF_K_LAYER_EMBD, p->b->x0, p->b->ld_embd, p->hp->n_embd, 0, n);
    qsf_pass_run(job, QSF_OP_LAYER_EMBD, qsf_matrix_tiles(embd), project_x0);
    if (qsf_matrix_takes_codes(p, gate)) qsf_pass_run(job, QSF_OP_LAYER_CODES, n, quantize_x);
    qsf_pass_watch(p, QSF_K_LAYER_GATE, gate_input(p), p->b->ld_embd, p->hp->n_embd, 0, n);
    qsf_pass_run(job, QSF_OP_LAYER_GATE, qsf_matrix_tiles(gate), gate_x);
    qsf_pass_run(job, QSF_OP_LAYER_CODES, n, join_rows);
    qsf_pass_watch(p, QSF_K_LAYER_OUT, p->b->gate, p->b->ld_ff, p->layer->n_embd_layer, 0, n);
    qsf_pass_run(job, QSF_OP_LAYER_OUT, qsf_matrix_tiles(out), widen_rows);
    qsf_pass_run(job, QSF_OP_RESIDUAL, n, add_rows);
}
