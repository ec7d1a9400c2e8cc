/* A layer: mixer and feed-forward, each between a norm and the residual stream.
 * SPDX-License-Identifier: MIT
 *
 *   x -> norm -> mixer -> + x
 *   x -> norm -> feed-forward -> + x
 *
 * Other flows norm the sums, leave out norms before the parts, or give both parts the layer's
 * input. */
#include "layers/layer.h"
#include "layers/altup.h"
#include "layers/attention.h"
#include "layers/delta_net.h"
#include "layers/feed_forward_experts.h"
#include "layers/feed_forward_gated.h"
#include "layers/feed_forward_plain.h"
#include "layers/layer_embedding.h"
#include "layers/lora.h"
#include "layers/mamba.h"
#include "layers/mamba2.h"
#include "layers/mamba2_beside.h"
#include "layers/matrix.h"
#include "layers/rwkv.h"
#include "layers/short_conv.h"

/* ---- what a layer can be made of: a new mixer or feed-forward is a file and a row ---- */

/* Computes tmp from the normed rows xn; run NULL: the layer lacks this part. */
typedef struct layer_part {
    void   (*run)(qsf_pass_job *job);
    uint8_t  n_readers, readers[5];     /* kinds of the matrices that read xn; 0: none reads it unchanged */
} layer_part;

static const layer_part layer_mixers[QSF_N_MIXERS] = {
    [QSF_MIXER_ATTENTION] = { qsf_attention_run, 5,
                              { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_Q_A, QSF_K_KV_A } },
    [QSF_MIXER_SHORT_CONV] = { qsf_short_conv_run, 1, { QSF_K_MIX_IN } },
    [QSF_MIXER_RWKV] = { qsf_rwkv_run, 0, { 0 } },
    [QSF_MIXER_MAMBA] = { qsf_mamba_run, 1, { QSF_K_MIX_IN } },
    [QSF_MIXER_PLAMO] = { qsf_mamba_run, 2, { QSF_K_MIX_IN, QSF_K_MIX_GATE } },
    [QSF_MIXER_MAMBA2] = { qsf_mamba2_run, 1, { QSF_K_MIX_IN } },
    [QSF_MIXER_MAMBA2_BESIDE] = { qsf_mamba2_beside_run, 4,
                                  { QSF_K_MIX_IN, QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V } },
    [QSF_MIXER_DELTA_NET] = { qsf_delta_net_run, 4,
                              { QSF_K_MIX_IN, QSF_K_MIX_GATE, QSF_K_MIX_BETA, QSF_K_MIX_ALPHA } },
};
static const layer_part layer_feed_forwards[QSF_N_FEED_FORWARDS] = {
    [QSF_FEED_FORWARD_PLAIN] = { qsf_feed_forward_plain_run, 1, { QSF_K_FFN_UP } },
    [QSF_FEED_FORWARD_GATED] = { qsf_feed_forward_gated_run, 2, { QSF_K_FFN_UP, QSF_K_FFN_GATE } },
    [QSF_FEED_FORWARD_SHIFTED] = { qsf_rwkv_feed_forward_run, 0, { 0 } },
    [QSF_FEED_FORWARD_EXPERTS] = { qsf_feed_forward_experts_run, 5,
                                   { QSF_K_ROUTER, QSF_K_EXPERT_UP, QSF_K_EXPERT_GATE, QSF_K_FFN_UP,
                                     QSF_K_FFN_GATE } },
};

