/* Steps of layers on a device: rows to codes, norms, products.
 * SPDX-License-Identifier: MIT */
#include "device/device_steps.h"

#include "lut.h"

#include "wgsl/product_rows_wgsl.h"
#include "wgsl/product_tiles_wgsl.h"

/* ---- weights ---- */

enum { UPLOAD = 4 << 20 };      /* bytes of a piece */

qsf_status qsf_device_upload(const qsf_device_buffers *b, qsf_device_id to, uint64_t at, const void *from,
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

/* Of floats a multiple of 4, though the last row may end before. */
static uint64_t matrix_bytes(const qsf_matrix *m)
{
    const uint64_t tiles = (m->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
    if (m->form < 0) return qsf_round_up(m->t.bytes, QSF_DEVICE_ALIGN);
    return tiles * m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
}

/* Tiles for look-ups are brought back to the usual order, a row of them at a time. */
static qsf_status upload_turned(const qsf_device_buffers *b, qsf_device_id to, uint64_t begin,
                                const qsf_matrix *m, qsf_error *err)
{
    const uint64_t all = matrix_bytes(m), row = m->blocks * qsf_tile_bytes((qsf_form)m->form, m->t.block);
    qsf_status st = QSF_OK;
    uint8_t *mine = qsf_alloc(b->platform, row, "a row of tiles", err);
    if (!mine) return QSF_E_MEMORY;
    for (uint64_t at = 0; at < all && !st; at += row) {
        qsf_lut_turn_back(mine, (const uint8_t *)m->t.data + at, (size_t)row);
        st = qsf_device_upload(b, to, begin + at, mine, row, err);
    }
    qsf_dealloc(b->platform, mine, row);
    return st;
}

qsf_status qsf_device_upload_matrix(const qsf_device_buffers *b, qsf_device_id to, uint64_t at,
                                    const qsf_matrix *m, qsf_error *err)
{
    const uint64_t bytes = matrix_bytes(m), whole = m->t.bytes / QSF_DEVICE_ALIGN * QSF_DEVICE_ALIGN;
    uint8_t end[QSF_DEVICE_ALIGN] = { 0 };
    if (m->lut) return upload_turned(b, to, at, m, err);
    if (m->form >= 0) return qsf_device_upload(b, to, at, m->t.data, bytes, err);
    memcpy(end, (const uint8_t *)m->t.data + whole, (size_t)(m->t.bytes - whole));
    const qsf_status st = qsf_device_upload(b, to, at, m->t.data, whole, err);
    return st || whole == bytes ? st : qsf_device_upload(b, to, at + whole, end, sizeof end, err);
}

static qsf_status weights_full(const qsf_device_maker *k)
{
    return qsf_fail(k->err, QSF_E_UNSUPPORTED, "a layer has more than %d parts that the GPU binds",
                    (int)QSF_DEVICE_WEIGHTS);
}

/* Room in the layer's slot. */
static qsf_status slot_room(qsf_device_maker *k, qsf_device_range *r)
{
    r->buffer = k->l->slot;
    r->at = k->l->slot_at;
    k->l->slot_at = qsf_round_up(r->at + r->len, k->b->d->info->binding_align);
    return k->l->slot_at <= k->b->slot_bytes ? QSF_OK : weights_full(k);
}

/* Notes what the slot has at `at`; bytes 0: the whole matrix. */
static qsf_status note_part(qsf_device_maker *k, const qsf_matrix *m, uint64_t from, uint64_t bytes,
                            uint64_t at)
{
    qsf_device_layer *l = k->l;
    if (!qsf_device_layer_passes(l)) return QSF_OK;
    if (l->n_parts == QSF_DEVICE_WEIGHTS) return weights_full(k);
    l->parts[l->n_parts++] = (qsf_device_part_of){ (uint32_t)(m - k->w->m), from, bytes, at };
    return QSF_OK;
}

/* Room for r->len bytes of the layer's weights: in its slot, or a buffer of their own. */
static qsf_status weights_new(qsf_device_maker *k, qsf_device_range *r)
{
    if (qsf_device_layer_passes(k->l)) return slot_room(k, r);
    if (k->l->n_weights == QSF_DEVICE_WEIGHTS) return weights_full(k);
    const qsf_status st = qsf_device_buffer_new(k->b, r->len, &r->buffer, k->err);
    if (!st) k->l->weights[k->l->n_weights++] = r->buffer;
    return st;
}

/* Matrices, one after the other. */
static qsf_device_range put_matrices(qsf_device_maker *k, const qsf_device_products *p)
{
    qsf_device_range r = { 0 };
    for (uint32_t i = 0; i < p->n; i++) r.len += matrix_bytes(p->m[i]);
    if (k->compiles || k->st) return r;
    if (k->given) {
        r.buffer = *k->given++;
        return r;
    }
    if (r.len > k->b->d->info->max_binding) {
        k->st = qsf_fail(k->err, QSF_E_UNSUPPORTED, "a matrix of %llu MB is more than the GPU binds",
                         (unsigned long long)(r.len / 1000000));
        return r;
    }
    k->st = weights_new(k, &r);
    uint64_t at = r.at;
    for (uint32_t i = 0; i < p->n && !k->st; i++) {
        if ((k->st = note_part(k, p->m[i], 0, 0, at))) break;
        if (p->m[i]->t.data) k->st = qsf_device_upload_matrix(k->b, r.buffer, at, p->m[i], k->err);
        at += matrix_bytes(p->m[i]);
    }
    return r;
}

qsf_device_range qsf_device_put_matrix(qsf_device_maker *k, const qsf_matrix *m)
{
    return put_matrices(k, &(qsf_device_products){ .m = { m }, .n = 1 });
}

qsf_device_range qsf_device_put_tiles(qsf_device_maker *k, const qsf_matrix *m, uint64_t from,
                                      uint64_t bytes)
{
    qsf_device_range r = { 0, 0, bytes };
    if (k->compiles || k->st || (k->st = weights_new(k, &r))) return r;
    k->st = note_part(k, m, from, bytes, r.at);
    if (!k->st)
        k->st = qsf_device_upload(k->b, r.buffer, r.at, (const uint8_t *)m->t.data + from, bytes, k->err);
    return r;
}

/* Room in the layer's vectors; while pipelines are compiled it is only counted. */
static qsf_device_range vector_room(qsf_device_maker *k, size_t n)
{
    const qsf_device_range r = { k->l->vectors, k->vectors_at, n * sizeof(float) };
    k->vectors_at = qsf_round_up(k->vectors_at + r.len, k->b->d->info->binding_align);
    return r;
}

qsf_device_range qsf_device_put_vector(qsf_device_maker *k, const float *x, size_t n)
{
    return qsf_device_put_vectors(k, x, n, NULL, 0);
}

qsf_device_range qsf_device_put_vectors(qsf_device_maker *k, const float *x, size_t n, const float *more,
                                        size_t n_more)
{
    const qsf_device_range r = vector_room(k, n + n_more);
    if (k->compiles) return r;
    if (!k->st) k->st = qsf_device_upload(k->b, r.buffer, r.at, x, n * sizeof *x, k->err);
    if (!k->st && n_more)
        k->st = qsf_device_upload(k->b, r.buffer, r.at + n * sizeof *x, more, n_more * sizeof *more, k->err);
    return r;
}

/* The biases of all rows of some matrices, if one has them; 0 bytes: none has. */
static qsf_device_range put_biases(qsf_device_maker *k, const qsf_device_products *p)
{
    uint32_t rows = 0, n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        rows += p->m[i]->t.rows;
        n += p->bias[i] != NULL;
    }
    if (!n) return (qsf_device_range){ 0 };
    const qsf_device_range r = vector_room(k, rows);
    uint64_t at = r.at;
    for (uint32_t i = 0; i < p->n && !k->compiles; i++) {
        const size_t bytes = p->m[i]->t.rows * sizeof(float);
        if (p->bias[i] && !k->st) k->st = qsf_device_upload(k->b, r.buffer, at, p->bias[i], bytes, k->err);
        at += bytes;
    }
    return r;
}

/* ---- steps ---- */

qsf_device_range qsf_device_all_of(const qsf_device_buffers *b, qsf_device_name name)
{
    return (qsf_device_range){ b->of[name], 0, b->bytes[name] };
}

void *qsf_device_step_new(qsf_device_maker *k, qsf_device_work work, const char *name, qsf_device_step **out)
{
    uint32_t place;
    if (!k->compiles && !k->st && k->l->n_steps == QSF_DEVICE_STEPS)
        k->st = qsf_fail(k->err, QSF_E_UNSUPPORTED, "a layer has more than %d dispatches",
                         (int)QSF_DEVICE_STEPS);
    const bool full = k->l->n_steps == QSF_DEVICE_STEPS;
    *out = k->compiles || full ? &k->none : &k->l->steps[k->l->n_steps++];
    **out = (qsf_device_step){ .work = (uint8_t)work, .name = name, .of = k->of };
    if (k->compiles || full) return &k->spare;
    void *numbers = qsf_device_numbers(k->b, &place);
    if (k->l->n_steps == 1) k->l->numbers_at = place;
    return numbers;
}

void qsf_device_step_group(qsf_device_maker *k, qsf_device_step *s, qsf_device_range *ranges, uint32_t n)
{
    const qsf_device *d = k->b->d;
    if (k->compiles || k->st) return;
    const uint32_t place = k->l->numbers_at + (uint32_t)(s - k->l->steps);
    ranges[0] = (qsf_device_range){ k->b->numbers, (uint64_t)place * QSF_DEVICE_NUMBERS, QSF_DEVICE_NUMBERS };
    uint32_t i = 0;             /* any variant has the same bindings */
    while (i < QSF_DEVICE_VARIANTS - 1 && !s->pipeline[i]) i++;
    k->st = d->group_new(d->user, s->pipeline[i], ranges, n, &s->group, k->err);
}

/* Whether a binding is left for flags. */
static bool flags_fit(const qsf_wgsl_rows *r)
{
    return (r->source != QSF_WGSL_FROM_ITSELF) + (r->source == QSF_WGSL_FROM_TWO) +
        (r->source == QSF_WGSL_FROM_ATTENTION) + (r->norm && !r->bare) + r->bias + r->sinks + r->gated +
        r->codes + r->floats < 8;
}

void qsf_device_add_rows(qsf_device_maker *k, const qsf_device_rows *x)
{
    qsf_wgsl_rows own = x->r;
    const qsf_wgsl_rows *r = &own;
    own.flags = flags_fit(r);
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_device_range ranges[QSF_WGSL_BINDINGS];
    uint32_t n = 1;
    qsf_wgsl_rows_numbers *p = qsf_device_step_new(k, QSF_DEVICE_ROWS, x->name, &s);
    *p = (qsf_wgsl_rows_numbers){ .cols = x->cols, .a_ld = x->ld, .a_at = x->at, .b_ld = x->ld,
                                  .b_at = x->b_at, .x_ld = qsf_device_codes_ld(x->cols), .y_ld = x->to_ld,
                                  .eps = k->layer->norm.eps, .heads = k->layer->n_heads,
                                  .head_dim = k->layer->head_dim, .room = k->b->room, .gate_ld = k->b->q_ld,
                                  .gain = x->gain, .flag = qsf_device_flag(k) };
    if (x->of_function) memcpy(p->of_function, x->of_function, sizeof p->of_function);
    s->joins = r->source == QSF_WGSL_FROM_ATTENTION;
    s->wide = r->norm ? 1 : r->codes ? (p->x_ld + 79) / 80 : (x->cols + 1023) / 1024;
    if (r->source != QSF_WGSL_FROM_ITSELF) ranges[n++] = qsf_device_all_of(k->b, x->a);
    if (r->source == QSF_WGSL_FROM_TWO || s->joins) ranges[n++] = qsf_device_all_of(k->b, x->b);
    if (r->norm && !r->bare) ranges[n++] = qsf_device_put_vector(k, k->w->v[x->norm], x->cols);
    if (r->bias) ranges[n++] = qsf_device_put_vector(k, k->w->v[x->bias], x->cols);
    if (r->sinks) ranges[n++] = qsf_device_put_vector(k, k->w->v[QSF_K_ATTN_SINKS], p->heads);
    if (r->gated) ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_Q);
    if (r->flags) ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_FLAGS);
    k->fused = 0;
    const bool many = n - 1 > QSF_WGSL_BINDINGS - 4;        /* a product binds three more */
    k->from = (qsf_device_from){ .rows = *r, .numbers = *p, .step = s,
                                 .n_ranges = r->floats || r->add || many ? 0 : n - 1 };
    memcpy(k->from.ranges, ranges + 1, k->from.n_ranges * sizeof *ranges);
    if (r->codes) ranges[n++] = qsf_device_all_of(k->b, QSF_DEVICE_CODES);
    if (r->floats) ranges[n++] = qsf_device_all_of(k->b, x->to);
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_rows_text(&t, r);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, x->name, &s->pipeline[0], k->err);
    if (!k->st && k->compiles && k->b->test) k->st = qsf_self_test_rows(k->b->test, r, k->err);
    qsf_device_step_group(k, s, ranges, n);
}

