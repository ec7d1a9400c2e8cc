/* Embedding and head, resident or streamed.
 * SPDX-License-Identifier: MIT */
#include "engine/context.h"
#include "tensor/ggml_tiles.h"

/* ---- where the two matrices lie ---- */

/* Rows that belong together in memory and their bytes: a row of tiles, or one row. */
static uint32_t strip_rows(const qsf_tensor *t) { return t->packing == 1 ? QSF_TILE_ROWS : 1; }
static uint64_t strip_bytes(const qsf_tensor *t) { return t->bytes / qsf_ceil_div(t->rows, strip_rows(t)); }

static int ends_find_head(const qsf_source *s, qsf_unit_id *unit)
{
    *unit = s->hp.tied ? qsf_id_embd() : qsf_id_final();
    return qsf_unit_find(s, qsf_source_unit(s, *unit), s->hp.tied ? QSF_K_TOKEN_EMBD : QSF_K_OUTPUT);
}

/* Outliers of a matrix would have to be there whole. */
static bool unit_has_outliers(const qsf_source *s, uint32_t unit)
{
    for (uint32_t i = 0; i < s->units[unit].n_tensors; i++)
        if (s->tensors[s->units[unit].first_tensor + i].kind >= QSF_K_OUTLIERS) return true;
    return false;
}

static bool matrix_can_stream(const qsf_source *s, qsf_unit_id id, int tensor)
{
    const uint32_t unit = qsf_source_unit(s, id);
    if (tensor < 0 || unit_has_outliers(s, unit)) return false;
    const uint32_t i = s->units[unit].first_tensor + (uint32_t)tensor;
    return qsf_stream_possible(s, id, s->places[i], s->places[i] + s->tensors[i].bytes);
}

static void ends_locate(qsf_ends *e, const qsf_source *s)
{
    const uint32_t unit = qsf_unit_embd(s);
    const int embd = qsf_unit_find(s, unit, QSF_K_TOKEN_EMBD), head = ends_find_head(s, &e->head_unit);
    assert(embd >= 0 && head >= 0);
    const uint32_t ei = s->units[unit].first_tensor + (uint32_t)embd;
    const uint32_t hi = s->units[qsf_source_unit(s, e->head_unit)].first_tensor + (uint32_t)head;
    e->embd = s->tensors[ei];
    e->embd_at = s->places[ei];
    e->head = s->tensors[hi];
    e->head_at = s->places[hi];
}

static bool is_final_norm(uint32_t kind) { return kind == QSF_K_OUTPUT_NORM || kind == QSF_K_OUTPUT_NORM_BIAS; }

/* The range of the final unit's vectors. */
static void ends_vectors_range(const qsf_source *s, uint64_t *begin, uint64_t *end)
{
    const qsf_unit *u = &s->units[qsf_unit_final(s)];
    *begin = UINT64_MAX;
    *end = 0;
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->n_tensors; i++) {
        if (!is_final_norm(s->tensors[i].kind)) continue;
        *begin = QSF_MIN(*begin, s->places[i]);
        *end = QSF_MAX(*end, s->places[i] + s->tensors[i].bytes);
    }
}

/* A learned position table and a head's bias would need streams of their own; no model that is so
 * large has them. */
void qsf_ends_can_stream(const qsf_source *s, bool *embd, bool *head)
{
    qsf_unit_id id;
    uint64_t begin, end;
    const int tensor = ends_find_head(s, &id);
    *embd = !s->hp.learned_pos &&
            matrix_can_stream(s, qsf_id_embd(), qsf_unit_find(s, qsf_unit_embd(s), QSF_K_TOKEN_EMBD));
    if (s->hp.tied) {
        *head = *embd;
        return;
    }
    ends_vectors_range(s, &begin, &end);
    *head = matrix_can_stream(s, id, tensor) &&
            qsf_unit_find(s, qsf_source_unit(s, id), QSF_K_OUTPUT_BIAS) < 0 && begin < end &&
            qsf_stream_possible(s, id, begin, end);
}

