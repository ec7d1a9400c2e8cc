/* Layers of decoders as dispatches.
 * SPDX-License-Identifier: MIT
 *
 *   norm of X -> codes, products to Q, K, V, places, chunks of attention joined to codes,
 *   product added to X; norm of X -> codes, products to GATE and UP, activation -> codes,
 *   product added to X. */
#include "device/device_layer.h"

#include "device/device_experts.h"
#include "device/device_lora.h"
#include "weights/layers.h"

/* ---- what is possible ---- */

static const qsf_device_part *const device_mixers[QSF_N_MIXERS] = {
    [QSF_MIXER_ATTENTION] = &qsf_device_attention,
};
static const qsf_device_part *const device_feed_forwards[QSF_N_FEED_FORWARDS] = {
    [QSF_FEED_FORWARD_PLAIN] = &qsf_device_plain,
    [QSF_FEED_FORWARD_GATED] = &qsf_device_gated,
    [QSF_FEED_FORWARD_EXPERTS] = &qsf_device_experts,
};

static bool is_parallel(const qsf_layer *l)
{
    return l->flow == QSF_FLOW_PARALLEL || l->flow == QSF_FLOW_PARALLEL_NORMS;
}

/* What is around the parts. */
static const char *flow_refused(const qsf_layer *l, const qsf_weights *w, const qsf_device_part *mixer,
                                const qsf_device_part *ff)
{
    if (l->altup) return "its streams";
    if (is_parallel(l) && (!mixer || !ff || !mixer->in || !ff->in)) return "its parallel parts";
    if (w->v[QSF_K_ATTN_NORM_2] && l->flow != QSF_FLOW_SUMS) return "its second norm";
    return NULL;
}

const char *qsf_device_layer_refused(const qsf_source *s, uint32_t layer, const qsf_context_options *o)
{
    const qsf_unit *u = &s->units[layer];
    const qsf_layer *l = &s->layers[layer];
    const qsf_device_part *mixer = device_mixers[l->mixer], *ff = device_feed_forwards[l->feed_forward];
    const char *why;
    qsf_weights w;
    if (!mixer && l->mixer != QSF_MIXER_NONE) return "its mixer";
    if (!ff && l->feed_forward != QSF_FEED_FORWARD_NONE) return "its feed-forward";
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        const bool scale = t->kind >= QSF_K_SCALE && t->kind < QSF_K_SCALE + QSF_N_KINDS &&
                           (t->cols == 1 || t->cols == l->n_experts);
        if (t->kind >= QSF_N_KINDS && t->kind != QSF_K_PAD && !scale) return "its outliers";
    }
    qsf_weights_describe(s, layer, &w);
    if ((why = flow_refused(l, &w, mixer, ff))) return why;
    if (l->n_embd_layer && (why = qsf_device_layer_embedding.refused(s, l, &w, o))) return why;
    if (mixer && (why = mixer->refused(s, l, &w, o))) return why;
    return ff ? ff->refused(s, l, &w, o) : NULL;
}

/* ---- the list ---- */

/* A part, and the kinds of its norms: before, with bias, and after, with bias. */
typedef struct layer_part {
    const qsf_device_part *part;    /* NULL: the layer lacks it */
    const char *in, *out;
    uint8_t norm[2], post[2];
} layer_part;

/* Whether products (qsf_device_fuse) are all that reads the part's input. */
static bool reads_by_products(const qsf_device_part *part)
{
    return part == &qsf_device_attention || part == &qsf_device_plain || part == &qsf_device_gated;
}

/* X, normed unless the flow leaves that out, as the part's products take it; also those of `with`,
 * which reads the same rows. */
static void list_in(qsf_device_maker *k, const layer_part *p, const layer_part *with)
{
    const uint8_t flow = k->layer->flow;
    const bool bare = flow == QSF_FLOW_POST || flow == QSF_FLOW_SUMS ||
                      (flow == QSF_FLOW_BARE_BEGIN && p->norm[0] == QSF_K_ATTN_NORM);
    qsf_device_rows x = { .name = p->in, .a = QSF_DEVICE_X, .cols = k->b->source->hp.n_embd,
                          .ld = k->b->ld };
    uint8_t kinds[8], n = 0;
    for (uint32_t i = 0; i < p->part->n_kinds; i++) kinds[n++] = p->part->kinds[i];
    for (uint32_t i = 0; with && i < with->part->n_kinds; i++) kinds[n++] = with->part->kinds[i];
    x.r.codes = !p->part->n_kinds;
    if (!bare) qsf_device_set_norm(k, &x, p->norm[0], p->norm[1]);
    qsf_device_add_input(k, x, kinds, n);
}

