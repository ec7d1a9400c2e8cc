/* Layers for a device.
 * SPDX-License-Identifier: MIT */
#include "device/device_choose.h"

#include "device/device_embedding.h"
#include "device/device_stream.h"
#include "model/part.h"

/* ---- what is possible ---- */

static const char *context_refused(const qsf_context *c)
{
    const qsf_context_options *o = &c->o;
    if (qsf_part_shared(c->model->source)) return "shares of layers";
    if (o->f32) return "f32";
    if (qsf_rows_most(o) > QSF_WGSL_DISPATCH) return "a batch of more than 65535 rows";
    if (o->act_quant != QSF_ACT_BLOCK) return "act-quant row";
    if (o->early_exit > 0) return "early-exit";
    if (o->quality < 1) return "quality below 1";
    if (o->kv_heavy) return "kv-heavy";
    if (o->first_stage) return "the first stage of a progressive file";
    return NULL;
}

static uint64_t matrix_room(const qsf_matrix *m)
{
    const uint64_t tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
    return m->form < 0 ? m->t.bytes : tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
}

/* Matrices of experts are bound in parts of whole experts. */
static bool bound_in_parts(uint32_t kind)
{
    return kind == QSF_K_EXPERT_GATE || kind == QSF_K_EXPERT_UP || kind == QSF_K_EXPERT_DOWN;
}

/* Bytes of a layer's matrices, and of the largest one, or an expert's part of it. */
static uint64_t layer_matrices(const qsf_source *s, uint32_t layer, uint64_t *largest)
{
    qsf_weights w;
    uint64_t all = 0;
    *largest = 0;
    qsf_weights_describe(s, layer, &w);
    for (uint32_t i = 0; i < QSF_N_KINDS; i++) {
        const uint64_t bytes = w.m[i].t.rows ? matrix_room(&w.m[i]) : 0;
        all += bytes;
        *largest = QSF_MAX(*largest, bytes && bound_in_parts(i) ? bytes / s->layers[layer].n_experts : bytes);
    }
    return all;
}

/* Why the device does not compute a layer; "": it does. */
static void layer_refused(const qsf_context *c, const qsf_device_info *info, uint32_t layer, char *why,
                          size_t len)
{
    const qsf_source *s = c->model->source;
    const char *what = qsf_device_layer_refused(s, layer, &c->o);
    uint64_t largest;
    why[0] = 0;
    if (!what && c->experts.fetch && s->layers[layer].n_experts) what = "its experts are read one by one";
    if (what) {
        qsf_format(why, len, "layer %u: %s", (unsigned)layer, what);
        return;
    }
    (void)layer_matrices(s, layer, &largest);
    if (largest > info->max_binding)
        qsf_format(why, len, "layer %u: a matrix of %llu MB, of which the GPU binds %llu MB",
                   (unsigned)layer, (unsigned long long)(largest / 1000000),
                   (unsigned long long)(info->max_binding / 1000000));
}

/* The longest run of layers that a device can compute.  left: the first of the others. */
static void find_layers(const qsf_context *c, const qsf_device_info *info, qsf_device_choice *out)
{
    const qsf_source *s = c->model->source;
    char why[sizeof out->left];
    uint32_t begin = s->n_before;
    for (uint32_t i = begin; i < qsf_part_end(s); i++) {
        layer_refused(c, info, i, why, sizeof why);
        if (why[0] && !out->left[0]) memcpy(out->left, why, sizeof why);
        if (why[0]) begin = i + 1;
        else if (i + 1 - begin > out->end - out->first) out->first = begin, out->end = i + 1;
    }
}

/* Layers that read keys of an earlier one, and that one, are on the same side. */
static void keep_together(const qsf_source *s, qsf_device_choice *x)
{
    uint32_t read = 0;
    while (read < s->hp.n_layers && !s->layers[read].kv_read) read++;
    if (read == s->hp.n_layers || (x->first <= read && x->end == qsf_part_end(s))) return;
    x->end = QSF_MAX(x->first, QSF_MIN(x->end, read));
    if (!x->left[0]) qsf_format(x->left, sizeof x->left, "layers that read other layers' keys");
}

/* ---- memory ---- */

/* Of the head, if it goes there with the last layer. */
static void head_bytes(const qsf_context *c, uint64_t *weights, uint64_t *logits)
{
    const qsf_source *s = c->model->source;
    *weights = *logits = 0;
    if (!qsf_part_ends(s) || c->o.head != QSF_HEAD_EXACT) return;
    const qsf_matrix_place place = qsf_place_head(s);
    if (!place.t) return;
    *weights = place.t->bytes;
    *logits = (uint64_t)c->o.n_logits * qsf_round_up(c->hp->n_vocab, QSF_TILE_ROWS) * sizeof(float);
}

/* Norms and biases of a layer, of which there are some sixteen at most. */
static uint64_t vectors_bytes(const qsf_device_buffers *b)
{
    const uint64_t widest = QSF_MAX(QSF_MAX(b->ld, b->qkv_ld), b->ff_ld) * sizeof(float);
    return 16 * qsf_round_up(widest, b->align);
}

static uint64_t layer_weights(const qsf_device_buffers *b, uint32_t layer)
{
    uint64_t largest;
    return layer_matrices(b->source, layer, &largest) + vectors_bytes(b);
}

