/* Steps of layers on a device: rows to codes, norms, products.
 * SPDX-License-Identifier: MIT */
#include "device/device_steps.h"

#include "wgsl/product_rows_wgsl.h"
#include "wgsl/product_tiles_wgsl.h"

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

static qsf_status put_matrix(qsf_device_buffers *b, qsf_device_layer *l, const qsf_matrix *m,
                             qsf_device_id *out, qsf_error *err)
{
    const uint64_t tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS,
        bytes = tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    if (bytes > b->d->info->max_binding)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "a matrix of %llu MB is more than the GPU binds",
                        (unsigned long long)(bytes / 1000000));
    const qsf_status st = qsf_device_buffer_new(b, bytes, out, err);
    if (st) return st;
    assert(l->n_weights < QSF_DEVICE_WEIGHTS);
    l->weights[l->n_weights++] = *out;
    return upload(b, *out, 0, m->t.data, bytes, err);
}

qsf_status qsf_device_vectors_new(qsf_device_maker *k, uint64_t more)
{
    const qsf_device_buffers *b = k->b;
    const uint64_t align = b->d->info->binding_align;
    const uint64_t widest = QSF_MAX(QSF_MAX((uint64_t)b->ld, b->q_ld), QSF_MAX((uint64_t)b->ff_ld, b->kv_ld));
    const uint64_t bytes = 16 * qsf_round_up(2 * widest * sizeof(float), align) + qsf_round_up(more, align);
    return qsf_device_buffer_new(k->b, bytes, &k->l->vectors, k->err);
}

qsf_device_range qsf_device_put_vector(qsf_device_maker *k, const float *x, const float *more, size_t n)
{
    if (k->compiles) return (qsf_device_range){ 0 };
    const qsf_device_range r = { k->l->vectors, k->vectors_at, (more ? 2 * n : n) * sizeof *x };
    if (!k->st) k->st = upload(k->b, r.buffer, r.at, x, n * sizeof *x, k->err);
    if (!k->st && more) k->st = upload(k->b, r.buffer, r.at + n * sizeof *x, more, n * sizeof *x, k->err);
    k->vectors_at = qsf_round_up(k->vectors_at + r.len, k->b->d->info->binding_align);
    return r;
}

/* ---- steps ---- */

const char *qsf_device_matrix_refused(const qsf_matrix *m)
{
    if (!m->t.rows) return NULL;
    if (m->form < 0 || !qsf_wgsl_has_form((qsf_form)m->form) || m->lut) return "a type of its weights";
    return m->out_start || m->scale != 1 ? "its outliers" : NULL;
}

qsf_device_range qsf_device_all_of(const qsf_device_buffers *b, qsf_device_name name)
{
    return (qsf_device_range){ b->of[name], 0, b->bytes[name] };
}

void *qsf_device_step_new(qsf_device_maker *k, qsf_device_work work, const char *name, qsf_device_step **out)
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

void qsf_device_step_group(qsf_device_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n)
{
    const qsf_device *d = k->b->d;
    const uint32_t place = k->l->numbers_at + (uint32_t)(s - k->l->steps);
    if (k->compiles) return;
    ranges[0] = (qsf_device_range){ k->b->numbers, (uint64_t)place * QSF_DEVICE_NUMBERS, QSF_DEVICE_NUMBERS };
    if (!k->st) k->st = d->group_new(d->user, s->pipeline[0], ranges, n, &s->group, k->err);
}