/* How a part's output gets to X, for qsf_device_step_out. */
static void choose_out(qsf_device_maker *k, const layer_part *p)
{
    k->times = k->layer->residual_scale != 0 ? k->layer->residual_scale : 1;
    k->apart = k->layer->flow != QSF_FLOW_SUMS && k->w->v[p->post[0]];
}

/* The part's steps after its input's products; its norm afterwards. */
static void list_rest(qsf_device_maker *k, const layer_part *p)
{
    const uint32_t cols = k->b->source->hp.n_embd;
    const float times = k->layer->residual_scale;
    choose_out(k, p);
    k->inside = true;
    p->part->list(k);
    if (k->layer->flow == QSF_FLOW_SUMS)
        qsf_device_add_norm(k, p->out, QSF_DEVICE_X, cols, k->b->ld, p->post[0], p->post[1]);
    if (!k->apart) return;
    qsf_device_rows x = { .name = p->out, .a = QSF_DEVICE_TMP, .to = QSF_DEVICE_X, .cols = cols,
                          .ld = k->b->ld, .to_ld = k->b->ld, .gain = times,
                          .r = { .floats = true, .add = true, .scaled = times != 0 && times != 1 } };
    qsf_device_set_norm(k, &x, p->post[0], 0);
    qsf_device_add_rows(k, &x);
}

/* A copy of the layer's input; and its sum with what attention has made of it, normed. */
static void list_copy(qsf_device_maker *k, bool back)
{
    const uint32_t ld = k->b->ld, cols = k->b->source->hp.n_embd;
    const qsf_device_rows x = { .name = "the layer's input", .a = back ? QSF_DEVICE_BEGIN : QSF_DEVICE_X,
                                .to = back ? QSF_DEVICE_X : QSF_DEVICE_BEGIN, .cols = cols, .ld = ld,
                                .to_ld = ld, .r = { .floats = true, .add = back } };
    if (!k->w->v[QSF_K_ATTN_NORM_2]) return;
    qsf_device_add_rows(k, &x);
    if (back)
        qsf_device_add_norm(k, "second norm", QSF_DEVICE_X, cols, ld, QSF_K_ATTN_NORM_2,
                            QSF_K_ATTN_NORM_2_BIAS);
}

static void list_end(qsf_device_maker *k)
{
    const float *scale = k->w->v[QSF_K_LAYER_SCALE];
    if (!scale) return;
    const qsf_device_rows x = { .name = "scale of the layer", .to = QSF_DEVICE_X, .gain = *scale,
                                .cols = k->b->source->hp.n_embd, .to_ld = k->b->ld,
                                .r = { .source = QSF_WGSL_FROM_ITSELF, .floats = true, .scaled = true } };
    qsf_device_add_rows(k, &x);
}

static void list_serial(qsf_device_maker *k, const layer_part *p)
{
    if (!p->part) return;
    list_in(k, p, NULL);
    if (reads_by_products(p->part)) qsf_device_fuse(k, QSF_DEVICE_FUSED_COLUMNS);
    if (p->part->in) p->part->in(k);
    list_rest(k, p);
}

static void list_parallel(qsf_device_maker *k, const layer_part *mixer, const layer_part *ff)
{
    const bool apart = k->layer->flow == QSF_FLOW_PARALLEL_NORMS;
    list_in(k, mixer, apart ? NULL : ff);
    if (reads_by_products(mixer->part) && (apart || reads_by_products(ff->part)))
        qsf_device_fuse(k, QSF_DEVICE_FUSED_COLUMNS);
    mixer->part->in(k);
    if (apart) list_in(k, ff, NULL);
    if (apart && reads_by_products(ff->part)) qsf_device_fuse(k, QSF_DEVICE_FUSED_COLUMNS);
    ff->part->in(k);
    list_rest(k, mixer);
    list_rest(k, ff);
}

