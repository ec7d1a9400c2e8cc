/* The head's parts, resident or streamed.
 * SPDX-License-Identifier: MIT */
#include "layers/head_stream.h"

#include "base/pieces.h"

/* ---- where it lies ---- */

static bool is_final_norm(uint32_t kind)
{
    return kind == QSF_K_OUTPUT_NORM || kind == QSF_K_OUTPUT_NORM_BIAS;
}

/* The range of the final unit's vectors. */
static void vectors_range(const qsf_source *s, uint64_t *begin, uint64_t *end)
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

/* A head's bias would need a stream of its own; no model this large has one. */
bool qsf_head_can_stream(const qsf_source *s)
{
    const qsf_matrix_place place = qsf_place_head(s);
    uint64_t begin, end;
    if (!qsf_place_can_stream(s, &place)) return false;
    if (s->hp.tied) return !s->hp.learned_pos;          /* as the embedding, which it is */
    vectors_range(s, &begin, &end);
    if (s->hp.n_classes || s->hp.n_between) return false;         /* which need the unit whole */
    if (qsf_unit_find(s, qsf_unit_final(s), QSF_K_OUTPUT_BIAS) >= 0 || begin >= end) return false;
    return qsf_stream_possible(s, place.unit, begin, end);
}

/* ---- memory ---- */

static qsf_piece norm_piece(qsf_head_stream *h, const qsf_source *s)
{
    return QSF_PIECE(h->norm, 2 * (uint64_t)s->hp.n_embd, "final norm");
}

uint64_t qsf_head_stream_bytes(const qsf_source *s, const qsf_head_stream_plan *plan)
{
    const qsf_matrix_place place = qsf_place_head(s);
    uint64_t begin, end;
    if (!plan->streams) return 0;
    const uint64_t part = qsf_place_bytes(&place, qsf_place_rows(&place, plan->part));
    qsf_head_stream h;
    const qsf_piece norm = norm_piece(&h, s);
    const uint64_t parts = qsf_stream_bytes(s, place.unit, QSF_PARTS_AHEAD, part);
    const uint64_t bytes = parts + qsf_pieces_bytes(&norm, 1);
    if (s->hp.tied) return bytes;
    vectors_range(s, &begin, &end);
    return bytes + qsf_stream_bytes(s, place.unit, 1, end - begin);
}

static qsf_status head_stream_begin(qsf_head_stream *h, uint64_t part, qsf_error *err)
{
    qsf_fetch *f = h->fetch;
    const qsf_source *s = f->source;
    uint64_t begin, end;
    h->rows = qsf_place_rows(&h->place, part);
    h->n_parts = (uint32_t)qsf_ceil_div(h->place.t->rows, h->rows);
    const uint64_t bytes = qsf_place_bytes(&h->place, h->rows);
    qsf_status st = qsf_stream_init(&h->parts, f, h->place.unit, QSF_PARTS_AHEAD, bytes, true, err);
    if (st) return st;
    vectors_range(s, &begin, &end);
    if (!s->hp.tied) st = qsf_stream_init(&h->final_norm, f, h->place.unit, 1, end - begin, false, err);
    if (st) return st;
    const qsf_piece norm = norm_piece(h, s);
    return qsf_pieces_alloc(f->mem, &norm, 1, err);
}

qsf_status qsf_head_stream_init(qsf_head_stream *h, qsf_fetch *f, const qsf_head_stream_plan *plan,
                                qsf_error *err)
{
    *h = (qsf_head_stream){ .fetch = f, .streamed = plan->streams, .place = qsf_place_head(f->source),
                            .n_parts = 1 };
    return plan->streams ? head_stream_begin(h, plan->part, err) : QSF_OK;
}

void qsf_head_stream_done(qsf_head_stream *h)
{
    if (!h->fetch) return;
    const qsf_piece norm = norm_piece(h, h->fetch->source);
    qsf_pieces_free(h->fetch->mem, &norm, 1);
    qsf_stream_done(&h->final_norm);
    qsf_stream_done(&h->parts);
}

/* ---- parts ---- */

/* Part `part` of the head, as the file has it; *begin is where. */
static qsf_tensor part_tensor(const qsf_head_stream *h, uint32_t part, uint64_t *begin)
{
    return qsf_place_part(&h->place, h->rows, part, begin);
}

static qsf_status part_start(qsf_head_stream *h, uint32_t part, qsf_error *err)
{
    uint64_t begin;
    const qsf_tensor t = part_tensor(h, part, &begin);
    const bool tiles = qsf_place_tiles(h->fetch->source, &h->place);
    return qsf_stream_start(&h->parts, begin, begin + t.bytes, tiles ? &t : NULL, err);
}

static qsf_status part_get(qsf_head_stream *h, uint32_t part, bool wait, qsf_error *err)
{
    uint64_t begin;
    const qsf_tensor t = part_tensor(h, part, &begin);
    const bool tiles = qsf_place_tiles(h->fetch->source, &h->place);
    return qsf_stream_get(&h->parts, begin, begin + t.bytes, tiles ? &t : NULL, wait, &h->part, err);
}