void qsf_device_step_rows(qsf_device_maker *k, const qsf_wgsl_rows *r, const char *name, qsf_device_name a,
                      qsf_device_name b, uint32_t cols, uint32_t a_ld, int norm, int bias)
{
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[8];
    uint32_t n = 1;
    qsf_wgsl_rows_numbers *x = qsf_device_step_new(k, QSF_DEVICE_ROWS, name, &s);
    *x = (qsf_wgsl_rows_numbers){ .cols = cols, .a_ld = a_ld, .b_ld = a_ld, .x_ld = qsf_device_codes_ld(cols),
                                  .y_ld = k->b->ld, .eps = k->layer->norm.eps, .heads = k->layer->n_heads,
                                  .head_dim = k->layer->head_dim, .room = k->b->kv.head_dim };
    s->joins = r->source == QSF_WGSL_FROM_ATTENTION;
    s->wide = r->norm ? 1 : r->codes ? (x->x_ld + 79) / 80 : (cols + 1023) / 1024;
    ranges[n++] = qsf_device_all_of(k->b, a);
    if (r->source == QSF_WGSL_FROM_TWO || s->joins) ranges[n++] = qsf_device_all_of(k->b, b);
    if (r->norm) ranges[n++] = qsf_device_put_vector(k, k->w->v[norm], NULL, cols);
    if (r->bias) ranges[n++] = qsf_device_put_vector(k, k->w->v[bias], NULL, cols);
    if (r->sinks) ranges[n++] = qsf_device_put_vector(k, k->w->v[QSF_K_ATTN_SINKS], NULL, x->heads);
    ranges[n++] = qsf_device_all_of(k->b, r->codes ? QSF_DEVICE_CODES : QSF_DEVICE_X);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_rows_text(&t, r);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, name, &s->pipeline[0], k->err);
    qsf_device_step_group(k, s, ranges, n);
}

void qsf_device_step_norm(qsf_device_maker *k, const char *name, bool in, int norm, int bias)
{
    const qsf_wgsl_rows r = {
        .source = QSF_WGSL_FROM_FLOATS,
        .norm = k->layer->norm.kind == QSF_NORM_RMS ? QSF_WGSL_RMS_NORM : QSF_WGSL_LAYER_NORM,
        .bias = k->w->v[bias] != NULL, .codes = in, .floats = !in, .add = !in,
    };
    qsf_device_step_rows(k, &r, name, in ? QSF_DEVICE_X : QSF_DEVICE_TMP, QSF_N_DEVICE_NAMES,
                         k->b->source->hp.n_embd, k->b->ld, norm, bias);
}

/* A variant of a product: for 1, 2, 4 or 8 rows, or for more. */
qsf_status qsf_device_product_pipeline(qsf_device_buffers *b, qsf_device_step *s, uint32_t variant,
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

void qsf_device_step_matrix(qsf_device_maker *k, const char *name, const qsf_matrix *m, const float *bias,
                            const qsf_device_to *to)
{
    qsf_device_step *s;
    qsf_device_range ranges[5];
    uint32_t n = 2;
    const uint32_t tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
    qsf_wgsl_product_numbers *x = qsf_device_step_new(k, QSF_DEVICE_PRODUCT, name, &s);
    *x = (qsf_wgsl_product_numbers){ .rows = m->t.rows, .tiles = tiles, .blocks = m->blocks,
                                     .x_ld = qsf_device_codes_ld(m->t.cols), .y_ld = to->ld, .y_at = to->at };
    s->product = (qsf_wgsl_product){ .form = (qsf_form)m->form, .block = m->t.block, .bias = bias != NULL,
                                     .add = to->add };
    s->wide = tiles;
    s->slices = m->t.cols >= 1024 && tiles < 4096 ? 16 : 8;
    if (!k->st && !k->compiles) k->st = put_matrix(k->b, k->l, m, &ranges[1].buffer, k->err);
    ranges[1].at = 0;
    ranges[1].len = (uint64_t)tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_CODES);
    ranges[n++] = qsf_device_all_of(k->b, to->buffer);
    if (bias) ranges[n++] = qsf_device_put_vector(k, bias, NULL, m->t.rows);
    for (uint32_t i = 0; i < (k->compiles ? QSF_DEVICE_VARIANTS : 1) && !k->st; i++)
        k->st = qsf_device_product_pipeline(k->b, s, i, k->err);
    qsf_device_step_group(k, s, ranges, n);
}

void qsf_device_step_product(qsf_device_maker *k, const char *name, int kind, int bias, qsf_device_name to,
                             uint32_t ld, bool add)
{
    const qsf_device_to place = { to, ld, 0, add };
    qsf_device_step_matrix(k, name, &k->w->m[kind], k->w->v[bias], &place);
}

void qsf_device_step_out(qsf_device_maker *k, const char *name, int kind, int bias)
{
    const qsf_device_name to = k->apart ? QSF_DEVICE_TMP : QSF_DEVICE_X;
    qsf_device_step_product(k, name, kind, bias, to, k->b->ld, !k->apart);
}