static void add_input(qsf_device_maker *k, qsf_device_rows x)
{
    x.to = QSF_DEVICE_FLOATS;
    x.to_ld = k->b->floats_ld;
    qsf_device_add_rows(k, &x);
}

void qsf_device_add_input(qsf_device_maker *k, qsf_device_rows x, const uint8_t *kinds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const qsf_matrix *m = &k->w->m[kinds[i]];
        if (!m->t.rows) continue;
        x.r.codes |= m->form >= 0;
        x.r.floats |= m->form < 0;
    }
    add_input(k, x);
}

void qsf_device_add_input_of(qsf_device_maker *k, qsf_device_rows x, const qsf_matrix *m)
{
    x.r.codes = m->form >= 0;
    x.r.floats = m->form < 0;
    add_input(k, x);
}

void qsf_device_set_norm(const qsf_device_maker *k, qsf_device_rows *x, int norm, int bias)
{
    x->r.norm = k->layer->norm.kind == QSF_NORM_RMS ? QSF_WGSL_RMS_NORM : QSF_WGSL_LAYER_NORM;
    x->r.bare = k->layer->norm.kind == QSF_NORM_BARE;
    x->r.bias = bias && k->w->v[bias] && !x->r.bare;
    x->norm = norm;
    x->bias = bias;
}

