/* Reading a unit in parts, checked chunk by chunk.
 * SPDX-License-Identifier: MIT */
#include "weights/stream.h"

#include "base/pieces.h"
#include "tensor/ggml_tiles.h"
#include "weights/evict_lru.h"

/* The unit's chunk CRCs; NULL if the file has no CRCs (GGUF). */
static const uint32_t *stream_crcs(const qsf_source *s, qsf_unit_id id, uint32_t *n)
{
    const bool embd = id.kind == QSF_UNIT_EMBEDDING;
    *n = embd ? s->n_embd_crcs : s->n_final_crcs;
    return embd ? s->embd_crcs : s->final_crcs;
}

static const qsf_unit *stream_unit(const qsf_source *s, qsf_unit_id id)
{
    return &s->units[qsf_source_unit(s, id)];
}

bool qsf_stream_possible(const qsf_source *s, qsf_unit_id id, uint64_t begin, uint64_t end)
{
    const qsf_unit *u = stream_unit(s, id);
    bool inside = false;
    uint32_t n;
    for (uint32_t i = u->first_extent; i < u->first_extent + u->n_extents; i++) {
        const qsf_extent *x = &s->extents[i];
        inside |= begin >= x->to && end - x->to <= x->len;
    }
    if (u->compression != QSF_COMPRESS_NONE || !inside) return false;
    /* Chunks are counted over the unit. */
    return !u->has_crc || (u->n_extents == 1 && stream_crcs(s, id, &n) && s->crc_chunk);
}

static uint64_t stream_cap(const qsf_source *s, qsf_unit_id id, uint64_t len)
{
    return QSF_MAX(len, QSF_MIN(len + 2 * (uint64_t)s->crc_chunk, stream_unit(s, id)->stored));
}

/* A bit for each chunk that has a CRC. */
static qsf_piece stream_checked(qsf_shelf *shelf, const qsf_source *s, qsf_unit_id id)
{
    uint32_t n = 0;
    if (stream_unit(s, id)->has_crc) (void)stream_crcs(s, id, &n);
    return QSF_PIECE(shelf->checked, qsf_ceil_div(n, 8), "checked parts");
}

uint64_t qsf_stream_bytes(const qsf_source *s, qsf_unit_id id, uint32_t n, uint64_t len)
{
    qsf_shelf shelf;
    const qsf_piece checked = stream_checked(&shelf, s, id);
    return n * stream_cap(s, id, len) + qsf_pieces_bytes(&checked, 1);
}

/* ---- from bytes to weights ---- */

static qsf_status part_check(const qsf_fetch *f, const qsf_slot *slot, qsf_error *err)
{
    char name[32];
    const qsf_source *s = f->source;
    const uint32_t unit = qsf_source_unit(s, slot->id);
    uint32_t n;
    const uint32_t *crcs = stream_crcs(s, slot->id, &n);
    if (!s->units[unit].has_crc) return QSF_OK;
    for (uint64_t at = slot->begin; at < slot->end; at += s->crc_chunk) {
        const uint64_t i = at / s->crc_chunk, len = QSF_MIN(s->crc_chunk, slot->end - at);
        uint8_t *checked = &slot->shelf->checked[i / 8];
        const uint8_t bit = (uint8_t)(1 << i % 8);
        if (i < n && *checked & bit && !f->check_every) continue;
        if (i >= n || s->crc32(0, qsf_slot_at(slot, at), (size_t)len) != crcs[i])
            return qsf_fail(err, QSF_E_CORRUPT,
                            "%s: chunk %llu of the %s has a wrong CRC; fetch the file again", s->path,
                            (unsigned long long)i, qsf_unit_name(s, unit, name));
        *checked |= bit;
    }
    return QSF_OK;
}

static qsf_status part_make(qsf_fetch *f, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const qsf_platform *p = f->source->platform;
    const uint64_t begin = qsf_now(p);
    const qsf_status st = part_check(f, slot, err);
    slot->took.unit.check = qsf_now(p) - begin;
    if (st || !slot->tile.data) return st;
    qsf_tensor *const tile[1] = { &slot->tile };
    uint8_t *const data[1] = { slot->mem + ((const uint8_t *)slot->tile.data - slot->mem) };
    qsf_ggml_to_tiles(tile, data, 1, strips, pool);
    return QSF_OK;
}

/* ---- parts ---- */

qsf_status qsf_stream_init(qsf_stream *st, qsf_fetch *f, qsf_unit_id id, uint32_t n, uint64_t len,
                           bool threaded, qsf_error *err)
{
    const qsf_source *s = f->source;
    *st = (qsf_stream){ .fetch = f, .id = id };
    st->shelf = (qsf_shelf){ .evict = &qsf_evict_lru, .make = part_make, .threaded = threaded };
    const qsf_piece checked = stream_checked(&st->shelf, s, id);
    const qsf_status status = qsf_pieces_alloc(f->mem, &checked, 1, err);
    return status ? status : qsf_fetch_add_shelf(f, &st->shelf, n, stream_cap(s, id, len), err);
}

void qsf_stream_done(qsf_stream *st)
{
    if (!st->fetch) return;
    qsf_fetch_drop(st->fetch, &st->shelf);
    const qsf_piece checked = stream_checked(&st->shelf, st->fetch->source, st->id);
    qsf_pieces_free(st->fetch->mem, &checked, 1);
    *st = (qsf_stream){ 0 };
}

qsf_status qsf_stream_start(qsf_stream *st, uint64_t begin, uint64_t end, const qsf_tensor *tile,
                            qsf_error *err)
{
    const qsf_want want = { .id = st->id, .begin = begin, .end = end, .tile = tile, .ahead = true };
    qsf_fetch_collect(st->fetch, &st->shelf);
    return qsf_fetch_start(st->fetch, &st->shelf, &want, err);
}

qsf_status qsf_stream_get(qsf_stream *st, uint64_t begin, uint64_t end, const qsf_tensor *tile, bool wait,
                          const qsf_slot **slot, qsf_error *err)
{
    const qsf_want want = { .id = st->id, .begin = begin, .end = end, .tile = tile };
    return qsf_fetch_get(st->fetch, &st->shelf, &want, wait, slot, err);
}
