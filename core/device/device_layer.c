/* Layers of dense decoders as dispatches.
 * SPDX-License-Identifier: MIT
 *
 *   norm of X -> codes, products to Q, K, V, places, chunks of attention joined to codes,
 *   product added to X; norm of X -> codes, products to GATE and UP, activation -> codes,
 *   product added to X. */
#include "device/device_layer.h"

#include "layers/rope.h"
#include "weights/layers.h"

#include "wgsl/chunks_wgsl.h"
#include "wgsl/places_wgsl.h"
#include "wgsl/product_rows_wgsl.h"
#include "wgsl/product_tiles_wgsl.h"

/* ---- what is possible ---- */

/* Codes of 8 bits are stored mixed, and without some biases, which no shader does. */
static const char *layer_refused(const qsf_source *s, const qsf_layer *l, const qsf_context_options *o)
{
    const qsf_hparams *hp = &s->hp;
    if (l->mixer != QSF_MIXER_ATTENTION || l->kv_latent || l->attn_gate || l->both_ways) return "its mixer";
    if (l->feed_forward != QSF_FEED_FORWARD_GATED && l->feed_forward != QSF_FEED_FORWARD_PLAIN)
        return "its feed-forward";
    if (l->flow != QSF_FLOW_SERIAL || l->altup || l->n_embd_layer || hp->mix_first) return "its flow";
    if (l->norm.kind != QSF_NORM_RMS && l->norm.kind != QSF_NORM_LAYER) return "its norm";
    if (l->act != QSF_ACT_SILU && l->act != QSF_ACT_GELU && l->act != QSF_ACT_RELU) return "its activation";
    if (l->qkv_clamp != 0 || l->alibi != 0 || l->temp_scale != 0 || l->v_norm || l->sparse > 0 || l->kv_from)
        return "its attention";
    if (l->residual_scale != 0 && l->residual_scale != 1) return "its residual scale";
    if (l->qk_norm == QSF_QK_ALL) return "its norm of all queries";
    if (o->kv_type != QSF_KV_F16 && o->kv_type != QSF_KV_Q8) return "this type of KV cache";
    if (l->rope != QSF_NO_ROPE && l->rope > 1) return "its third rotary table";
    return NULL;
}

static const uint8_t layer_kinds[] = { QSF_K_ATTN_Q, QSF_K_ATTN_K, QSF_K_ATTN_V, QSF_K_ATTN_OUT,
                                       QSF_K_FFN_GATE, QSF_K_FFN_UP, QSF_K_FFN_DOWN };

static const char *weights_refused(const qsf_layer *l, const qsf_weights *w, const qsf_context_options *o)
{
    for (size_t i = 0; i < QSF_ARRAY_LEN(layer_kinds); i++) {
        const qsf_matrix *m = &w->m[layer_kinds[i]];
        if (!m->t.rows) continue;
        if (m->form < 0 || !qsf_wgsl_has_form((qsf_form)m->form) || m->lut) return "a type of its weights";
        if (m->out_start || m->scale != 1) return "its outliers";
    }
    if (w->v[QSF_K_ATTN_SUB_NORM] || w->v[QSF_K_FFN_SUB_NORM] || w->v[QSF_K_ATTN_NORM_2] ||
        w->v[QSF_K_LAYER_SCALE]) return "its norms";
    if (!w->v[QSF_K_ATTN_NORM] || !w->v[QSF_K_FFN_NORM]) return "its norms";
    if (!w->v[QSF_K_Q_NORM] != !w->v[QSF_K_K_NORM]) return "its norms of queries";
    if (w->v[QSF_K_Q_NORM] && l->norm.kind != QSF_NORM_RMS) return "its norms of queries";
    if (w->v[QSF_K_ATTN_K_BIAS] && o->kv_type == QSF_KV_Q8)
        return "biases of keys that are stored in 8 bits (-ctk f16)";
    return NULL;
}

