/* The embedding as dispatches.
 * SPDX-License-Identifier: MIT */
#include "device/device_embedding.h"

#include "device/device_steps.h"
#include "weights/layers.h"

#include "wgsl/embed_wgsl.h"

/* ---- what is possible ---- */

static void embedding_describe(const qsf_source *s, qsf_weights *w)
{
    qsf_weights_describe(s, qsf_unit_embd(s), w);
}

/* Positions, types and tokens' rows for layers are the CPU's.  An approximate head may have the
 * rows in an order of its own. */
bool qsf_device_embedding_possible(const qsf_source *s, const qsf_embedding *e, const qsf_context_options *o)
{
    const qsf_hparams *hp = &s->hp;
    qsf_weights w;
    if (hp->learned_pos || hp->n_token_types || hp->n_embd_layer || s->embd_clusters)
        return false;
    if (hp->both_ways || (hp->tied && o->head != QSF_HEAD_EXACT)) return false;
    embedding_describe(s, &w);
    const qsf_matrix *m = &w.m[QSF_K_TOKEN_EMBD];
    if (e->streamed && (!e->part_rows || !qsf_device_pieces_fit(s, &e->place, m))) return false;
    return m->t.rows && !qsf_device_matrix_refused(m);
}

uint64_t qsf_device_embedding_bytes(const qsf_source *s)
{
    qsf_weights w;
    embedding_describe(s, &w);
    return s->hp.tied ? 0 : w.m[QSF_K_TOKEN_EMBD].t.bytes;
}

/* ---- the list ---- */

static void list_matrix_part(qsf_device_maker *k, const qsf_matrix *m, uint32_t first)
{
    const float scale = k->b->source->hp.embd_scale;
    const qsf_wgsl_embed e = {
        .floats = m->form < 0, .form = m->form < 0 ? QSF_F_4 : (qsf_form)m->form, .block = m->t.block,
        .storage = m->form < 0 ? qsf_device_storage(m) : QSF_WGSL_F32,
    };
    qsf_device_step *s;
    qsf_wgsl_text t;
    qsf_wgsl_embed_numbers *x = qsf_device_step_new(k, QSF_DEVICE_OWN, "embedding", &s);
    *x = (qsf_wgsl_embed_numbers){ .cols = m->t.cols, .blocks = m->blocks, .first = first, .rows = m->t.rows,
                                   .y_ld = k->b->ld, .scale = m->scale * (scale > 0 ? scale : 1) };
    s->wide = (m->t.cols + 1023) / 1024;
    qsf_device_range ranges[] = { { 0 }, qsf_device_put_matrix(k, m), qsf_device_all_of(k->b, QSF_DEVICE_IDS),
                                  qsf_device_all_of(k->b, QSF_DEVICE_X) };
    qsf_pipeline_begin(&k->b->pipelines, &t);
    qsf_wgsl_embed_text(&t, &e);
    if (!k->st) k->st = qsf_pipeline_end(&k->b->pipelines, &t, s->name, &s->pipeline[0], k->err);
    if (!k->st && k->compiles && k->b->test) k->st = qsf_self_test_embed(k->b->test, &e, k->err);
    qsf_device_step_group(k, s, ranges, 4);
}

static void embedding_list(qsf_device_maker *k)
{
    const qsf_matrix *m = &k->w->m[QSF_K_TOKEN_EMBD];
    const uint32_t rows = qsf_device_matrix_rows(k->b, m);
    for (uint32_t at = 0; at < m->t.rows; at += rows) {
        const qsf_matrix part = qsf_device_matrix_part(m, at, rows);
        list_matrix_part(k, &part, at);
    }
    if (k->w->v[QSF_K_TOKEN_NORM])
        qsf_device_add_norm(k, "embedding norm", QSF_DEVICE_X, k->b->source->hp.n_embd, k->b->ld,
                            QSF_K_TOKEN_NORM, QSF_K_TOKEN_NORM_BIAS);
}