/* Rows of a part of the head that takes at most `part` bytes. */
static uint32_t ends_head_rows(const qsf_ends *e, uint64_t part)
{
    const uint64_t sixteen = strip_bytes(&e->head) * QSF_TILE_ROWS / strip_rows(&e->head);
    return (uint32_t)QSF_MIN(QSF_MAX(part / sixteen, 1) * QSF_TILE_ROWS, qsf_round_up(e->head.rows, QSF_TILE_ROWS));
}

static uint64_t ends_head_part(const qsf_ends *e)
{
    return strip_bytes(&e->head) * e->head_rows / strip_rows(&e->head);
}

/* Whether the head's parts are brought into tiles.  One that begins at a checked chunk has no room
 * to fill the last strip. */
static bool ends_tiles(const qsf_source *s, const qsf_ends *e)
{
    if (qsf_ggml_tile_type(&e->head) < 0) return false;
    return e->head.rows % QSF_TILE_ROWS == 0 || !s->units[qsf_source_unit(s, e->head_unit)].has_crc;
}

uint64_t qsf_ends_bytes(const qsf_source *s, const qsf_ends_plan *plan)
{
    qsf_ends e = { 0 };
    uint64_t begin, end, bytes = 0;
    if (!plan->embd && !plan->head) return 0;
    ends_locate(&e, s);
    e.head_rows = ends_head_rows(&e, plan->head_part);
    ends_vectors_range(s, &begin, &end);
    if (plan->embd)
        bytes += qsf_stream_bytes(s, qsf_id_embd(), 1, strip_bytes(&e.embd)) +
                 plan->n_batch * sizeof(uint32_t);
    if (plan->head)
        bytes += qsf_stream_bytes(s, e.head_unit, QSF_PARTS_AHEAD, ends_head_part(&e)) +
                 2 * s->hp.n_embd * sizeof(float);
    if (plan->head && !s->hp.tied) bytes += qsf_stream_bytes(s, e.head_unit, 1, end - begin);
    return bytes;
}

uint64_t qsf_ends_kept_bytes(const qsf_source *s, const qsf_ends_plan *plan)
{
    return plan->embd ? plan->n_kept * (s->hp.n_embd * sizeof(float) + sizeof(int32_t) + sizeof(uint64_t)) : 0;
}

