/* The head as dispatches.
 * SPDX-License-Identifier: MIT */
#include "device/device_head.h"

#include "device/device_steps.h"
#include "weights/layers.h"

/* The head's matrix and bias, the final norm's vectors. */
typedef struct head_weights { qsf_matrix m; const float *bias; qsf_weights final; bool scaled; } head_weights;

static bool head_is_scaled(const qsf_device_buffers *b, const qsf_head_stream *s)
{
    return qsf_device_scaled(b->source, qsf_source_unit(b->source, s->place.unit), s->place.t->kind);
}

/* The weights, described alone: what pipelines need. */
static void head_describe(const qsf_device_buffers *b, const qsf_head_stream *s, head_weights *w)
{
    qsf_weights unit;
    qsf_weights_describe(b->source, qsf_source_unit(b->source, s->place.unit), &unit);
    qsf_weights_describe(b->source, qsf_unit_final(b->source), &w->final);
    w->m = unit.m[s->place.t->kind];
    w->bias = w->final.v[QSF_K_OUTPUT_BIAS];
    w->scaled = head_is_scaled(b, s);
}

/* Bytes of the rows of a tile. */
static uint64_t strip_bytes(const qsf_matrix *m)
{
    if (m->form < 0) return m->t.bytes / m->t.rows * QSF_TILE_ROWS;
    return (uint64_t)m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
}

/* Parts of the matrix that the device can bind, at most. */
uint32_t qsf_device_matrix_rows(const qsf_device_buffers *b, const qsf_matrix *m)
{
    const uint64_t strips = QSF_MAX(b->d->info->max_binding / strip_bytes(m), 1);
    return (uint32_t)QSF_MIN(strips * QSF_TILE_ROWS, m->t.rows);
}

qsf_matrix qsf_device_matrix_part(const qsf_matrix *m, uint32_t at, uint32_t rows)
{
    qsf_matrix part = *m;
    part.t.rows = QSF_MIN(rows, m->t.rows - at);
    part.t.bytes = part.t.rows * (m->t.bytes / m->t.rows);
    if (m->t.data) part.t.data = (const uint8_t *)m->t.data + at / QSF_TILE_ROWS * strip_bytes(m);
    return part;
}

bool qsf_device_pieces_fit(const qsf_source *s, const qsf_matrix_place *p, const qsf_matrix *m)
{
    return m->form < 0 || p->t->packing == 1 || qsf_place_tiles(s, p);
}

qsf_status qsf_device_matrix_fill(const qsf_device_buffers *b, const qsf_device_id *to, const qsf_matrix *m,
                                  uint32_t row, const qsf_matrix *piece, qsf_error *err)
{
    const uint32_t rows = qsf_device_matrix_rows(b, m), end = row + piece->t.rows;
    qsf_status st = QSF_OK;
    for (uint32_t at = row; at < end && !st;) {
        const uint32_t part = at / rows, n = QSF_MIN((part + 1) * rows, end) - at;
        const qsf_matrix some = qsf_device_matrix_part(piece, at - row, n);
        const uint64_t place = (at - part * rows) / QSF_TILE_ROWS * strip_bytes(m);
        st = qsf_device_upload_matrix(b, to[part], place, &some, err);
        at += n;
    }
    return st;
}

static bool head_fits(const qsf_device_buffers *b, const qsf_head_stream *s, const head_weights *w)
{
    const qsf_hparams *hp = &b->source->hp;
    const uint64_t logits = (uint64_t)b->o->n_logits * b->head_ld * sizeof(float);
    if (b->o->head != QSF_HEAD_EXACT) return false;
    if (s->streamed && !qsf_device_pieces_fit(b->source, &s->place, &w->m)) return false;
    if (hp->flow == QSF_FLOW_SUMS || hp->both_ways || hp->n_classes) return false;
    if (w->bias && hp->logit_scale != 0 && hp->logit_scale != 1) return false;
    if (!w->m.t.rows || qsf_device_matrix_refused(&w->m) || logits > b->d->info->max_binding) return false;
    return qsf_ceil_div(w->m.t.rows, qsf_device_matrix_rows(b, &w->m)) <= QSF_DEVICE_WEIGHTS;
}

static void head_list(qsf_device_maker *k, const head_weights *w)
{
    const uint32_t rows = qsf_device_matrix_rows(k->b, &w->m);
    qsf_device_rows in = { .name = "final norm", .a = QSF_DEVICE_X, .cols = k->b->source->hp.n_embd,
                           .ld = k->b->ld };
    qsf_device_set_norm(k, &in, QSF_K_OUTPUT_NORM, QSF_K_OUTPUT_NORM_BIAS);
    qsf_device_add_input_of(k, in, &w->m);
    for (uint32_t at = 0; at < w->m.t.rows; at += rows) {
        const qsf_matrix part = qsf_device_matrix_part(&w->m, at, rows);
        const qsf_device_to to = { QSF_DEVICE_LOGITS, k->b->head_ld, at, false, w->scaled, 1 };
        qsf_device_step_matrix(k, "head", &part, w->bias && !k->compiles ? w->bias + at : w->bias, &to);
    }
}