static qsf_status embedding_run(qsf_device_buffers *b, qsf_device_layer *l, const qsf_weights *w,
                                const qsf_device_id *given, bool compiles, qsf_error *err)
{
    qsf_layer layer = b->source->layers[0];
    layer.norm = qsf_norm_of(&b->source->hp);
    qsf_device_maker k = { .b = b, .l = l, .layer = &layer, .w = w, .given = given, .compiles = compiles,
                           .err = err };
    if (!compiles) k.st = qsf_device_buffer_new(b, l->vectors_bytes, &l->vectors, err);
    embedding_list(&k);
    l->vectors_bytes = QSF_MAX(k.vectors_at, QSF_DEVICE_ALIGN);
    return k.st;
}

/* ---- life ---- */

qsf_status qsf_device_embedding_begin(qsf_device_embedding *e, qsf_device_buffers *b, qsf_error *err)
{
    qsf_weights w;
    qsf_device_layer spare = { 0 };
    embedding_describe(b->source, &w);
    const qsf_status st = embedding_run(b, &spare, &w, NULL, true, err);
    e->steps.vectors_bytes = spare.vectors_bytes;
    e->here = !st;
    return st;
}

/* Whether the head has its matrix. */
static bool embedding_is_there(const qsf_source *s, const qsf_device_head *h)
{
    return s->hp.tied && h->here && h->steps.ready;
}

static void piece_want(qsf_device_embedding *e, qsf_embedding *x)
{
    e->tile = qsf_place_part(&x->place, x->part_rows, e->piece, &x->begin);
    x->end = x->begin + e->tile.bytes;
    x->tile = qsf_place_tiles(x->fetch->source, &x->place) ? &e->tile : NULL;
}

/* The piece that has come goes to the device. */
static qsf_status piece_bring(qsf_device_embedding *e, qsf_device_buffers *b, qsf_embedding *x,
                              const qsf_matrix *all, qsf_error *err)
{
    const qsf_slot *slot = x->strip;
    qsf_tensor t = e->tile;
    qsf_matrix piece;
    t.data = qsf_slot_at(slot, x->begin);
    qsf_matrix_of(slot->tile.data ? &slot->tile : &t, &piece);
    const uint32_t row = e->piece++ * x->part_rows;
    const qsf_status st = qsf_device_matrix_fill(b, e->steps.weights, all, row, &piece, err);
    if (row + t.rows < all->t.rows) piece_want(e, x);
    else x->end = 0;
    return st;
}

void qsf_device_embedding_want(qsf_device_embedding *e, const qsf_device_head *h, qsf_embedding *x)
{
    if (!x->streamed) return;
    x->next = x->n_order = 0;
    if (!e->steps.ready && !embedding_is_there(x->fetch->source, h)) piece_want(e, x);
}

qsf_status qsf_device_embedding_bring(qsf_device_embedding *e, qsf_device_buffers *b,
                                      const qsf_device_head *h, qsf_embedding *x, const qsf_weights *unit,
                                      qsf_error *err)
{
    const bool there = embedding_is_there(b->source, h);
    qsf_weights w;
    qsf_status st = QSF_OK;
    embedding_describe(b->source, &w);
    if (x->streamed) unit = &w;
    if (!e->steps.n_steps)
        st = embedding_run(b, &e->steps, unit, there ? h->steps.weights : NULL, false, err);
    b->set.n = 0;               /* its numbers have to be written */
    if (!st && x->end) st = piece_bring(e, b, x, &unit->m[QSF_K_TOKEN_EMBD], err);
    if (!st && x->end) return QSF_PENDING;
    e->steps.ready = !st;
    return st;
}

const qsf_device_id *qsf_device_embedding_tied(const qsf_device_embedding *e, const qsf_source *s)
{
    return s->hp.tied && e->steps.ready ? e->steps.weights : NULL;
}

void qsf_device_embedding_done(qsf_device_embedding *e, const qsf_device_buffers *b)
{
    if (e->here) qsf_device_layer_done(b, &e->steps);
    *e = (qsf_device_embedding){ 0 };
}