static void list_layer(qsf_device_maker *k)
{
    const layer_part mixer = {
        device_mixers[k->layer->mixer], "attention norm", "norm after attention",
        { QSF_K_ATTN_NORM, QSF_K_ATTN_NORM_BIAS }, { QSF_K_ATTN_POST_NORM, QSF_K_ATTN_POST_NORM_BIAS },
    }, ff = {
        device_feed_forwards[k->layer->feed_forward], "feed-forward norm", "norm after feed-forward",
        { QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS }, { QSF_K_FFN_POST_NORM, QSF_K_FFN_POST_NORM_BIAS },
    };
    if (k->layer->router_early) qsf_device_experts_early(k);
    if (is_parallel(k->layer)) {
        list_parallel(k, &mixer, &ff);
    } else {
        list_copy(k, false);
        list_serial(k, &mixer);
        list_copy(k, true);
        list_serial(k, &ff);
    }
    if (k->layer->n_embd_layer) qsf_device_layer_embedding.list(k);
    list_end(k);
}

/* ---- a layer there ---- */

qsf_status qsf_device_layers_begin(qsf_device_buffers *b, qsf_device_layer *l, uint32_t first, uint32_t end,
                                   qsf_error *err)
{
    const qsf_device *d = b->d;
    const uint64_t bytes = (uint64_t)b->n_blocks * b->bytes[QSF_DEVICE_SPARE];
    if (bytes > d->info->max_binding)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: keys and values of %llu MB are more than the GPU binds: "
                        QSF_DEVICE_SMALLER, d->info->name, (unsigned long long)(bytes / 1000000));
    for (uint32_t i = 0; i < end - first; i++) {
        const qsf_layer *layer = &b->source->layers[first + i];
        const bool shares = layer->both_ways && i && l[0].kv;   /* qsf_layers_kept */
        qsf_status st;
        if (!qsf_layer_attends(layer)) continue;
        if (qsf_layer_has_kv(layer) && !shares && (st = qsf_device_buffer_new(b, bytes, &l[i].kv, err)))
            return st;
        l[i].reads = shares ? l[0].kv : layer->kv_from ? l[layer->kv_from - 1 - first].kv : l[i].kv;
    }
    return QSF_OK;
}

qsf_status qsf_device_layer_compile(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                    qsf_error *err)
{
    qsf_device_layer spare = { 0 };
    qsf_weights w;
    qsf_weights_describe(b->source, number, &w);
    qsf_device_maker k = { .b = b, .l = &spare, .layer = &b->source->layers[number], .w = &w,
                           .number = number, .compiles = true, .err = err };
    list_layer(&k);
    l->vectors_bytes = QSF_MAX(k.vectors_at, QSF_DEVICE_ALIGN);
    return k.st;
}

qsf_status qsf_device_layer_make(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                 const qsf_weights *w, qsf_error *err)
{
    const qsf_layer *layer = &b->source->layers[number];
    qsf_device_maker k = { .b = b, .l = l, .layer = layer, .w = w, .number = number, .err = err };
    l->number = number;
    k.st = qsf_device_buffer_new(b, l->vectors_bytes, &l->vectors, err);
    list_layer(&k);
    l->ready = !k.st;
    b->set.n = 0;               /* its numbers have to be written */
    return k.st;
}

qsf_status qsf_device_layer_again(const qsf_device_buffers *b, const qsf_device_layer *l,
                                  const qsf_weights *w, qsf_error *err)
{
    qsf_status st = QSF_OK;
    for (uint32_t i = 0; i < l->n_parts && !st; i++) {
        const qsf_device_part_of *p = &l->parts[i];
        const qsf_matrix *m = &w->m[p->kind];
        if (!p->bytes) st = qsf_device_upload_matrix(b, l->slot, p->at, m, err);
        else st = qsf_device_upload(b, l->slot, p->at, (const uint8_t *)m->t.data + p->from, p->bytes, err);
    }
    return st;
}

