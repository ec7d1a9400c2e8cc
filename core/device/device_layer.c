/* Layers of dense decoders as dispatches.
 * SPDX-License-Identifier: MIT
 *
 *   norm of X -> codes, products to Q, K, V, places, chunks of attention joined to codes,
 *   product added to X; norm of X -> codes, products to GATE and UP, activation -> codes,
 *   product added to X. */
#include "device/device_layer.h"

#include "device/device_parts.h"
#include "weights/layers.h"

/* ---- what is possible ---- */

static const qsf_device_part *const device_mixers[QSF_N_MIXERS] = {
    [QSF_MIXER_ATTENTION] = &qsf_device_attention,
};
static const qsf_device_part *const device_feed_forwards[QSF_N_FEED_FORWARDS] = {
    [QSF_FEED_FORWARD_PLAIN] = &qsf_device_plain,
    [QSF_FEED_FORWARD_GATED] = &qsf_device_gated,
};

/* What is around the parts. */
static const char *flow_refused(const qsf_source *s, const qsf_layer *l, const qsf_weights *w)
{
    if (l->flow != QSF_FLOW_SERIAL || l->altup || l->n_embd_layer || s->hp.mix_first) return "its flow";
    if (l->norm.kind != QSF_NORM_RMS && l->norm.kind != QSF_NORM_LAYER) return "its norm";
    if (l->residual_scale != 0 && l->residual_scale != 1) return "its residual scale";
    if (w->v[QSF_K_ATTN_NORM_2] || w->v[QSF_K_LAYER_SCALE] || !w->v[QSF_K_ATTN_NORM] || !w->v[QSF_K_FFN_NORM])
        return "its norms";
    return NULL;
}

const char *qsf_device_layer_refused(const qsf_source *s, uint32_t layer, const qsf_context_options *o)
{
    const qsf_unit *u = &s->units[layer];
    const qsf_layer *l = &s->layers[layer];
    const qsf_device_part *mixer = device_mixers[l->mixer], *ff = device_feed_forwards[l->feed_forward];
    const char *why;
    qsf_weights w;
    if (!mixer) return "its mixer";
    if (!ff) return "its feed-forward";
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const uint32_t kind = s->tensors[u->first_tensor + i].kind;
        if (kind >= QSF_N_KINDS && kind != QSF_K_PAD) return "its outliers";
    }
    qsf_weights_describe(s, layer, &w);
    if ((why = flow_refused(s, l, &w)) || (why = mixer->refused(s, l, &w, o))) return why;
    return ff->refused(s, l, &w, o);
}

/* ---- the list ---- */

/* names, kinds: of the norm before the part, and of the one after it, with their biases. */
static void list_part(qsf_device_maker *k, const qsf_device_part *part, const char *const names[2],
                      const uint8_t kinds[4])
{
    k->apart = k->w->v[kinds[2]] != NULL;
    qsf_device_step_norm(k, names[0], true, kinds[0], kinds[1]);
    part->list(k);
    if (k->apart) qsf_device_step_norm(k, names[1], false, kinds[2], kinds[3]);
}

static void list_layer(qsf_device_maker *k)
{
    static const char *const names[][2] = { { "attention norm", "norm after attention" },
                                            { "feed-forward norm", "norm after feed-forward" } };
    static const uint8_t kinds[][4] = {
        { QSF_K_ATTN_NORM, QSF_K_ATTN_NORM_BIAS, QSF_K_ATTN_POST_NORM, QSF_K_ATTN_POST_NORM_BIAS },
        { QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS, QSF_K_FFN_POST_NORM, QSF_K_FFN_POST_NORM_BIAS },
    };
    list_part(k, device_mixers[k->layer->mixer], names[0], kinds[0]);
    list_part(k, device_feed_forwards[k->layer->feed_forward], names[1], kinds[1]);
}