/* The final norm's vectors of a unit that is not loaded whole. */
static qsf_status vectors_fetch(qsf_head_stream *h, bool wait, qsf_error *err)
{
    const qsf_source *s = h->fetch->source;
    const qsf_slot *slot;
    uint64_t begin, end;
    if (h->vectors.v[QSF_K_OUTPUT_NORM]) return QSF_OK;
    vectors_range(s, &begin, &end);
    const qsf_status st = qsf_stream_get(&h->final_norm, begin, end, NULL, wait, &slot, err);
    if (st) return st;
    const qsf_unit *u = &s->units[qsf_source_unit(s, h->place.unit)];
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->n_tensors; i++) {
        qsf_tensor t = s->tensors[i];
        if (!is_final_norm(t.kind)) continue;
        float *to = h->norm + (t.kind == QSF_K_OUTPUT_NORM_BIAS ? s->hp.n_embd : 0);
        t.data = qsf_slot_at(slot, s->places[i]);
        qsf_dequant_rows(&t, 0, 1, to);
        h->vectors.v[t.kind] = to;
    }
    return QSF_OK;
}

qsf_status qsf_head_stream_norm(qsf_head_stream *h, bool wait, const qsf_weights **final, qsf_error *err)
{
    *final = &h->vectors;
    if (h->streamed && !h->fetch->source->hp.tied) return vectors_fetch(h, wait, err);
    return qsf_fetch_unit(h->fetch, qsf_id_final(), wait, final, err);
}

qsf_status qsf_head_stream_fetch(qsf_head_stream *h, uint32_t part, bool wait, qsf_head_units *units,
                                 qsf_error *err)
{
    const qsf_source *s = h->fetch->source;
    qsf_status st = qsf_head_stream_norm(h, wait, &units->final, err);
    units->head = NULL;
    if (st) return st;
    if (!h->streamed) {
        units->head = units->final;
        return s->hp.tied ? qsf_fetch_unit(h->fetch, h->place.unit, wait, &units->head, err) : QSF_OK;
    }
    if (h->elsewhere) return QSF_OK;
    if ((st = part_start(h, part, err))) return st;
    /* A failure shows when that part is needed. */
    if (part + 1 < h->n_parts) (void)part_start(h, part + 1, NULL);
    return part_get(h, part, wait, err);
}

qsf_head_part qsf_head_stream_part(const qsf_head_stream *h, uint32_t part, const qsf_head_units *units)
{
    qsf_head_part p = { .m.form = -1, .m.scale = 1 };
    if (!h->streamed) {
        p.m = units->head->m[h->place.t->kind];
        p.bias = units->final->v[QSF_K_OUTPUT_BIAS];
        p.own = qsf_fetch_writable(h->fetch, p.m.t.data);
        return p;
    }
    const qsf_slot *w = h->part;
    uint64_t begin;
    p.row = part * h->rows;
    p.m.t = part_tensor(h, part, &begin);
    p.m.t.data = qsf_slot_at(w, begin);
    if (w->tile.data) p.m.t = w->tile;          /* GGUF's */
    if (p.m.t.packing == 1) p.m.form = qsf_form_of_type(p.m.t.type);
    p.m.blocks = p.m.t.block ? (uint32_t)qsf_ceil_div(p.m.t.cols, p.m.t.block) : 0;
    return p;
}

/* The units of a head that stays in memory, if they are not there yet. */
static void units_ahead(const qsf_head_stream *h)
{
    const qsf_source *s = h->fetch->source;
    const qsf_unit_id units[2] = { s->hp.tied ? h->place.unit : qsf_id_final(), qsf_id_final() };
    for (uint32_t i = 0; i < 2; i++) {
        qsf_want want = qsf_want_unit(s, units[i]);
        want.ahead = true;
        if (qsf_unit_staged(s, qsf_source_unit(s, units[i]))) continue;   /* layers need the buffers */
        (void)qsf_fetch_start(h->fetch, &h->fetch->units, &want, NULL);
    }
}

void qsf_head_stream_ahead(qsf_head_stream *h, bool last)
{
    if (h->elsewhere) return;
    if (!h->streamed) units_ahead(h);
    if (!h->streamed || !last) return;
    for (uint32_t part = 0; part < QSF_MIN(h->n_parts, QSF_PARTS_AHEAD); part++)
        (void)part_start(h, part, NULL);
}

void qsf_head_stream_next(qsf_head_stream *h, uint32_t part)
{
    /* After the last part comes the next token's first. */
    const uint32_t next = part + QSF_PARTS_AHEAD;
    if (!h->streamed || h->elsewhere) return;
    (void)part_start(h, next < h->n_parts ? next : part % QSF_PARTS_AHEAD, NULL);
}