void qsf_device_add_norm(qsf_device_maker *k, const char *name, qsf_device_name to, uint32_t cols,
                         uint32_t ld, int norm, int bias)
{
    qsf_device_rows x = { .name = name, .r = { .source = QSF_WGSL_FROM_ITSELF, .floats = true }, .to = to,
                          .cols = cols, .to_ld = ld };
    qsf_device_set_norm(k, &x, norm, bias);
    qsf_device_add_rows(k, &x);
}

/* ---- products ---- */

qsf_wgsl_storage qsf_device_storage(const qsf_matrix *m)
{
    return m->t.type == QSF_T_F32 ? QSF_WGSL_F32 : m->t.type == QSF_T_F16 ? QSF_WGSL_F16 : QSF_WGSL_BF16;
}

const char *qsf_device_matrix_refused(const qsf_matrix *m)
{
    if (!m->t.rows) return NULL;
    if (m->out_start) return "its outliers";
    if (m->form >= 0 && qsf_wgsl_has_form((qsf_form)m->form)) return NULL;
    const bool floats = m->t.type == QSF_T_F32 || m->t.type == QSF_T_F16 || m->t.type == QSF_T_BF16;
    return m->form < 0 && floats ? NULL : "a type of its weights";
}

bool qsf_device_scaled(const qsf_source *s, uint32_t unit, uint32_t kind)
{
    const qsf_unit *u = &s->units[unit];
    for (uint32_t i = 0; i < u->n_tensors; i++)
        if (s->tensors[u->first_tensor + i].kind == kind + QSF_K_SCALE) return true;
    return false;
}