const char *qsf_device_layer_refused(const qsf_source *s, uint32_t layer, const qsf_context_options *o)
{
    const qsf_unit *u = &s->units[layer];
    const char *why = layer_refused(s, &s->layers[layer], o);
    qsf_weights w;
    for (uint32_t i = 0; i < u->n_tensors && !why; i++) {
        const uint32_t kind = s->tensors[u->first_tensor + i].kind;
        if (kind >= QSF_N_KINDS && kind != QSF_K_PAD) why = "its outliers";
    }
    if (why) return why;
    qsf_weights_describe(s, layer, &w);
    return weights_refused(&s->layers[layer], &w, o);
}

/* ---- weights ---- */

enum { UPLOAD = 4 << 20 };      /* bytes of a piece */

static qsf_status upload(const qsf_device_buffers *b, qsf_device_id to, uint64_t at, const void *from,
                         uint64_t bytes, qsf_error *err)
{
    const uint8_t *p = from;
    for (uint64_t done = 0; done < bytes; done += UPLOAD) {
        const uint64_t n = QSF_MIN(bytes - done, (uint64_t)UPLOAD);
        const qsf_status st = b->d->write(b->d->user, to, at + done, p + done, (size_t)n, err);
        if (st) return st;
    }
    return QSF_OK;
}

static qsf_status put_matrix(const qsf_device_buffers *b, qsf_device_layer *l, const qsf_matrix *m,
                             qsf_device_id *out, qsf_error *err)
{
    const uint64_t tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS,
        bytes = tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    if (bytes > b->d->info->max_binding)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "a matrix of %llu MB is more than the GPU binds",
                        (unsigned long long)(bytes / 1000000));
    const qsf_status st = b->d->buffer_new(b->d->user, QSF_DEVICE_STORAGE, bytes, out, err);
    if (st) return st;
    assert(l->n_weights < QSF_DEVICE_WEIGHTS);
    l->weights[l->n_weights++] = *out;
    return upload(b, *out, 0, m->t.data, bytes, err);
}

/* Floats of a layer, each at a multiple of the alignment. */
typedef struct layer_vectors {
    qsf_device_buffers *b;
    qsf_device_layer   *l;
    uint64_t at, align;
} layer_vectors;

static qsf_device_range put_vector(layer_vectors *v, const float *x, const float *more, size_t n,
                                   qsf_status *st, qsf_error *err)
{
    if (!v->l) return (qsf_device_range){ 0 };
    const qsf_device_range r = { v->l->vectors, v->at, (more ? 2 * n : n) * sizeof *x };
    if (!*st) *st = upload(v->b, r.buffer, r.at, x, n * sizeof *x, err);
    if (!*st && more) *st = upload(v->b, r.buffer, r.at + n * sizeof *x, more, n * sizeof *x, err);
    v->at = qsf_round_up(v->at + r.len, v->align);
    return r;
}

static uint64_t vectors_bytes(const qsf_device_buffers *b, const qsf_layer *layer)
{
    const uint64_t align = b->d->info->binding_align;
    const uint64_t widest = QSF_MAX(QSF_MAX((uint64_t)b->ld, b->q_ld), QSF_MAX((uint64_t)b->ff_ld, b->kv_ld));
    (void)layer;
    return 16 * qsf_round_up(2 * widest * sizeof(float), align);
}

/* ---- the list ---- */

typedef struct layer_maker {
    qsf_device_buffers *b;
    qsf_device_layer   *l;
    const qsf_layer    *layer;
    const qsf_weights  *w;
    layer_vectors       v;
    bool                compiles;       /* pipelines only: the weights are descriptions */
    union { qsf_wgsl_product_numbers p; qsf_wgsl_rows_numbers r; qsf_wgsl_attend_numbers a; } spare;
    qsf_status          st;
    qsf_error          *err;
} layer_maker;

static qsf_device_range all_of(const qsf_device_buffers *b, qsf_device_name name)
{
    return (qsf_device_range){ b->of[name], 0, b->bytes[name] };
}

