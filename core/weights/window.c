/* Reading a unit in parts, checked chunk by chunk.
 * SPDX-License-Identifier: MIT */
#include "weights/window.h"

#include "tensor/ggml_tiles.h"

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

uint64_t qsf_window_checked_bytes(const qsf_source *s, uint32_t unit)
{
    uint32_t n = 0;
    if (s->units[unit].has_crc) (void)window_crcs(s, unit, &n);
    return qsf_ceil_div(n, 8);
}

qsf_status qsf_window_init(qsf_window *w, qsf_loader *l, uint32_t unit, uint64_t len, qsf_error *err)
{
    *w = (qsf_window){ .loader = l, .unit = unit, .cap = qsf_window_bytes(l->source, unit, len) };
    w->mem = qsf_alloc(l->mem, w->cap, "window on the embedding", err);
    return w->mem ? QSF_OK : QSF_E_MEMORY;
}

/* Ends what runs, whatever comes of it. */
static void window_stop(qsf_window *w)
{
    const qsf_platform *io = w->loader->source->io;
    if (w->job.given) (void)qsf_worker_take(w->loader->worker, &w->job, true, NULL);
    else if (w->read && io->read_wait) io->read_wait(io->user, w->read);
    else while (w->read && io->read_poll(io->user, w->read) == QSF_PENDING) ;
    w->read = NULL;
    w->state = QSF_SLOT_EMPTY;
}

void qsf_window_forget(qsf_window *w)
{
    if (w->state == QSF_SLOT_READING) window_stop(w);
}

void qsf_window_done(qsf_window *w)
{
    if (!w->loader) return;
    window_stop(w);
    qsf_dealloc(w->loader->mem, w->mem, w->cap);
    *w = (qsf_window){ 0 };
}

/* ---- from bytes to weights ---- */

static const char *window_name(const qsf_window *w) { return w->unit == qsf_unit_embd(w->loader->source) ? "embedding" : "head"; }

static qsf_status window_check(const qsf_window *w, qsf_error *err)
{
    const qsf_source *s = w->loader->source;
    uint32_t n;
    const uint32_t *crcs = window_crcs(s, w->unit, &n);
    if (!s->units[w->unit].has_crc) return QSF_OK;
    for (uint64_t at = w->begin; at < w->end; at += s->crc_chunk) {
        const uint64_t i = at / s->crc_chunk, len = QSF_MIN(s->crc_chunk, w->end - at);
        const uint8_t bit = (uint8_t)(1 << i % 8);
        if (i < n && w->checked && w->checked[i / 8] & bit && !w->loader->check_every) continue;
        if (i >= n || s->crc32(0, qsf_window_at(w, at), (size_t)len) != crcs[i])
            return qsf_fail(err, QSF_E_CORRUPT, "%s: chunk %llu of the %s has a wrong CRC; fetch the file again", s->path, (unsigned long long)i, window_name(w));
        if (w->checked) w->checked[i / 8] |= bit;
    }
    return QSF_OK;
}

static qsf_status window_prepare(qsf_window *w, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const qsf_platform *p = w->loader->source->platform;
    qsf_tensor *const tile[1] = { &w->tile };
    const uint64_t begin = qsf_now(p);
    const qsf_status st = window_check(w, err);
    w->took.unit.check = qsf_now(p) - begin;
    if (!st && w->tile.data) qsf_ggml_to_tiles(tile, 1, strips, pool);
    w->took.prepare = qsf_now(p) - begin;
    return st;
}

/* ---- reading ---- */

/* QSF_PENDING, or the read is over; wait: does not return QSF_PENDING. */
static qsf_status window_read(qsf_window *w, bool wait, qsf_error *err)
{
    const qsf_source *s = w->loader->source;
    const qsf_status st = wait ? s->io->read_wait(s->io->user, w->read) : s->io->read_poll(s->io->user, w->read);
    if (st == QSF_PENDING) return st;
    w->read = NULL;
    if (st == QSF_E_CORRUPT) return qsf_fail(err, st, "%s: the file was changed while it was in use; open it again", s->path);
    return st ? qsf_fail(err, st, "%s: reading the %s failed", s->path, window_name(w)) : QSF_OK;
}

