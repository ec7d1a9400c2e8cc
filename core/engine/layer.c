/* A layer: mixer and feed-forward, each between a norm and the residual stream.
 * SPDX-License-Identifier: MIT
 *
 *   x -> norm -> mixer -> + x
 *   x -> norm -> feed-forward -> + x */
#include "engine/layer.h"
#include "engine/attention.h"
#include "engine/feed_forward.h"
#include "engine/matrix.h"

qsf_layer qsf_layer_of(const qsf_hparams *hp, uint32_t i)
{
    const uint32_t every = hp->window_pattern;
    const bool windowed = hp->window && (every == 0 || i % every != every - 1);
    return (qsf_layer){
        .index = i,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .n_ff = hp->n_ff,
        .window = windowed ? hp->window : 0,
        .rope = hp->rope_base_local > 0 && windowed,
        .attn_scale = hp->attn_scale > 0 ? hp->attn_scale : 1 / sqrtf((float)hp->head_dim),
    };
}

/* Attention keeps keys and values only. */
size_t qsf_layer_state_bytes(const qsf_layer *l)
{
    (void)l;
    return 0;
}

static float *row_of(const qsf_pass *p, float *x, size_t row) { return x + row * p->b->ld_embd; }

/* The rows' codes of what follows the norm. */
static void quantize_normed(const qsf_pass *p, qsf_range rows)
{
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    qsf_matrix_quantize(p, &in, rows);
}

/* x += tmp, through the post norm where the model has one. */
static void add_residual(const qsf_pass *p, size_t row, const float *post_norm)
{
    float *x = row_of(p, p->b->x, row), *t = row_of(p, p->b->tmp, row);
    if (post_norm) qsf_pass_norm(p, t, t, post_norm, NULL, p->hp->n_embd);
    p->k->vec_add(x, x, t, p->hp->n_embd);
}

static void norm_for_mixer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const float *const *v = p->w->v;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++)
        qsf_pass_norm(p, row_of(p, p->b->xn, r), row_of(p, p->b->x, r), v[QSF_K_ATTN_NORM],
                      v[QSF_K_ATTN_NORM_BIAS], p->hp->n_embd);
    if (qsf_attention_takes_codes(p)) quantize_normed(p, rows);
}

static void norm_for_feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const float *const *v = p->w->v;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(p, r, v[QSF_K_ATTN_POST_NORM]);
        qsf_pass_norm(p, row_of(p, p->b->xn, r), row_of(p, p->b->x, r), v[QSF_K_FFN_NORM],
                      v[QSF_K_FFN_NORM_BIAS], p->hp->n_embd);
    }
    if (qsf_feed_forward_takes_codes(p)) quantize_normed(p, rows);
}

static void leave_layer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(p, r, p->w->v[QSF_K_FFN_POST_NORM]);
        if (!qsf_all_finite(row_of(p, p->b->x, r), p->hp->n_embd))
            atomic_store_explicit(p->not_finite, true, memory_order_relaxed);
    }
}

void qsf_layer_compute(const qsf_pass *p)
{
    qsf_pass_job job = qsf_pass_begin(p);
    qsf_pass_run(&job, p->batch->n, norm_for_mixer, &p->stats->ns_other);
    qsf_attention_run(&job);
    qsf_pass_run(&job, p->batch->n, norm_for_feed_forward, &p->stats->ns_other);
    qsf_feed_forward_run(&job);
    qsf_pass_run(&job, p->batch->n, leave_layer, &p->stats->ns_other);
}