void qsf_device_fuse(qsf_device_maker *k, uint32_t widest)
{
    const qsf_wgsl_rows_numbers *x = &k->from.numbers;
    qsf_wgsl_product p = { .rows = QSF_DEVICE_FUSED, .slices = QSF_WGSL_SLICES, .from = &k->from.rows,
                           .cols = x->x_ld / 5 * 64 };
    while (p.rows && !qsf_wgsl_product_fits(&p)) p.rows--;
    k->fused = k->from.n_ranges && x->cols <= widest ? p.rows : 0;
    if (k->of.most) k->fused = QSF_MIN(k->fused, k->of.most);
    if (k->fused) k->from.step->of.least = QSF_MAX(k->of.least, k->fused + 1);
}

bool qsf_device_joined(const qsf_device_maker *k, const uint8_t *kinds, uint32_t n)
{
    const qsf_matrix *first = &k->w->m[kinds[0]];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        const qsf_matrix *m = &k->w->m[kinds[i]];
        if (m->form < 0 || !m->t.rows || qsf_device_scaled(k->b->source, k->number, kinds[i])) return false;
        if (m->form != first->form || m->t.block != first->t.block) return false;
        if (m->t.cols != first->t.cols) return false;
        if (i + 1 < n && m->t.rows % QSF_TILE_ROWS) return false;
        bytes += matrix_bytes(m);
    }
    return bytes <= k->b->d->info->max_binding;
}

