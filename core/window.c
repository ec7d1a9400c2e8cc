/* Reading a unit in parts, checked chunk by chunk.
 * SPDX-License-Identifier: MIT */
#include "window.h"

/* The unit's chunk CRCs; NULL where the file has none (GGUF). */
static const uint32_t *window_crcs(const qsf_source *s, uint32_t unit, uint32_t *n)
{
    const bool embd = unit == qsf_unit_embd(s);
    *n = embd ? s->n_embd_crcs : s->n_final_crcs;
    return embd ? s->embd_crcs : s->final_crcs;
}

/* The extent of a unit that holds bytes [begin, end); NULL: there is no single one. */
static const qsf_extent *window_extent(const qsf_source *s, uint32_t unit, uint64_t begin, uint64_t end)
{
    const qsf_unit *u = &s->units[unit];
    for (uint32_t i = u->first_extent; i < u->first_extent + u->n_extents; i++) {
        const qsf_extent *x = &s->extents[i];
        if (begin >= x->to && end - x->to <= x->len) return x;
    }
    return NULL;
}

bool qsf_window_possible(const qsf_source *s, uint32_t unit, uint64_t begin, uint64_t end)
{
    const qsf_unit *u = &s->units[unit];
    uint32_t n;
    if (u->compression != QSF_COMPRESS_NONE || !window_extent(s, unit, begin, end)) return false;
    return !u->has_crc || (u->n_extents == 1 && window_crcs(s, unit, &n) && s->crc_chunk);       /* chunks are counted over the unit */
}

uint64_t qsf_window_bytes(const qsf_source *s, uint32_t unit, uint64_t len)
{
    return QSF_MAX(len, QSF_MIN(len + 2 * (uint64_t)s->crc_chunk, s->units[unit].stored));
}

qsf_status qsf_window_init(qsf_window *w, const qsf_source *s, const qsf_platform *memory, uint32_t unit, uint64_t len, qsf_error *err)
{
    *w = (qsf_window){ .source = s, .memory = memory, .unit = unit, .cap = qsf_window_bytes(s, unit, len) };
    w->mem = qsf_alloc(memory, w->cap, "window on the embedding", err);
    return w->mem ? QSF_OK : QSF_E_MEMORY;
}

static void window_stop(qsf_window *w)
{
    const qsf_platform *io = w->source->io;
    if (w->read && io->read_wait) io->read_wait(io->user, w->read);
    else while (w->read && io->read_poll(io->user, w->read) == QSF_PENDING) ;
    w->read = NULL;
    w->ready = false;
}

void qsf_window_done(qsf_window *w)
{
    if (!w->source) return;
    window_stop(w);
    if (w->mem) qsf_dealloc(w->memory, w->mem, w->cap);
    *w = (qsf_window){ 0 };
}

qsf_status qsf_window_start(qsf_window *w, uint64_t begin, uint64_t end, qsf_error *err)
{
    const qsf_source *s = w->source;
    const qsf_unit *u = &s->units[w->unit];
    const qsf_extent *x = window_extent(s, w->unit, begin, end);
    if ((w->read || w->ready) && begin >= w->begin && end <= w->end) return QSF_OK;
    window_stop(w);
    assert(begin < end && x);
    w->begin = begin;
    w->end = end;
    w->tiled = false;
    if (u->has_crc) {
        w->begin = begin / s->crc_chunk * s->crc_chunk;
        w->end = QSF_MIN(qsf_round_up(end, s->crc_chunk), u->payload);
    }
    assert(w->end - w->begin <= w->cap);
    const qsf_status st = s->io->read_start(s->io->user, s->files[x->file], x->at + (w->begin - x->to), w->mem, (size_t)(w->end - w->begin), &w->read);
    if (st) {
        w->read = NULL;
        return qsf_fail(err, st, "%s: cannot read %llu bytes at %llu", s->path, (unsigned long long)(w->end - w->begin),
                        (unsigned long long)(x->at + w->begin - x->to));
    }
    w->bytes_read += w->end - w->begin;
    return QSF_OK;
}

static qsf_status window_check(const qsf_window *w, qsf_error *err)
{
    const qsf_source *s = w->source;
    uint32_t n;
    const uint32_t *crcs = window_crcs(s, w->unit, &n);
    if (!s->units[w->unit].has_crc) return QSF_OK;
    for (uint64_t at = w->begin; at < w->end; at += s->crc_chunk) {
        const uint64_t i = at / s->crc_chunk, len = QSF_MIN(s->crc_chunk, w->end - at);
        if (i >= n || s->crc32(0, qsf_window_at(w, at), (size_t)len) != crcs[i])
            return qsf_fail(err, QSF_E_CORRUPT, "%s: chunk %llu of %s has a wrong CRC; fetch the file again", s->path, (unsigned long long)i,
                            w->unit == qsf_unit_embd(s) ? "the embedding" : "the head");
    }
    return QSF_OK;
}

qsf_status qsf_window_poll(qsf_window *w, bool wait, qsf_error *err)
{
    const qsf_platform *io = w->source->io;
    if (w->ready) return QSF_OK;
    assert(w->read);
    if (wait && !io->read_wait) return qsf_fail(err, QSF_E_UNSUPPORTED, "this host cannot wait for a read");
    const uint64_t begin = wait ? qsf_now(w->source->platform) : 0;
    qsf_status st = wait ? io->read_wait(io->user, w->read) : io->read_poll(io->user, w->read);
    if (wait) w->ns_wait += qsf_now(w->source->platform) - begin;
    if (st == QSF_PENDING) return st;
    w->read = NULL;
    if (st == QSF_E_CORRUPT) return qsf_fail(err, st, "%s: the file was changed while it was in use; open it again", w->source->path);
    if (st) return qsf_fail(err, st, "%s: reading the %s failed", w->source->path, w->unit == qsf_unit_embd(w->source) ? "embedding" : "head");
    const uint64_t came = qsf_now(w->source->platform);
    st = window_check(w, err);
    w->ns_check += qsf_now(w->source->platform) - came;
    if (st) return st;
    w->ready = true;
    return QSF_OK;
}