qsf_status qsf_layers_check(const qsf_source *s, qsf_error *err)
{
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        const qsf_layer *l = &s->layers[i];
        if (l->value_dim != l->head_dim)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has keys of %u but values of %u, which "
                            "this version cannot run", s->path, (unsigned)i, (unsigned)l->head_dim,
                            (unsigned)l->value_dim);
        /* The records of the KV cache are all of one size; shorter heads only where a model is
         * known to have them. */
        if (l->head_dim != s->most.head_dim && !s->hp.head_dim_local)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has heads of %u, others of %u, which this "
                            "version cannot run", s->path, (unsigned)i, (unsigned)l->head_dim,
                            (unsigned)s->most.head_dim);
        const qsf_layer *from = l->kv_from ? &s->layers[l->kv_from - 1] : l;
        if (from->n_kv_heads != l->n_kv_heads || from->head_dim != l->head_dim || from->kv_from)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u reads keys of layer %u, whose heads differ",
                            s->path, (unsigned)i, (unsigned)l->kv_from - 1);
        if (l->rope != QSF_NO_ROPE && s->ropes[l->rope].dim > l->head_dim)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: layer %u rotates %u columns of heads of %u", s->path,
                            (unsigned)i, (unsigned)s->ropes[l->rope].dim, (unsigned)l->head_dim);
        if (l->act == QSF_ACT_XIELU && l->feed_forward != QSF_FEED_FORWARD_PLAIN)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has a gate with xIELU, which this version "
                            "cannot run", s->path, (unsigned)i);
        if (l->act == QSF_ACT_SWIGLU_OAI && (l->feed_forward == QSF_FEED_FORWARD_PLAIN || l->experts_plain ||
                                               l->feed_forward == QSF_FEED_FORWARD_SHIFTED))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has gpt-oss's SwiGLU without a gate",
                            s->path, (unsigned)i);
        const bool whole = l->mixer != QSF_MIXER_NONE && l->feed_forward != QSF_FEED_FORWARD_NONE;
        if (!whole && l->flow != QSF_FLOW_SERIAL)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u has one part, but a flow for two, which "
                            "this version cannot run", s->path, (unsigned)i);
        if (l->temp_scale != 0 && !l->temp_every)
            return qsf_fail(err, QSF_E_CORRUPT, "%s: queries are scaled with their position, but by a step "
                            "of 0", s->path);
    }
    return QSF_OK;
}

/* ---- between norm and residual stream ---- */

static float *row_of(const qsf_pass *p, float *x, size_t row) { return x + row * p->b->ld_embd; }

/* The rows as the matrices of what follows the norm take them. */
static void ready_normed(const qsf_pass *p, const layer_part *next, qsf_range rows, uint32_t thread)
{
    const qsf_matrix_in in = qsf_matrix_input(p, p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    qsf_rows_ready(p, next->readers, next->n_readers, &in, rows, thread);
}

/* x += tmp, after the post norm if the model has one, and scaled if the model sets a scale; or the
 * norm is applied to the sum. */
static void add_residual(const qsf_pass *p, size_t row, int norm, int bias)
{
    float *x = row_of(p, p->b->x, row), *t = row_of(p, p->b->tmp, row);
    const float scale = p->layer->residual_scale, *post_norm = p->w->v[norm];
    const bool sums = p->layer->flow == QSF_FLOW_SUMS;
    if (post_norm && !sums) qsf_pass_norm(p, p->layer->norm, t, t, post_norm, NULL, p->hp->n_embd);
    if (scale != 0 && scale != 1) p->k->vec_scale(t, scale, p->hp->n_embd);
    p->k->vec_add(x, x, t, p->hp->n_embd);
    if (sums) qsf_pass_norm(p, p->layer->norm, x, x, post_norm, p->w->v[bias], p->hp->n_embd);
}

/* xn from x, as what follows takes it. */
static void norm_input(const qsf_pass *p, size_t row, int norm, int bias)
{
    const float *const *v = p->w->v;
    float *xn = row_of(p, p->b->xn, row), *x = row_of(p, p->b->x, row);
    const uint8_t flow = p->layer->flow;
    const bool bare = flow == QSF_FLOW_BARE_BEGIN && norm == QSF_K_ATTN_NORM;
    if (flow == QSF_FLOW_POST || flow == QSF_FLOW_SUMS || bare) memcpy(xn, x, p->hp->n_embd * sizeof *x);
    else qsf_pass_norm(p, p->layer->norm, xn, x, v[norm], v[bias], p->hp->n_embd);
}

/* x is a norm of its sum with the layer's input, which xn still is. */
static void norm_twice(const qsf_pass *p, size_t row)
{
    float *x = row_of(p, p->b->x, row);
    const float *const *v = p->w->v;
    p->k->vec_add(x, x, row_of(p, p->b->xn, row), p->hp->n_embd);
    qsf_pass_norm(p, p->layer->norm, x, x, v[QSF_K_ATTN_NORM_2], v[QSF_K_ATTN_NORM_2_BIAS], p->hp->n_embd);
}

static void norm_for_mixer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    for (size_t r = rows.begin; r < rows.end; r++) norm_input(p, r, QSF_K_ATTN_NORM, QSF_K_ATTN_NORM_BIAS);
    ready_normed(p, &layer_mixers[p->layer->mixer], rows, thread);
}