void qsf_device_product_slices(qsf_wgsl_product *p, uint32_t tiles, uint32_t cols, bool fused)
{
    p->parts = tiles > 512 || cols <= 512 ? 1 : tiles <= 128 && cols >= 4096 ? 4 : 2;
    p->slices = 16 * p->parts;
    if (p->gated) p->slices = 8, p->parts = 1;
    else if (tiles >= 4096 && !fused) p->slices = 8;
}

/* A variant of a product: for 1, 2, 4 or 8 rows, or for more. */
qsf_status qsf_device_product_pipeline(qsf_device_buffers *b, qsf_device_step *s, uint32_t variant,
                                       qsf_error *err)
{
    qsf_wgsl_text t;
    qsf_wgsl_product p = s->product;
    if (s->pipeline[variant]) return QSF_OK;
    qsf_pipeline_begin(&b->pipelines, &t);
    p.rows = 1u << variant;
    if (s->fused) p.from = &s->from;
    if (s->work == QSF_DEVICE_FLOAT_PRODUCT) {
        s->floats.rows = qsf_device_variant_rows(variant);
        qsf_wgsl_product_floats(&t, &s->floats);
    } else if (variant == QSF_DEVICE_VARIANTS - 1) {
        qsf_wgsl_product_tiles(&t, &p);
    } else {
        qsf_wgsl_product_rows(&t, &p);
    }
    return qsf_pipeline_end(&b->pipelines, &t, s->name, &s->pipeline[variant], err);
}

qsf_status qsf_device_step_dispatch(qsf_device_buffers *b, qsf_device_step *s, const qsf_device_batch *batch,
                                    uint32_t variant, qsf_device_dispatch *out, qsf_error *err)
{
    const uint32_t n = batch->n;
    uint32_t groups[3];
    *out = (qsf_device_dispatch){ s->pipeline[0], s->group, s->wide, s->slots ? n * s->slots : n, 1 };
    if (s->own) return s->own->dispatch(b, s, n, out, err);
    if (s->work == QSF_DEVICE_CHUNKS) {
        *out = (qsf_device_dispatch){ s->pipeline[0], s->group, batch->chunks, n, s->wide };
    } else if (s->work == QSF_DEVICE_PROMPT) {
        *out = (qsf_device_dispatch){ s->pipeline[0], s->group, batch->groups, s->wide, 1 };
    } else if (s->work == QSF_DEVICE_PRODUCT || s->work == QSF_DEVICE_FLOAT_PRODUCT) {
        const bool floats = s->work == QSF_DEVICE_FLOAT_PRODUCT, many = variant == QSF_DEVICE_VARIANTS - 1;
        const uint32_t rows = many && !floats ? 64 : qsf_device_variant_rows(variant);
        const qsf_status st = qsf_device_product_pipeline(b, s, variant, err);
        if (st) return st;
        qsf_wgsl_dispatch(floats ? s->wide : many ? (s->wide + 3) / 4 : s->wide * s->product.parts, groups);
        *out = (qsf_device_dispatch){ s->pipeline[variant], s->group, groups[0], groups[1],
                                      (n + rows - 1) / rows };
    }
    return QSF_OK;
}

/* Of the variants those that answers and prompts need most; all have the same decoder.  Of those
 * that do more than a product a plain one. */
static qsf_status test_product(const qsf_device_buffers *b, const qsf_device_step *s, qsf_error *err)
{
    const qsf_wgsl_product *own = &s->product;
    const bool plain = !s->fused && !own->gated && !own->scaled;
    qsf_wgsl_product p = { .form = own->form, .block = own->block };
    if (plain) p.bias = own->bias, p.add = own->add;
    qsf_status st = qsf_self_test_product(b->test, &p, err);
    if (plain) p = *own;
    p.rows = 1;
    if (!plain) p.slices = 8;
    if (!st) st = qsf_self_test_product(b->test, &p, err);
    if (st || !s->fused) return st;
    p = *own;
    p.rows = 1;
    p.from = &s->from;
    return qsf_self_test_fused(b->test, &p, err);
}