/* What the thread does with a window. */
static qsf_status window_job(void *arg, uint32_t what, qsf_error *err)
{
    qsf_window *w = arg;
    (void)what;
    const qsf_status st = window_read(w, true, err);
    w->took.read = qsf_loader_reads_over(w->loader, w->begun);
    return st ? st : window_prepare(w, qsf_loader_strips(w->loader, true), NULL, err);
}

qsf_status qsf_window_start(qsf_window *w, uint64_t begin, uint64_t end, const qsf_tensor *tile, qsf_error *err)
{
    qsf_loader *l = w->loader;
    const qsf_source *s = l->source;
    const qsf_unit *u = &s->units[w->unit];
    const qsf_extent *x = window_extent(s, w->unit, begin, end);
    if (w->state != QSF_SLOT_EMPTY && begin >= w->begin && end <= w->end && (!tile || w->tile.data == qsf_window_at(w, begin))) return QSF_OK;
    window_stop(w);
    assert(begin < end && x);
    w->begin = begin;
    w->end = end;
    if (u->has_crc) {
        w->begin = begin / s->crc_chunk * s->crc_chunk;
        w->end = QSF_MIN(qsf_round_up(end, s->crc_chunk), u->payload);
    }
    assert(w->end - w->begin <= w->cap);
    w->tile = tile ? *tile : (qsf_tensor){ 0 };
    if (tile) w->tile.data = qsf_window_at(w, begin);
    w->took = (qsf_load_times){ 0 };
    w->begun = qsf_now(s->platform);
    const qsf_status st = s->io->read_start(s->io->user, s->files[x->file], x->at + (w->begin - x->to), w->mem, (size_t)(w->end - w->begin), &w->read);
    l->ns_wait += qsf_now(s->platform) - w->begun;        /* a custom file is read here */
    if (st) {
        w->read = NULL;
        return qsf_fail(err, st, "%s: cannot read %llu bytes at %llu", s->path, (unsigned long long)(w->end - w->begin),
                        (unsigned long long)(x->at + w->begin - x->to));
    }
    l->bytes_read += w->end - w->begin;
    w->state = QSF_SLOT_READING;
    if (!w->threaded || !l->worker) return QSF_OK;
    w->job.fn = window_job;
    w->job.arg = w;
    qsf_worker_give(l->worker, &w->job);
    return QSF_OK;
}

/* As the thread does it, on the caller's. */
static qsf_status window_own(qsf_window *w, bool wait, qsf_error *err)
{
    qsf_loader *l = w->loader;
    if (wait && !l->source->io->read_wait) return qsf_fail(err, QSF_E_UNSUPPORTED, "this host cannot wait for a read");
    const uint64_t begin = wait ? qsf_now(l->source->platform) : 0;
    qsf_status st = window_read(w, wait, err);
    if (wait) w->took.read = qsf_now(l->source->platform) - begin;
    if (st) return st;
    st = window_prepare(w, qsf_loader_strips(l, false), l->pool, err);
    l->ns_own += w->took.prepare;
    return st;
}

qsf_status qsf_window_poll(qsf_window *w, bool wait, qsf_error *err)
{
    qsf_loader *l = w->loader;
    if (w->state == QSF_SLOT_READY) return QSF_OK;
    assert(w->state == QSF_SLOT_READING);
    const uint64_t begin = qsf_now(l->source->platform), own = l->ns_own;
    const qsf_status st = w->job.given ? qsf_worker_take(l->worker, &w->job, wait, err) : window_own(w, wait, err);
    if (wait) l->ns_wait += qsf_now(l->source->platform) - begin - (l->ns_own - own);
    if (w->job.given || w->read) return st;
    qsf_loader_count(l, &w->took);
    w->state = st ? QSF_SLOT_EMPTY : QSF_SLOT_READY;
    return st;
}