qsf_status qsf_device_layer_there(const qsf_device_buffers *b, const qsf_device_layer *l, qsf_error *err)
{
    qsf_status st = qsf_device_buffer_there(b, l->kv, err);
    if (!st) st = qsf_device_buffer_there(b, l->vectors, err);
    for (uint32_t i = 0; i < l->n_weights && !st; i++) st = qsf_device_buffer_there(b, l->weights[i], err);
    return st;
}

void qsf_device_layer_done(const qsf_device_buffers *b, qsf_device_layer *l)
{
    const qsf_device *d = b->d;
    for (uint32_t i = 0; i < l->n_steps; i++) d->release(d->user, l->steps[i].group);
    for (uint32_t i = 0; i < l->n_weights; i++) d->release(d->user, l->weights[i]);
    d->release(d->user, l->kv);
    d->release(d->user, l->vectors);
    *l = (qsf_device_layer){ 0 };
}

/* What depends on the batch, in the numbers of a step. */
static void step_batch(const qsf_device_buffers *b, const qsf_device_layer *l, const qsf_device_step *s,
                       const qsf_device_batch *batch)
{
    const uint32_t n = batch->n;
    const uint32_t place = l->numbers_at + (uint32_t)(s - l->steps);
    void *numbers = b->host_numbers + (size_t)place * QSF_DEVICE_NUMBERS;
    if (s->work == QSF_DEVICE_OWN) {
        if (s->own && s->own->batch) s->own->batch(s, numbers, n);
    } else if (s->work == QSF_DEVICE_PRODUCT) {
        ((qsf_wgsl_product_numbers *)numbers)->n = n;
        ((qsf_wgsl_product_numbers *)numbers)->chunks = batch->chunks;
    } else if (s->work == QSF_DEVICE_FLOAT_PRODUCT) {
        ((qsf_wgsl_floats_numbers *)numbers)->n = n;
    } else if (s->work == QSF_DEVICE_ROWS) {
        ((qsf_wgsl_rows_numbers *)numbers)->n = n;
        ((qsf_wgsl_rows_numbers *)numbers)->chunks = batch->chunks;
    } else {
        ((qsf_wgsl_attend_numbers *)numbers)->n = n;
        ((qsf_wgsl_attend_numbers *)numbers)->blocks = batch->blocks;
    }
}

void qsf_device_layer_batch(const qsf_device_buffers *b, const qsf_device_layer *l,
                            const qsf_device_batch *batch)
{
    for (uint32_t i = 0; i < l->n_steps; i++) step_batch(b, l, &l->steps[i], batch);
}

/* The rows by which steps are chosen.  Products that make codes by themselves, or that have done
 * more than a product, are not for adapters. */
static uint32_t batch_rows_for(const qsf_device_batch *batch)
{
    return batch->loras ? QSF_MAX(batch->n, QSF_DEVICE_FUSED + 1u) : batch->n;
}

static bool step_is_for(const qsf_device_step *s, const qsf_device_batch *batch)
{
    const uint32_t n = batch_rows_for(batch);
    if (n < s->of.least || (s->of.most && n > s->of.most)) return false;
    if (s->of.attention == QSF_DEVICE_ALL) return true;
    return (s->of.attention == QSF_DEVICE_IN_GROUPS) == (batch->groups > 0);
}

qsf_status qsf_device_layer_list(qsf_device_buffers *b, qsf_device_layer *l, const qsf_device_batch *batch,
                                 qsf_device_dispatch *list, size_t *len, qsf_error *err)
{
    const uint32_t variant = qsf_device_variant(batch_rows_for(batch));
    for (uint32_t i = 0; i < l->n_steps; i++) {
        qsf_device_step *s = &l->steps[i];
        if (!step_is_for(s, batch)) continue;
        qsf_device_dispatch *to = &list[*len];
        qsf_status st = qsf_device_step_dispatch(b, s, batch, variant, to, err);
        if (!st) st = qsf_pipeline_wait(&b->pipelines, to->pipeline, err);
        if (st) return st;
        ++*len;
        if (batch->loras && (st = qsf_device_loras_list(b, batch, l, i, list, len, err))) return st;
    }
    return QSF_OK;
}