/* The pipelines that a step's batches need; the first of them, if there was a time for all. */
static void product_pipelines(qsf_device_maker *k, qsf_device_step *s)
{
    const uint32_t most = s->of.most ? QSF_MIN(s->of.most, k->b->rows) : k->b->rows;
    const uint32_t first = qsf_device_variant(s->of.least), last = qsf_device_variant(most);
    for (uint32_t i = first; i <= (k->compiles ? last : first) && !k->st; i++)
        k->st = qsf_device_product_pipeline(k->b, s, i, k->err);
    if (!k->st && k->compiles && k->b->test && s->work == QSF_DEVICE_PRODUCT)
        k->st = test_product(k->b, s, k->err);
}

/* The numbers of a product of floats. */
static qsf_device_step *floats_step(qsf_device_maker *k, const qsf_device_products *p)
{
    const qsf_matrix *m = p->m[0];
    qsf_device_step *s;
    qsf_wgsl_floats_numbers *x = qsf_device_step_new(k, QSF_DEVICE_FLOAT_PRODUCT, p->name, &s);
    *x = (qsf_wgsl_floats_numbers){ .rows = m->t.rows, .cols = m->t.cols, .x_ld = k->b->floats_ld,
                                    .y_ld = p->to.ld, .y_at = p->to.at, .scale = m->scale,
                                    .times = p->to.times };
    s->floats = (qsf_wgsl_floats){ .storage = qsf_device_storage(m), .add = p->to.add,
                                   .scaled = p->to.scaled };
    s->wide = m->t.rows;
    return s;
}

/* Those of a product of codes. */
static qsf_device_step *codes_step(qsf_device_maker *k, const qsf_device_products *p, bool fused)
{
    const qsf_matrix *m = p->m[0];
    const qsf_wgsl_rows_numbers *f = &k->from.numbers;
    qsf_device_step *s;
    qsf_wgsl_product_numbers *x = qsf_device_step_new(k, QSF_DEVICE_PRODUCT, p->name, &s);
    *x = (qsf_wgsl_product_numbers){ .blocks = m->blocks, .x_ld = qsf_device_codes_ld(m->t.cols),
                                     .y_ld = p->to.ld, .y_at = p->to.at, .scale = m->scale,
                                     .times = p->to.times };
    for (uint32_t i = 0; i < (p->gated ? 1 : p->n); i++) {
        x->rows += p->m[i]->t.rows;
        x->tiles += (p->m[i]->t.rows + QSF_TILE_ROWS - 1) / QSF_TILE_ROWS;
    }
    s->product = (qsf_wgsl_product){ .form = (qsf_form)m->form, .block = m->t.block, .add = p->to.add,
                                     .scaled = p->to.scaled, .gated = p->gated, .function = p->function };
    s->wide = x->tiles;
    qsf_device_product_slices(&s->product, x->tiles, m->t.cols, fused);
    if (!fused) return s;
    s->fused = true;
    s->from = k->from.rows;
    s->product.cols = x->x_ld / 5 * 64;
    x->cols = f->cols, x->a_ld = f->a_ld, x->a_at = f->a_at, x->b_ld = f->b_ld, x->b_at = f->b_at;
    x->eps = f->eps, x->heads = f->heads, x->head_dim = f->head_dim, x->room = f->room;
    x->gate_ld = f->gate_ld, x->gain = f->gain, x->flag = f->flag;
    memcpy(x->of_function, f->of_function, sizeof x->of_function);
    return s;
}

/* One dispatch for matrices at `weights`, whose biases are at `bias`. */
static void step_joined(qsf_device_maker *k, const qsf_device_products *p, bool fused,
                        qsf_device_range weights, qsf_device_range bias)
{
    const bool floats = p->m[0]->form < 0;
    qsf_device_range ranges[QSF_WGSL_BINDINGS + 1] = { { 0 }, weights };
    uint32_t n = 2;
    qsf_device_step *s = floats ? floats_step(k, p) : codes_step(k, p, fused);
    s->product.bias = s->floats.bias = bias.len > 0;
    if (fused) {
        memcpy(ranges + n, k->from.ranges, k->from.n_ranges * sizeof *ranges);
        n += k->from.n_ranges;
    } else {
        ranges[n++] = qsf_device_all_of(k->b, floats ? QSF_DEVICE_FLOATS : QSF_DEVICE_CODES);
    }
    ranges[n++] = qsf_device_all_of(k->b, p->to.buffer);
    if (bias.len) ranges[n++] = bias;
    product_pipelines(k, s);
    qsf_device_step_group(k, s, ranges, n);
}