/* Appends a step whose numbers, of n bytes, the caller fills; NULL after an error. */
static void *step_new(layer_maker *k, qsf_device_work work, const char *name, qsf_device_step **out)
{
    uint32_t place;
    assert(k->l->n_steps < QSF_DEVICE_STEPS);
    *out = &k->l->steps[k->compiles ? 0 : k->l->n_steps++];
    **out = (qsf_device_step){ .work = (uint8_t)work, .name = name };
    if (k->compiles) return &k->spare;
    void *numbers = qsf_device_numbers(k->b, &place);
    if (k->l->n_steps == 1) k->l->numbers_at = place;
    return numbers;
}

static void step_group(layer_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n)
{
    const qsf_device *d = k->b->d;
    const uint32_t place = k->l->numbers_at + (uint32_t)(s - k->l->steps);
    if (k->compiles) return;
    ranges[0] = (qsf_device_range){ k->b->numbers, (uint64_t)place * QSF_DEVICE_NUMBERS, QSF_DEVICE_NUMBERS };
    if (!k->st) k->st = d->group_new(d->user, s->pipeline[0], ranges, n, &s->group, k->err);
}

/* Rows to codes or, with `to` X, added to it. */
static void step_rows(layer_maker *k, const qsf_wgsl_rows *r, const char *name, qsf_device_name a,
                      qsf_device_name b, uint32_t cols, uint32_t a_ld, int norm, int bias)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[8];
    uint32_t n = 1;
    qsf_wgsl_rows_numbers *x = step_new(k, QSF_DEVICE_ROWS, name, &s);
    *x = (qsf_wgsl_rows_numbers){ .cols = cols, .a_ld = a_ld, .b_ld = a_ld, .x_ld = qsf_device_codes_ld(cols),
                                  .y_ld = k->b->ld, .eps = k->layer->norm.eps, .heads = k->layer->n_heads,
                                  .head_dim = k->layer->head_dim, .room = k->b->kv.head_dim };
    s->joins = r->source == QSF_WGSL_FROM_ATTENTION;
    s->wide = r->norm ? 1 : r->codes ? (x->x_ld + 79) / 80 : (cols + 1023) / 1024;
    ranges[n++] = all_of(k->b, a);
    if (r->source == QSF_WGSL_FROM_TWO || s->joins) ranges[n++] = all_of(k->b, b);
    if (r->norm) ranges[n++] = put_vector(&k->v, k->w->v[norm], NULL, cols, &k->st, k->err);
    if (r->bias) ranges[n++] = put_vector(&k->v, k->w->v[bias], NULL, cols, &k->st, k->err);
    if (r->sinks) ranges[n++] = put_vector(&k->v, k->w->v[QSF_K_ATTN_SINKS], NULL, x->heads, &k->st, k->err);
    ranges[n++] = all_of(k->b, r->codes ? QSF_DEVICE_CODES : QSF_DEVICE_X);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_rows_text(&t, r);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, name, &s->pipeline[0], k->err);
    step_group(k, s, ranges, n);
}

/* The norm of a stream to codes, or of a part's output to the residual stream. */
static void step_norm(layer_maker *k, const char *name, bool in, int norm, int bias)
{
    const qsf_wgsl_rows r = {
        .source = QSF_WGSL_FROM_FLOATS,
        .norm = k->layer->norm.kind == QSF_NORM_RMS ? QSF_WGSL_RMS_NORM : QSF_WGSL_LAYER_NORM,
        .bias = k->w->v[bias] != NULL, .codes = in, .floats = !in, .add = !in,
    };
    step_rows(k, &r, name, in ? QSF_DEVICE_X : QSF_DEVICE_TMP, QSF_N_DEVICE_NAMES, k->b->source->hp.n_embd,
              k->b->ld, norm, bias);
}

/* A variant of a product: for 1, 2, 4 or 8 rows, or for more. */
static qsf_status product_pipeline(qsf_device_buffers *b, qsf_device_step *s, uint32_t variant,
                                   qsf_error *err)
{
    qsf_wgsl_text t;
    qsf_wgsl_product p = s->product;
    if (s->pipeline[variant]) return QSF_OK;
    qsf_pipeline_begin(&b->pipelines, &t);
    if (variant == QSF_DEVICE_VARIANTS - 1) {
        qsf_wgsl_product_tiles(&t, &p);
    } else {
        p.rows = 1u << variant;
        p.slices = s->slices;
        qsf_wgsl_product_rows(&t, &p);
    }
    return qsf_pipeline_end(&b->pipelines, &t, s->name, &s->pipeline[variant], err);
}