/* The last layer's record with the final norm's. */
static qsf_layer head_layer(const qsf_source *s)
{
    qsf_layer l = s->layers[s->hp.n_layers - 1];
    l.norm = qsf_norm_of(&s->hp);
    return l;
}

static qsf_status head_make(qsf_device_head *h, qsf_device_buffers *b, const head_weights *w,
                            const qsf_device_id *tied, bool compiles, qsf_error *err)
{
    const qsf_layer layer = head_layer(b->source);
    qsf_device_layer spare = { 0 };
    qsf_device_maker k = { .b = b, .l = compiles ? &spare : &h->steps, .layer = &layer, .w = &w->final,
                           .number = b->source->hp.n_layers, .given = tied, .compiles = compiles,
                           .err = err };
    if (!compiles) k.st = qsf_device_buffer_new(b, h->steps.vectors_bytes, &h->steps.vectors, err);
    head_list(&k, w);
    if (compiles) h->steps.vectors_bytes = QSF_MAX(k.vectors_at, QSF_DEVICE_ALIGN);
    if (!compiles) h->steps.ready = !k.st;
    return k.st;
}

bool qsf_device_head_possible(const qsf_source *s, const qsf_context_options *o, const qsf_device_info *info,
                              const qsf_head_stream *head, uint32_t ld)
{
    const qsf_device d = { .size = sizeof d, .info = info };
    const qsf_device_buffers b = { .source = s, .o = o, .d = &d, .head_ld = ld };
    head_weights w;
    head_describe(&b, head, &w);
    return head_fits(&b, head, &w);
}

qsf_status qsf_device_head_begin(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                 uint32_t ld, qsf_error *err)
{
    head_weights w;
    b->head_ld = ld;
    head_describe(b, s, &w);
    h->here = head_fits(b, s, &w);
    if (!h->here) return QSF_OK;
    b->bytes[QSF_DEVICE_LOGITS] = (uint64_t)b->o->n_logits * ld * sizeof(float);
    const qsf_status st = qsf_device_buffer_new(b, b->bytes[QSF_DEVICE_LOGITS],
                                                &b->of[QSF_DEVICE_LOGITS], err);
    return st ? st : head_make(h, b, &w, NULL, true, err);
}

qsf_status qsf_device_head_bring(qsf_device_head *h, qsf_device_buffers *b, const qsf_head_stream *s,
                                 const qsf_head_units *units, uint32_t number, const qsf_device_id *tied,
                                 qsf_error *err)
{
    const bool pieces = s->streamed && !tied;
    qsf_head_part part = { 0 };
    qsf_status st = QSF_OK;
    head_weights w;
    head_describe(b, s, &w);
    w.final = *units->final;
    if (pieces || !s->streamed) part = qsf_head_stream_part(s, number, units);
    if (!s->streamed) w.m = part.m, w.bias = part.bias;
    if (!h->steps.n_steps) st = head_make(h, b, &w, tied, false, err);
    if (!st && pieces) st = qsf_device_matrix_fill(b, h->steps.weights, &w.m, part.row, &part.m, err);
    h->steps.ready = !st && (!pieces || number + 1 == s->n_parts);
    return st;
}

qsf_status qsf_device_head_list(qsf_device_head *h, qsf_device_buffers *b, uint32_t first, uint32_t n,
                                qsf_device_dispatch *list, size_t *len, qsf_error *err)
{
    const qsf_device_batch batch = { .n = n };
    qsf_status st = QSF_OK;
    if (h->first != first || h->n != n) {
        qsf_device_layer_batch(b, &h->steps, &batch);
        qsf_wgsl_rows_numbers *norm = qsf_device_numbers_at(b, h->steps.numbers_at);
        norm->a_at = first * b->ld;
        if ((st = qsf_device_numbers_write(b, h->steps.numbers_at, h->steps.n_steps, err))) return st;
        h->first = first;
        h->n = n;
    }
    return qsf_device_layer_list(b, &h->steps, &batch, list, len, err);
}

void qsf_device_head_finish(const qsf_kernels *k, const qsf_hparams *hp, float *logits)
{
    const float scale = hp->logit_scale, cap = hp->final_softcap;
    if (scale != 0 && scale != 1) k->vec_scale(logits, scale, hp->n_vocab);
    if (cap > 0) k->softcap_inplace(logits, cap, hp->n_vocab);
}

void qsf_device_head_done(qsf_device_head *h, const qsf_device_buffers *b)
{
    if (h->here) qsf_device_layer_done(b, &h->steps);
    *h = (qsf_device_head){ 0 };
}