/* Fills in what [first, end) takes. */
static void choice_bytes(const qsf_context *c, const qsf_device_buffers *b, qsf_device_choice *x)
{
    uint64_t head = 0, logits = 0;
    if (x->end == c->hp->n_layers) head_bytes(c, &head, &logits);
    x->batch = logits + (uint64_t)b->most_numbers * QSF_DEVICE_NUMBERS;
    for (uint32_t i = 0; i < QSF_N_DEVICE_NAMES; i++) x->batch += b->bytes[i];
    x->kv = (x->end - x->first + x->streamed) * (uint64_t)b->n_blocks * b->bytes[QSF_DEVICE_SPARE];
    x->weights = head + x->streamed * vectors_bytes(b);
    for (uint32_t i = x->first; i < x->end; i++) x->weights += layer_weights(b, i);
}

static uint64_t choice_total(const qsf_device_choice *x)
{
    return x->weights + x->kv + x->batch + QSF_DEVICE_LAYER_SLOTS * x->slot;
}

/* Leaves the first layers out until the rest fits. */
static qsf_status choice_fit(const qsf_context *c, const qsf_device_buffers *b, uint64_t memory,
                             qsf_device_choice *x, qsf_error *err)
{
    const uint32_t first = x->first;
    choice_bytes(c, b, x);
    while (memory && choice_total(x) > memory && x->first + 1 < x->end) {
        x->first++;
        choice_bytes(c, b, x);
    }
    if (memory && choice_total(x) > memory)
        return qsf_fail(err, QSF_E_BUDGET, "one layer needs %llu MB of the GPU's memory (weights %llu, "
                        "keys and values %llu, batch %llu), the limit is %llu MB: raise it, or "
                        QSF_DEVICE_SMALLER,
                        (unsigned long long)qsf_ceil_div(choice_total(x), 1000000),
                        (unsigned long long)(x->weights / 1000000), (unsigned long long)(x->kv / 1000000),
                        (unsigned long long)(x->batch / 1000000), (unsigned long long)(memory / 1000000));
    if (x->first > first && !x->left[0])
        qsf_format(x->left, sizeof x->left, "%u of %u layers fit into %llu MB", (unsigned)(x->end - x->first),
                   (unsigned)(x->end - first), (unsigned long long)(memory / 1000000));
    return QSF_OK;
}

/* Layers [begin, x->first), which do not fit, pass through slots: for these, and for keys and
 * values, more of the others make room.  If that is not possible, x is unchanged. */
static void choose_stream(const qsf_context *c, const qsf_device_buffers *b, const qsf_device_info *info,
                          uint32_t begin, qsf_device_choice *x)
{
    qsf_device_choice new = *x;
    uint64_t largest;
#if defined(QSF_NEVER_WAITS)
    if (c->o.device_stream == QSF_STREAM_AUTO) return;
#endif
    if (c->o.device_stream == QSF_STREAM_OFF || begin == x->first) return;
    for (uint32_t i = begin; i < x->end; i++) if (c->model->source->layers[i].kv_read) return;
    do {
        new.streamed = new.first - begin;
        new.slot = 0;
        for (uint32_t i = begin; i < new.first; i++)
            new.slot = QSF_MAX(new.slot, layer_matrices(c->model->source, i, &largest));
        new.slot = qsf_round_up(new.slot, b->align) + QSF_DEVICE_WEIGHTS * b->align;
        choice_bytes(c, b, &new);
    } while (choice_total(&new) > x->memory && ++new.first < new.end);
    if (new.first == new.end || new.slot > info->max_buffer) return;
    qsf_format(new.left, sizeof new.left, "%u of %u layers fit into %llu MB",
               (unsigned)(new.end - new.first), (unsigned)(new.end - begin),
               (unsigned long long)(x->memory / 1000000));
    *x = new;
}

/* The embedding goes there with the first layer, if the head has its matrix or it fits, too. */
static void choose_embedding(const qsf_context *c, uint64_t memory, qsf_device_choice *x)
{
    const qsf_source *s = c->model->source;
    if (x->first || !qsf_part_begins(s) || !qsf_device_embedding_possible(s, &c->embedding, &c->o)) return;
    uint64_t head, logits, bytes = qsf_device_embedding_bytes(s);
    head_bytes(c, &head, &logits);
    if (s->hp.tied && (x->end < c->hp->n_layers || !head)) bytes = qsf_place_head(s).t->bytes;
    x->embedding = !memory || choice_total(x) + bytes <= memory;
    if (x->embedding) x->weights += bytes;
}

qsf_status qsf_device_choose(const qsf_context *c, const qsf_device_info *info, uint32_t n_layers,
                             uint64_t memory, qsf_device_choice *out, qsf_error *err)
{
    const qsf_source *s = c->model->source;
    const char *why = context_refused(c);
    qsf_device_buffers b;
    *out = (qsf_device_choice){ .memory = memory };
    if (why) return qsf_fail(err, QSF_E_UNSUPPORTED, "%s cannot be combined with layers on a GPU", why);
    find_layers(c, info, out);
    keep_together(s, out);
    if (out->first == out->end)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: a GPU cannot compute any of its layers (%s)", s->path,
                        out->left);
    if (out->end - out->first > n_layers) {
        out->first = out->end - n_layers;
        if (!out->left[0])
            qsf_format(out->left, sizeof out->left, "at most %u on the GPU", (unsigned)n_layers);
    }
    qsf_device_buffers_sizes(&b, s, &c->o, &c->executor->kv, info);
    const uint32_t begin = out->first;
    const qsf_status st = choice_fit(c, &b, memory, out, err);
    if (st) return st;
    keep_together(s, out);
    choice_bytes(c, &b, out);
    choose_stream(c, &b, info, begin, out);
    choose_embedding(c, memory, out);
    return out->first < out->end ? QSF_OK
        : qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers that read other layers' keys need more on the GPU",
                   s->path);
}