/* CODES times a matrix, to a buffer whose rows are ld apart. */
static void step_product(layer_maker *k, const char *name, int kind, int bias, qsf_device_name to,
                         uint32_t ld, bool add)
{
    const qsf_matrix *m = &k->w->m[kind];
    const float *more = k->w->v[bias];
    qsf_device_step *s;
    qsf_device_range ranges[5];
    uint32_t n = 2;
    qsf_wgsl_product_numbers *x = step_new(k, QSF_DEVICE_PRODUCT, name, &s);
    *x = (qsf_wgsl_product_numbers){ .rows = m->t.rows, .tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS,
                                     .blocks = m->blocks, .x_ld = qsf_device_codes_ld(m->t.cols), .y_ld = ld };
    s->product = (qsf_wgsl_product){ .form = (qsf_form)m->form, .block = m->t.block, .bias = more != NULL,
                                     .add = add };
    s->wide = x->tiles;
    s->slices = m->t.cols >= 1024 && x->tiles < 4096 ? 16 : 8;
    if (!k->st && !k->compiles) k->st = put_matrix(k->b, k->l, m, &ranges[1].buffer, k->err);
    ranges[1].at = 0;
    ranges[1].len = (uint64_t)x->tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    ranges[n++] = all_of(k->b, QSF_DEVICE_CODES);
    ranges[n++] = all_of(k->b, to);
    if (more) ranges[n++] = put_vector(&k->v, more, NULL, m->t.rows, &k->st, k->err);
    for (uint32_t i = 0; i < (k->compiles ? QSF_DEVICE_VARIANTS : 1) && !k->st; i++)
        k->st = product_pipeline(k->b, s, i, k->err);
    step_group(k, s, ranges, n);
}

/* The numbers of attention, for both of its shaders. */
static void attend_numbers(const layer_maker *k, qsf_wgsl_attend_numbers *x)
{
    const qsf_kv_layout *kv = &k->b->kv;
    const qsf_layer *l = k->layer;
    const uint32_t own = l->window, kept = k->b->o->kv_window;
    const bool outer = kept && !k->b->o->kv_heavy && !(own && own <= kept);     /* attention.c */
    *x = (qsf_wgsl_attend_numbers){
        .heads = l->n_heads, .kv_heads = l->n_kv_heads, .head_dim = l->head_dim, .q_ld = k->b->q_ld,
        .k_ld = k->b->kv_ld, .v_ld = k->b->kv_ld, .record = (uint32_t)(kv->record / 4),
        .value_at = (uint32_t)(kv->v_at / 4), .key_scales_at = (uint32_t)(kv->kd_at / 4),
        .value_scales_at = (uint32_t)(kv->vd_at / 4),
        .half = l->rope == QSF_NO_ROPE ? 0 : qsf_rope_half(&k->b->source->ropes[l->rope]),
        .mix = kv->k_bits ? 8 : 0, .norm_ld = l->qk_norm == QSF_QK_EACH ? l->head_dim : 0,
        .eps = l->norm.eps, .scale = l->attn_scale, .cap = l->attn_softcap,
        .window = outer ? kept : own, .sinks = outer ? k->b->o->kv_sinks : 0, .far = own,
        .blocks = k->b->chunk_blocks,
    };
}

static qsf_wgsl_attend attend_variant(const layer_maker *k)
{
    const qsf_layer *l = k->layer;
    const bool rope = l->rope != QSF_NO_ROPE;
    qsf_wgsl_attend a = { .codes = k->b->kv.k_bits == 8, .room = k->b->kv.head_dim,
                          .softcap = l->attn_softcap > 0,
                          .norm = k->w->v[QSF_K_Q_NORM] != NULL, .rope = rope,
                          .rotated_first = l->qk_norm == QSF_QK_ROTATED,
                          .pairs = rope && k->b->source->ropes[l->rope].kind == QSF_ROPE_PAIRS };
    a.share = QSF_MIN(l->n_heads / l->n_kv_heads, qsf_wgsl_most_share(&a));
    return a;
}