qsf_status qsf_device_layer_begin(qsf_device_buffers *b, qsf_device_layer *l, qsf_error *err)
{
    const qsf_device *d = b->d;
    const uint64_t bytes = (uint64_t)b->n_blocks * b->bytes[QSF_DEVICE_SPARE];
    if (bytes <= d->info->max_binding)
        return qsf_device_buffer_new(b, bytes, &l->kv, err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: keys and values of %llu MB are more than the GPU binds: use "
                    "a smaller context (-c)", d->info->name, (unsigned long long)(bytes / 1000000));
}

qsf_status qsf_device_layer_compile(qsf_device_buffers *b, uint32_t number, qsf_error *err)
{
    qsf_device_layer l = { 0 };
    qsf_weights w;
    qsf_weights_describe(b->source, number, &w);
    qsf_device_maker k = { .b = b, .l = &l, .layer = &b->source->layers[number], .w = &w, .compiles = true,
                      .err = err };
    list_layer(&k);
    return k.st;
}

qsf_status qsf_device_layer_make(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                 const qsf_weights *w, qsf_error *err)
{
    const qsf_layer *layer = &b->source->layers[number];
    qsf_device_maker k = { .b = b, .l = l, .layer = layer, .w = w, .err = err };
    k.st = qsf_device_vectors_new(&k, 0);
    list_layer(&k);
    l->ready = !k.st;
    b->n = 0;                   /* its numbers have to be written */
    return k.st;
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

static uint32_t variant_of(uint32_t n) { return n <= 1 ? 0 : n <= 2 ? 1 : n <= 4 ? 2 : n <= 8 ? 3 : 4; }

/* What depends on the batch, in the numbers of a step. */
static void step_batch(const qsf_device_buffers *b, const qsf_device_layer *l, const qsf_device_step *s,
                       uint32_t n, uint32_t chunks)
{
    const uint32_t place = l->numbers_at + (uint32_t)(s - l->steps);
    void *numbers = b->host_numbers + (size_t)place * QSF_DEVICE_NUMBERS;
    if (s->work == QSF_DEVICE_PRODUCT) {
        ((qsf_wgsl_product_numbers *)numbers)->n = n;
    } else if (s->work == QSF_DEVICE_ROWS) {
        ((qsf_wgsl_rows_numbers *)numbers)->n = n;
        ((qsf_wgsl_rows_numbers *)numbers)->chunks = chunks;
    } else {
        ((qsf_wgsl_attend_numbers *)numbers)->n = n;
    }
}

void qsf_device_layer_batch(const qsf_device_buffers *b, const qsf_device_layer *l, uint32_t n,
                            uint32_t chunks)
{
    for (uint32_t i = 0; i < l->n_steps; i++) step_batch(b, l, &l->steps[i], n, chunks);
}

qsf_status qsf_device_layer_list(qsf_device_buffers *b, qsf_device_layer *l, uint32_t n, uint32_t chunks,
                                 qsf_device_dispatch *list, size_t *len, qsf_error *err)
{
    const uint32_t variant = variant_of(n);
    for (uint32_t i = 0; i < l->n_steps; i++) {
        qsf_device_step *s = &l->steps[i];
        qsf_device_dispatch *to = &list[*len];
        uint32_t groups[3];
        *to = (qsf_device_dispatch){ s->pipeline[0], s->group, s->wide, n, 1 };
        if (s->work == QSF_DEVICE_CHUNKS) {
            *to = (qsf_device_dispatch){ s->pipeline[0], s->group, chunks, n, s->wide };
        } else if (s->work == QSF_DEVICE_PRODUCT) {
            const bool many = variant == QSF_DEVICE_VARIANTS - 1;
            const qsf_status st = qsf_device_product_pipeline(b, s, variant, err);
            if (st) return st;
            qsf_wgsl_dispatch(many ? (s->wide + 3) / 4 : s->wide, groups);
            *to = (qsf_device_dispatch){ s->pipeline[variant], s->group, groups[0], groups[1],
                                         many ? (n + 63) / 64 : 1 };
        }
        const qsf_status st = qsf_pipeline_wait(&b->pipelines, to->pipeline, err);
        if (st) return st;
        ++*len;
    }
    return QSF_OK;
}
