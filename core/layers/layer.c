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
#include "layers/mamba.h"
#include "layers/mamba2.h"
#include "layers/mamba2_beside.h"
#include "layers/mtp.h"
#include "layers/rwkv.h"
#include "layers/short_conv.h"

/* ---- what a layer can be made of: a new mixer or feed-forward is a file and a row ---- */

/* The rows that compute tmp from the normed rows xn; NULL: the layer lacks this part. */
typedef void layer_list(const qsf_layer *l, qsf_program *g);

static layer_list *const layer_mixers[QSF_N_MIXERS] = {
    [QSF_MIXER_ATTENTION] = qsf_attention_list,
    [QSF_MIXER_SHORT_CONV] = qsf_short_conv_list,
    [QSF_MIXER_RWKV] = qsf_rwkv_list,
    [QSF_MIXER_MAMBA] = qsf_mamba_list,
    [QSF_MIXER_PLAMO] = qsf_mamba_list,
    [QSF_MIXER_MAMBA2] = qsf_mamba2_list,
    [QSF_MIXER_MAMBA2_BESIDE] = qsf_mamba2_beside_list,
    [QSF_MIXER_DELTA_NET] = qsf_delta_net_list,
};
static layer_list *const layer_feed_forwards[QSF_N_FEED_FORWARDS] = {
    [QSF_FEED_FORWARD_PLAIN] = qsf_feed_forward_plain_list,
    [QSF_FEED_FORWARD_GATED] = qsf_feed_forward_gated_list,
    [QSF_FEED_FORWARD_SHIFTED] = qsf_rwkv_feed_forward_list,
    [QSF_FEED_FORWARD_EXPERTS] = qsf_feed_forward_experts_list,
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

static void norm_for_mixer(const qsf_pass *p, const qsf_task *t)
{
    for (size_t r = t->begin; r < t->end; r++) norm_input(p, r, QSF_K_ATTN_NORM, QSF_K_ATTN_NORM_BIAS);
}

static void norm_for_feed_forward(const qsf_pass *p, const qsf_task *t)
{
    const uint8_t flow = p->layer->flow;
    for (size_t r = t->begin; r < t->end; r++) {
        if (flow == QSF_FLOW_PARALLEL_NORMS) norm_input(p, r, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
        if (p->layer->mixer != QSF_MIXER_NONE)
            add_residual(p, r, QSF_K_ATTN_POST_NORM, QSF_K_ATTN_POST_NORM_BIAS);
        if (p->w->v[QSF_K_ATTN_NORM_2]) norm_twice(p, r);
        if (p->layer->altup) qsf_laurel_add(p, r);
        if (flow != QSF_FLOW_PARALLEL && flow != QSF_FLOW_PARALLEL_NORMS)
            norm_input(p, r, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
    }
}

static void leave_layer(const qsf_pass *p, const qsf_task *t)
{
    const bool ends = p->layer->feed_forward == QSF_FEED_FORWARD_NONE;
    const int norm = ends ? QSF_K_ATTN_POST_NORM : QSF_K_FFN_POST_NORM;
    const int bias = ends ? QSF_K_ATTN_POST_NORM_BIAS : QSF_K_FFN_POST_NORM_BIAS;
    for (size_t r = t->begin; r < t->end; r++) {
        add_residual(p, r, norm, bias);
        if (p->layer->n_embd_layer) continue;
        if (p->w->v[QSF_K_LAYER_SCALE])
            p->k->vec_scale(row_of(p, p->b->x, r), *p->w->v[QSF_K_LAYER_SCALE], p->hp->n_embd);
        qsf_pass_check(p, row_of(p, p->b->x, r), p->hp->n_embd);
    }
}

/* tmp becomes the sum of what all shares of the layer have made. */
static void add_shares(const qsf_pass *p, const qsf_task *t)
{
    qsf_reducer *r = p->cpu->reducer;
    (void)t;
    if (r->fn) r->st = r->fn(r->user, p->b->tmp, p->batch->n * p->b->ld_embd);
}

/* A mixer or feed-forward, after the norm of its input; NULL: its input is normed already. */
static void list_part(const qsf_layer *l, qsf_program *g, layer_list *part, qsf_op op, qsf_row_fn *norm)
{
    const qsf_view x = qsf_stream_view(g, QSF_BUF_X), tmp = qsf_stream_view(g, QSF_BUF_TMP);
    if (!part) return;
    if (norm)
        QSF_ADD(g, .op = (uint8_t)op, .work = QSF_WORK_NORM, .over = QSF_OVER_ROWS,
                .to = { x, qsf_stream_view(g, QSF_BUF_XN), tmp }, .fn = norm);
    part(l, g);
    QSF_ADD(g, .work = QSF_WORK_REDUCE, .over = QSF_OVER_NOTHING, .to = { tmp }, .fn = add_shares);
}

void qsf_layer_list(const qsf_layer *l, qsf_program *g)
{
    if (l->altup) qsf_altup_list_begin(l, g);
    if (l->mtp) (l->eagle ? qsf_eagle_list_begin : qsf_mtp_list_begin)(g);
    qsf_feed_forward_experts_list_early(l, g);
    list_part(l, g, layer_mixers[l->mixer], QSF_OP_ATTN_NORM, l->eagle ? NULL : norm_for_mixer);
    if (l->altup) qsf_laurel_list(l, g);
    list_part(l, g, layer_feed_forwards[l->feed_forward], QSF_OP_FFN_NORM, norm_for_feed_forward);
    QSF_ADD(g, .op = QSF_OP_RESIDUAL, .work = QSF_WORK_ADD, .over = QSF_OVER_ROWS,
            .to = { qsf_stream_view(g, QSF_BUF_X), qsf_stream_view(g, QSF_BUF_TMP) }, .fn = leave_layer);
    if (l->altup) qsf_altup_list_correct(g);
    if (l->n_embd_layer) qsf_layer_embedding_list(l, g);
    if (l->altup_end) qsf_altup_list_end(g);
    if (l->mtp && g->hp->mtp_norm) qsf_mtp_list_end(g);
    qsf_program_finish(g);
}

void qsf_layer_compute(const qsf_pass *p)
{
    qsf_program g;
    qsf_program_begin(&g, p->hp, p->w, p->cpu->experts);
    qsf_layer_list(p->layer, &g);
    (void)qsf_program_run(p, &g);
}