static void step_places(layer_maker *k, const qsf_wgsl_attend *a)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[9];
    uint32_t n = 1;
    const float *const *v = k->w->v;
    const size_t each = k->layer->head_dim;
    attend_numbers(k, step_new(k, QSF_DEVICE_PLACES, "places", &s));
    s->wide = k->layer->n_heads + 2 * k->layer->n_kv_heads;
    static const qsf_device_name in[] = { QSF_DEVICE_Q, QSF_DEVICE_K, QSF_DEVICE_V, QSF_DEVICE_PLACE,
                                          QSF_DEVICE_QUERIES };
    for (size_t i = 0; i < QSF_ARRAY_LEN(in); i++) ranges[n++] = all_of(k->b, in[i]);
    ranges[n++] = (qsf_device_range){ k->l->kv, 0, (uint64_t)k->b->n_blocks * k->b->bytes[QSF_DEVICE_SPARE] };
    if (a->rope) ranges[n++] = all_of(k->b, (qsf_device_name)(QSF_DEVICE_ANGLES + k->layer->rope));
    if (a->norm) ranges[n++] = put_vector(&k->v, v[QSF_K_Q_NORM], v[QSF_K_K_NORM], each, &k->st, k->err);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_places(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "places", &s->pipeline[0], k->err);
    step_group(k, s, ranges, n);
}

static void step_chunks(layer_maker *k, const qsf_wgsl_attend *a)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[7];
    const uint32_t shared = k->layer->n_heads / k->layer->n_kv_heads;
    attend_numbers(k, step_new(k, QSF_DEVICE_CHUNKS, "attention", &s));
    s->wide = k->layer->n_kv_heads * ((shared + a->share - 1) / a->share);
    ranges[1] = all_of(k->b, QSF_DEVICE_QUERIES);
    ranges[2] = (qsf_device_range){ k->l->kv, 0, (uint64_t)k->b->n_blocks * k->b->bytes[QSF_DEVICE_SPARE] };
    ranges[3] = all_of(k->b, QSF_DEVICE_PLACE);
    ranges[4] = all_of(k->b, QSF_DEVICE_TABLE);
    ranges[5] = all_of(k->b, QSF_DEVICE_SUMS);
    ranges[6] = all_of(k->b, QSF_DEVICE_TOPS);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_chunks(&t, a);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, "attention", &s->pipeline[0], k->err);
    step_group(k, s, ranges, 7);
}

static void list_attention(layer_maker *k)
{
    const qsf_wgsl_attend a = attend_variant(k);
    const bool post = k->w->v[QSF_K_ATTN_POST_NORM] != NULL;
    const qsf_wgsl_rows join = { .source = QSF_WGSL_FROM_ATTENTION, .codes = true,
                                 .sinks = k->w->v[QSF_K_ATTN_SINKS] != NULL };
    step_norm(k, "attention norm", true, QSF_K_ATTN_NORM, QSF_K_ATTN_NORM_BIAS);
    step_product(k, "queries", QSF_K_ATTN_Q, QSF_K_ATTN_Q_BIAS, QSF_DEVICE_Q, k->b->q_ld, false);
    step_product(k, "keys", QSF_K_ATTN_K, QSF_K_ATTN_K_BIAS, QSF_DEVICE_K, k->b->kv_ld, false);
    step_product(k, "values", QSF_K_ATTN_V, QSF_K_ATTN_V_BIAS, QSF_DEVICE_V, k->b->kv_ld, false);
    step_places(k, &a);
    step_chunks(k, &a);
    step_rows(k, &join, "attention codes", QSF_DEVICE_SUMS, QSF_DEVICE_TOPS,
              k->layer->n_heads * k->layer->head_dim, 0, 0, 0);
    step_product(k, "attention output", QSF_K_ATTN_OUT, QSF_K_ATTN_OUT_BIAS,
                 post ? QSF_DEVICE_TMP : QSF_DEVICE_X, k->b->ld, !post);
    if (post) step_norm(k, "norm after attention", false, QSF_K_ATTN_POST_NORM, QSF_K_ATTN_POST_NORM_BIAS);
}