static qsf_status ends_init_embd(qsf_ends *e, qsf_fetch *f, const qsf_ends_plan *plan, qsf_error *err)
{
    const qsf_source *s = e->source;
    const qsf_platform *p = e->mem;
    const qsf_status st = qsf_stream_init(&e->embd_rows, f, qsf_id_embd(), 1, strip_bytes(&e->embd),
                                          false, err);
    if (st) return st;
    e->n_batch = plan->n_batch;
    e->n_kept = plan->n_kept;
    if (!(e->order = qsf_alloc_array(p, e->n_batch, sizeof *e->order, "batch", err))) return QSF_E_MEMORY;
    if (!(e->kept = qsf_alloc_array(p, e->n_kept, s->hp.n_embd * sizeof *e->kept, "embedding rows", err))) return QSF_E_MEMORY;
    if (!(e->kept_token = qsf_alloc_array(p, e->n_kept, sizeof *e->kept_token, "embedding rows", err))) return QSF_E_MEMORY;
    if (!(e->kept_used = qsf_alloc_array(p, e->n_kept, sizeof *e->kept_used, "embedding rows", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < e->n_kept; i++) e->kept_token[i] = -1;
    return QSF_OK;
}

static qsf_status ends_init_head(qsf_ends *e, qsf_fetch *f, const qsf_ends_plan *plan, qsf_error *err)
{
    const qsf_source *s = e->source;
    qsf_status st;
    uint64_t begin, end;
    e->head_rows = ends_head_rows(e, plan->head_part);
    e->n_parts = (uint32_t)qsf_ceil_div(e->head.rows, e->head_rows);
    st = qsf_stream_init(&e->head_parts, f, e->head_unit, QSF_PARTS_AHEAD, ends_head_part(e), true, err);
    if (st) return st;
    ends_vectors_range(s, &begin, &end);
    if (!s->hp.tied) st = qsf_stream_init(&e->final_norm, f, e->head_unit, 1, end - begin, false, err);
    if (st) return st;
    e->norm = qsf_alloc_array(e->mem, 2 * (uint64_t)s->hp.n_embd, sizeof *e->norm, "final norm", err);
    return e->norm ? QSF_OK : QSF_E_MEMORY;
}

qsf_status qsf_ends_init(qsf_ends *e, qsf_fetch *f, const qsf_ends_plan *plan, qsf_error *err)
{
    const qsf_source *s = f->source;
    qsf_status st = QSF_OK;
    *e = (qsf_ends){ .source = s, .mem = f->mem, .embd_streamed = plan->embd,
                     .head_streamed = plan->head, .n_parts = 1 };
    if (plan->embd || plan->head) ends_locate(e, s);
    if (plan->embd) st = ends_init_embd(e, f, plan, err);
    if (!st && plan->head) st = ends_init_head(e, f, plan, err);
    return st;
}

void qsf_ends_done(qsf_ends *e)
{
    const qsf_source *s = e->source;
    if (!s) return;
    const qsf_platform *p = e->mem;
    qsf_dealloc(p, e->kept_used, e->n_kept * sizeof *e->kept_used);
    qsf_dealloc(p, e->kept_token, e->n_kept * sizeof *e->kept_token);
    qsf_dealloc(p, e->kept, e->n_kept * s->hp.n_embd * sizeof *e->kept);
    qsf_dealloc(p, e->order, e->n_batch * sizeof *e->order);
    qsf_dealloc(p, e->norm, 2 * s->hp.n_embd * sizeof *e->norm);
    qsf_stream_done(&e->final_norm);
    qsf_stream_done(&e->head_parts);
    qsf_stream_done(&e->embd_rows);
}

/* ---- rows that are kept ---- */

/* The place of a token's row, -1: it is not there. */
static int64_t kept_find(const qsf_ends *e, int32_t token)
{
    for (uint32_t i = 0; i < e->n_kept; i++)
        if (e->kept_token[i] == token) return i;
    return -1;
}

/* Keeps an embedded row in the place of the one that was used longest ago. */
static void kept_put(qsf_ends *e, int32_t token, const float *x)
{
    uint32_t oldest = 0;
    if (!e->n_kept || kept_find(e, token) >= 0) return;
    for (uint32_t i = 1; i < e->n_kept; i++)
        if (e->kept_used[i] < e->kept_used[oldest]) oldest = i;
    e->kept_token[oldest] = token;
    e->kept_used[oldest] = ++e->used;
    memcpy(e->kept + (size_t)oldest * e->source->hp.n_embd, x, e->source->hp.n_embd * sizeof *x);
}

static bool kept_get(qsf_ends *e, int32_t token, float *x)
{
    const int64_t i = kept_find(e, token);
    if (i < 0) return false;
    e->kept_used[i] = ++e->used;
    memcpy(x, e->kept + (size_t)i * e->source->hp.n_embd, e->source->hp.n_embd * sizeof *x);
    return true;
}

/* ---- embedding ---- */

void qsf_ends_begin(qsf_context *c)
{
    qsf_ends *e = &c->ends;
    e->next = e->n_order = 0;
    if (!e->embd_streamed) return;
    for (uint32_t r = 0; r < c->n_rows; r++)
        if (kept_get(e, c->rows[r].token, c->b.x + r * c->b.ld_embd)) qsf_forward_angles(c, r);
        else e->order[e->n_order++] = r;
    /* Shell's sort: short, in place, fast enough for a batch. */
    for (uint32_t gap = e->n_order / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < e->n_order; i++) {
            const uint32_t x = e->order[i];
            uint32_t j = i;
            for (; j >= gap && c->rows[e->order[j - gap]].token > c->rows[x].token; j -= gap) e->order[j] = e->order[j - gap];
            e->order[j] = x;
        }
}

/* The strip that holds a token's row. */
static void embd_strip(const qsf_ends *e, int32_t token, uint64_t *begin, uint64_t *end)
{
    const uint64_t i = (uint32_t)token / strip_rows(&e->embd);
    *begin = e->embd_at + i * strip_bytes(&e->embd);
    *end = *begin + strip_bytes(&e->embd);
}

qsf_status qsf_ends_fetch_embd(qsf_context *c, bool wait)
{
    qsf_ends *e = &c->ends;
    uint64_t begin, end;
    if (!e->embd_streamed) return qsf_fetch_unit(&c->fetch, qsf_id_embd(), wait, &c->w_embd, &c->error);
    if (e->next == e->n_order) return QSF_OK;
    embd_strip(e, c->rows[e->order[e->next]].token, &begin, &end);
    return qsf_stream_get(&e->embd_rows, begin, end, NULL, wait, &e->strip, &c->error);
}

bool qsf_ends_embed(qsf_context *c)
{
    qsf_ends *e = &c->ends;
    if (!e->embd_streamed) {
        const qsf_matrix *pos = &c->w_embd->m[QSF_K_POS_EMBD];
        for (uint32_t r = 0; r < c->n_rows; r++)
            qsf_forward_embed(c, r, &c->w_embd->m[QSF_K_TOKEN_EMBD].t, qsf_head_place(c, c->rows[r].token), pos->t.data ? &pos->t : NULL);
        return true;
    }
    const qsf_slot *w = e->strip;
    for (; e->next < e->n_order; e->next++) {
        const uint32_t r = e->order[e->next];
        const int32_t token = c->rows[r].token;
        uint64_t begin, end;
        embd_strip(e, token, &begin, &end);
        if (begin < w->begin || end > w->end) return false;         /* the next fetch brings it */
        qsf_tensor strip = e->embd;
        strip.rows = strip_rows(&e->embd);
        strip.bytes = strip_bytes(&e->embd);
        strip.data = qsf_slot_at(w, begin);
        qsf_forward_embed(c, r, &strip, (uint32_t)token % strip.rows, NULL);
        kept_put(e, token, c->b.x + r * c->b.ld_embd);
    }
    return true;
}

/* ---- head ---- */

/* Part `part` of the head, as the file has it; *begin is where. */
static qsf_tensor head_part(const qsf_ends *e, uint32_t part, uint64_t *begin)
{
    const uint32_t strip = strip_rows(&e->head);
    qsf_tensor t = e->head;
    t.rows = QSF_MIN(e->head_rows, e->head.rows - part * e->head_rows);
    t.bytes = strip_bytes(&e->head) * qsf_ceil_div(t.rows, strip);
    *begin = e->head_at + part * ends_head_part(e);
    return t;
}

static qsf_status head_start(qsf_context *c, uint32_t part, qsf_error *err)
{
    qsf_ends *e = &c->ends;
    uint64_t begin;
    const qsf_tensor t = head_part(e, part, &begin), *tile = ends_tiles(e->source, e) ? &t : NULL;
    return qsf_stream_start(&e->head_parts, begin, begin + t.bytes, tile, err);
}

static qsf_status head_get(qsf_context *c, uint32_t part, bool wait)
{
    qsf_ends *e = &c->ends;
    uint64_t begin;
    const qsf_tensor t = head_part(e, part, &begin), *tile = ends_tiles(e->source, e) ? &t : NULL;
    return qsf_stream_get(&e->head_parts, begin, begin + t.bytes, tile, wait, &e->part, &c->error);
}

/* The final norm's vectors of a unit that is not loaded whole. */
static qsf_status vectors_fetch(qsf_context *c, bool wait)
{
    const qsf_source *s = c->model->source;
    qsf_ends *e = &c->ends;
    uint64_t begin, end;
    if (e->vectors.v[QSF_K_OUTPUT_NORM]) return QSF_OK;
    ends_vectors_range(s, &begin, &end);
    const qsf_slot *slot;
    const qsf_status st = qsf_stream_get(&e->final_norm, begin, end, NULL, wait, &slot, &c->error);
    if (st) return st;
    const qsf_unit *u = &s->units[qsf_source_unit(s, e->head_unit)];
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->n_tensors; i++) {
        qsf_tensor t = s->tensors[i];
        if (!is_final_norm(t.kind)) continue;
        float *to = e->norm + (t.kind == QSF_K_OUTPUT_NORM_BIAS ? s->hp.n_embd : 0);
        t.data = qsf_slot_at(slot, s->places[i]);
        qsf_dequant_rows(&t, 0, 1, to);
        e->vectors.v[t.kind] = to;
    }
    return QSF_OK;
}

qsf_status qsf_ends_fetch_head(qsf_context *c, uint32_t part, bool wait)
{
    const qsf_source *s = c->model->source;
    qsf_ends *e = &c->ends;
    qsf_status st;
    if (!e->head_streamed || s->hp.tied) {
        st = qsf_fetch_unit(&c->fetch, qsf_id_final(), wait, &c->w_final, &c->error);
    } else {
        st = vectors_fetch(c, wait);
        c->w_final = &e->vectors;
    }
    if (st) return st;
    if (!e->head_streamed)
        return s->hp.tied ? qsf_fetch_unit(&c->fetch, qsf_id_embd(), wait, &c->w_embd, &c->error) : QSF_OK;
    if ((st = head_start(c, part, &c->error))) return st;
    if (part + 1 < e->n_parts) (void)head_start(c, part + 1, NULL);         /* a failure shows when it is needed */
    return head_get(c, part, wait);
}

void qsf_ends_ahead(qsf_context *c)
{
    qsf_ends *e = &c->ends;
    if (!e->head_streamed || !c->n_asked) return;
    for (uint32_t part = 0; part < QSF_MIN(e->n_parts, QSF_PARTS_AHEAD); part++)
        (void)head_start(c, part, NULL);
}

/* Part `part` of the head, which a slot holds: GGUF's as tiles. */
static qsf_matrix head_matrix(const qsf_context *c, const qsf_slot *w, uint32_t part)
{
    uint64_t begin;
    qsf_matrix m = { .t = head_part(&c->ends, part, &begin), .form = -1 };
    m.t.data = qsf_slot_at(w, begin);
    if (w->tile.data) m.t = w->tile;
    if (m.t.packing == 1) m.form = qsf_form_of_type(m.t.type);
    m.blocks = m.t.block ? (uint32_t)qsf_ceil_div(m.t.cols, m.t.block) : 0;
    return m;
}

void qsf_ends_head(qsf_context *c, uint32_t part)
{
    qsf_ends *e = &c->ends;
    if (!e->head_streamed) {
        qsf_forward_head(c, c->hp->tied ? &c->w_embd->m[QSF_K_TOKEN_EMBD] : &c->w_final->m[QSF_K_OUTPUT], 0, true);
        return;
    }
    const qsf_matrix m = head_matrix(c, e->part, part);
    qsf_forward_head(c, &m, part * e->head_rows, part == 0);
    const uint32_t next = part + QSF_PARTS_AHEAD;       /* after the last part comes the next token's first */
    (void)head_start(c, next < e->n_parts ? next : part % QSF_PARTS_AHEAD, NULL);
}