/* ---- adapters ---- */

qsf_device_site *qsf_device_site_new(qsf_device_maker *k)
{
    qsf_device_layer *l = k->l;
    if (k->compiles || k->st) return NULL;
    if (l->n_sites == QSF_DEVICE_SITES) {
        k->st = qsf_fail(k->err, QSF_E_UNSUPPORTED, "a layer has more than %d products",
                         (int)QSF_DEVICE_SITES);
        return NULL;
    }
    qsf_device_site *site = &l->sites[l->n_sites++];
    *site = (qsf_device_site){ .after = l->n_steps - 1, .times = 1 };
    return site;
}

/* Of matrices that are not the layer's, as the head's, adapters change nothing here. */
static void products_site(qsf_device_maker *k, const qsf_device_products *p)
{
    uint32_t at = p->to.at;
    uint8_t kinds[3] = { 0 };
    for (uint32_t i = 0; i < p->n; i++) {
        while (kinds[i] < QSF_N_KINDS && p->m[i] != &k->w->m[kinds[i]]) kinds[i]++;
        if (kinds[i] == QSF_N_KINDS) return;
    }
    qsf_device_site *site = qsf_device_site_new(k);
    if (!site) return;
    site->to = p->to.buffer;
    site->ld = p->to.ld;
    site->times = p->to.scaled ? p->to.times : 1;
    site->n = p->n;
    memcpy(site->kinds, kinds, sizeof kinds);
    for (uint32_t i = 0; i < p->n; at += p->m[i++]->t.rows) site->at[i] = at;
}

void qsf_device_step_products(qsf_device_maker *k, const qsf_device_products *p)
{
    const qsf_device_range weights = put_matrices(k, p), bias = put_biases(k, p);
    const qsf_device_for of = k->of;
    qsf_device_products plain = *p;
    plain.gated = false;
    if (k->fused && p->m[0]->form >= 0) {
        k->of.most = of.most ? QSF_MIN(of.most, k->fused) : k->fused;
        step_joined(k, p, true, weights, bias);
        k->of = of;
        k->of.least = QSF_MAX(of.least, k->fused + 1);
    }
    step_joined(k, &plain, false, weights, bias);
    k->of = of;
    products_site(k, &plain);
}

void qsf_device_set_matrix(const qsf_device_maker *k, qsf_device_products *p, int kind, int bias)
{
    p->m[p->n] = &k->w->m[kind];
    p->bias[p->n++] = k->w->v[bias];
}

void qsf_device_step_matrix(qsf_device_maker *k, const char *name, const qsf_matrix *m, const float *bias,
                            const qsf_device_to *to)
{
    const qsf_device_products p = { .name = name, .m = { m }, .bias = { bias }, .n = 1, .to = *to };
    qsf_device_step_products(k, &p);
}

/* With a matrix of the layer. */
static void layer_product(qsf_device_maker *k, const char *name, int kind, const float *bias,
                          qsf_device_to to)
{
    to.scaled = to.times != 1 || qsf_device_scaled(k->b->source, k->number, (uint32_t)kind);
    qsf_device_step_matrix(k, name, &k->w->m[kind], bias, &to);
}

void qsf_device_step_product(qsf_device_maker *k, const char *name, int kind, int bias, qsf_device_name to,
                             uint32_t ld, bool add)
{
    layer_product(k, name, kind, k->w->v[bias], (qsf_device_to){ to, ld, 0, add, false, 1 });
}

void qsf_device_step_scaled(qsf_device_maker *k, const char *name, int kind, qsf_device_name to, uint32_t ld,
                            float times)
{
    layer_product(k, name, kind, NULL, (qsf_device_to){ to, ld, 0, false, false, times });
}

void qsf_device_step_out(qsf_device_maker *k, const char *name, int kind, int bias)
{
    const qsf_device_to apart = { QSF_DEVICE_TMP, k->b->ld, 0, false, false, 1 };
    const qsf_device_to added = { QSF_DEVICE_X, k->b->ld, 0, true, false, k->times };
    layer_product(k, name, kind, k->w->v[bias], k->apart ? apart : added);
}