static void list_feed_forward(layer_maker *k)
{
    static const qsf_wgsl_function functions[] = { [QSF_ACT_GELU] = QSF_WGSL_GELU,
                                                   [QSF_ACT_SILU] = QSF_WGSL_SILU,
                                                   [QSF_ACT_RELU] = QSF_WGSL_RELU };
    const bool gated = k->layer->feed_forward == QSF_FEED_FORWARD_GATED,
        post = k->w->v[QSF_K_FFN_POST_NORM] != NULL;
    const qsf_wgsl_rows r = { .source = gated ? QSF_WGSL_FROM_TWO : QSF_WGSL_FROM_FLOATS, .codes = true,
                              .function = functions[k->layer->act] };
    step_norm(k, "feed-forward norm", true, QSF_K_FFN_NORM, QSF_K_FFN_NORM_BIAS);
    if (gated)
        step_product(k, "gate", QSF_K_FFN_GATE, QSF_K_FFN_GATE_BIAS, QSF_DEVICE_GATE, k->b->ff_ld, false);
    step_product(k, "up", QSF_K_FFN_UP, QSF_K_FFN_UP_BIAS, QSF_DEVICE_UP, k->b->ff_ld, false);
    step_rows(k, &r, "feed-forward codes", gated ? QSF_DEVICE_GATE : QSF_DEVICE_UP, QSF_DEVICE_UP,
              k->layer->n_ff, k->b->ff_ld, 0, 0);
    step_product(k, "down", QSF_K_FFN_DOWN, QSF_K_FFN_DOWN_BIAS, post ? QSF_DEVICE_TMP : QSF_DEVICE_X,
                 k->b->ld, !post);
    if (post) step_norm(k, "norm after feed-forward", false, QSF_K_FFN_POST_NORM, QSF_K_FFN_POST_NORM_BIAS);
}

qsf_status qsf_device_layer_begin(const qsf_device_buffers *b, qsf_device_layer *l, qsf_error *err)
{
    const qsf_device *d = b->d;
    const uint64_t bytes = (uint64_t)b->n_blocks * b->bytes[QSF_DEVICE_SPARE];
    if (bytes <= d->info->max_binding)
        return d->buffer_new(d->user, QSF_DEVICE_STORAGE, bytes, &l->kv, err);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: keys and values of %llu MB are more than the GPU binds: use a "
                    "smaller context (-c)", d->info->name, (unsigned long long)(bytes / 1000000));
}

qsf_status qsf_device_layer_compile(qsf_device_buffers *b, uint32_t number, qsf_error *err)
{
    qsf_device_layer l = { 0 };
    qsf_weights w;
    qsf_weights_describe(b->source, number, &w);
    layer_maker k = { .b = b, .l = &l, .layer = &b->source->layers[number], .w = &w, .compiles = true,
                      .err = err };
    list_attention(&k);
    list_feed_forward(&k);
    return k.st;
}

qsf_status qsf_device_layer_make(qsf_device_buffers *b, qsf_device_layer *l, uint32_t number,
                                 const qsf_weights *w, qsf_error *err)
{
    const qsf_device *d = b->d;
    const qsf_layer *layer = &b->source->layers[number];
    layer_maker k = { .b = b, .l = l, .layer = layer, .w = w, .err = err };
    k.st = d->buffer_new(d->user, QSF_DEVICE_STORAGE, vectors_bytes(b, layer), &l->vectors, err);
    k.v = (layer_vectors){ b, l, 0, d->info->binding_align };
    list_attention(&k);
    list_feed_forward(&k);
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
            const qsf_status st = product_pipeline(b, s, variant, err);
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