static void norm_for_feed_forward(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const uint8_t flow = p->layer->flow;
    for (size_t r = rows.begin; r < rows.end; r++) {
        if (flow == QSF_FLOW_PARALLEL_NORMS) norm_input(p, r, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
        if (p->layer->mixer != QSF_MIXER_NONE)
            add_residual(p, r, QSF_K_ATTN_POST_NORM, QSF_K_ATTN_POST_NORM_BIAS);
        if (p->w->v[QSF_K_ATTN_NORM_2]) norm_twice(p, r);
        if (p->layer->altup) qsf_laurel_add(p, r);
        if (flow != QSF_FLOW_PARALLEL && flow != QSF_FLOW_PARALLEL_NORMS)
            norm_input(p, r, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
    }
    ready_normed(p, &layer_feed_forwards[p->layer->feed_forward], rows, thread);
}

static void leave_layer(void *arg, uint32_t thread, uint32_t piece)
{
    const qsf_pass_job *job = arg;
    const qsf_pass *p = job->p;
    const qsf_range rows = qsf_pass_mine(job, piece);
    const bool ends = p->layer->feed_forward == QSF_FEED_FORWARD_NONE;
    const int norm = ends ? QSF_K_ATTN_POST_NORM : QSF_K_FFN_POST_NORM;
    const int bias = ends ? QSF_K_ATTN_POST_NORM_BIAS : QSF_K_FFN_POST_NORM_BIAS;
    (void)thread;
    for (size_t r = rows.begin; r < rows.end; r++) {
        add_residual(p, r, norm, bias);
        if (p->layer->n_embd_layer) continue;
        if (p->w->v[QSF_K_LAYER_SCALE])
            p->k->vec_scale(row_of(p, p->b->x, r), *p->w->v[QSF_K_LAYER_SCALE], p->hp->n_embd);
        qsf_pass_check(p, row_of(p, p->b->x, r), p->hp->n_embd);
    }
}

static void run_part(qsf_pass_job *job, const layer_part *part)
{
    const qsf_pass *p = job->p;
    if (part->n_readers)
        qsf_pass_watch(p, part->readers[0], p->b->xn, p->b->ld_embd, p->hp->n_embd, 0, p->batch->n);
    part->run(job);
}

/* tmp becomes the sum of what all shares of the layer have made; false: it did not. */
static bool add_shares(const qsf_pass *p)
{
    qsf_reducer *r = p->cpu->reducer;
    if (r->fn) r->st = r->fn(r->user, p->b->tmp, p->batch->n * p->b->ld_embd);
    return !r->st;
}

void qsf_layer_compute(const qsf_pass *p)
{
    qsf_pass_job job = qsf_pass_begin(p);
    const layer_part *mixer = &layer_mixers[p->layer->mixer];
    const layer_part *feed_forward = &layer_feed_forwards[p->layer->feed_forward];
    if (p->cpu->walk->n) {           /* the layer has been under way, and its experts come wave by wave */
        if (qsf_feed_forward_experts_wave(&job))
            qsf_pass_run(&job, QSF_OP_RESIDUAL, p->batch->n, leave_layer);
        return;
    }
    if (p->layer->altup) qsf_altup_begin(&job);
    qsf_feed_forward_experts_early(&job);
    if (mixer->run) {
        qsf_pass_run(&job, QSF_OP_ATTN_NORM, p->batch->n, norm_for_mixer);
        run_part(&job, mixer);
        if (!add_shares(p)) return;
        if (p->layer->altup) qsf_laurel_run(&job);
    }
    if (feed_forward->run) {
        qsf_pass_run(&job, QSF_OP_FFN_NORM, p->batch->n, norm_for_feed_forward);
        run_part(&job, feed_forward);
        if (!add_shares(p)) return;
    }
    if (p->cpu->walk->n) return;
    qsf_pass_run(&job, QSF_OP_RESIDUAL, p->batch->n, leave_layer);
    if (p->layer->altup) qsf_altup_correct(&job);
    if (p->layer->n_embd_layer) qsf_layer_embedding_run(&job);
    if (p->layer->altup_end) qsf_altup_end(&job);
}
