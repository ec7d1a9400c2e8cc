/* Slots of memory that units of the file are read into, one after another or for good.
 * SPDX-License-Identifier: MIT */
#include "weights/loader.h"

#include "tensor/ggml_tiles.h"

/* Where a tensor of a unit goes in its slot. */
typedef struct slot_place {
    uint64_t at;        /* of the tensor as the kernels take it */
    uint64_t bytes;
    bool     tile;      /* rows of blocks that become tiles */
    bool     ggml;      /* rows of GGUF blocks that become tiles where they are */
    bool     vector;    /* becomes floats */
} slot_place;

static bool unit_is_vector(const qsf_tensor *t) { return t->rows == 1 && t->kind < QSF_N_KINDS; }

/* Tensors stay where the file has them, unless one must change its form: then all of them get new places. */
static bool unit_moves(const qsf_source *s, const qsf_unit *u)
{
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        if (t->packing == 0 && qsf_type_tiles(t->type) && !unit_is_vector(t)) return true;
    }
    return false;
}

/* Whether tensor i of a unit is a GGUF matrix that becomes tiles: one that stays where the file has it needs room behind it for that. */
static bool unit_tiles_ggml(const qsf_source *s, const qsf_unit *u, uint32_t i, bool moves)
{
    const qsf_tensor *t = &s->tensors[u->first_tensor + i];
    const uint64_t *at = &s->places[u->first_tensor], bytes = qsf_ggml_tiled_bytes(t);
    if (unit_is_vector(t) || qsf_ggml_tile_type(t) < 0) return false;
    for (uint32_t j = 0; !moves && j < u->n_tensors; j++)
        if (at[j] > at[i] && at[j] - at[i] < bytes) return false;
    return true;
}

/* Where the tensors that stay end, as tiles. */
static uint64_t unit_stays_until(const qsf_source *s, const qsf_unit *u)
{
    uint64_t end = u->raw;
    for (uint32_t i = 0; i < u->n_tensors; i++)
        if (unit_tiles_ggml(s, u, i, false))
            end = QSF_MAX(end, s->places[u->first_tensor + i] + qsf_ggml_tiled_bytes(&s->tensors[u->first_tensor + i]));
    return qsf_round_up(end, 64);
}

static qsf_status unit_layout(const qsf_source *s, uint32_t unit, slot_place *places, uint64_t *total, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const bool moves = unit_moves(s, u);
    uint64_t end = moves ? 0 : unit_stays_until(s, u);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        const qsf_tensor *t = &s->tensors[u->first_tensor + i];
        slot_place *p = &places[i];
        *p = (slot_place){ .at = s->places[u->first_tensor + i], .bytes = t->bytes, .vector = unit_is_vector(t) };
        if (p->vector) p->bytes = (uint64_t)t->cols * sizeof(float);
        p->tile = !p->vector && t->packing == 0 && qsf_type_tiles(t->type);
        if (p->tile) {
            const qsf_status st = qsf_tensor_bytes(t->type, 1, t->block, t->rows, t->cols, &p->bytes, err);
            if (st) return st;
        }
        p->ggml = unit_tiles_ggml(s, u, i, moves);
        if (p->ggml) p->bytes = qsf_ggml_tiled_bytes(t);
        if (moves || p->vector) {
            p->at = end;
            end += qsf_round_up(p->bytes, 64);
        }
    }
    *total = QSF_MAX(end, 64);
    return QSF_OK;
}

qsf_status qsf_unit_memory(const qsf_source *s, uint32_t unit, uint64_t *slot, uint64_t *stored, uint64_t *raw, qsf_error *err)
{
    slot_place places[QSF_MAX_UNIT_TENSORS];
    const qsf_unit *u = &s->units[unit];
    const bool moves = unit_moves(s, u), packed = u->compression != QSF_COMPRESS_NONE;
    *stored = moves || packed ? u->stored : 0;
    *raw = moves && packed ? u->raw : 0;
    return unit_layout(s, unit, places, slot, err);
}

/* ---- from bytes to weights ---- */

static void slot_outliers(qsf_matrix *m, const qsf_tensor *t)
{
    const uint8_t *p = t->data;                 /* row_start[rows + 1], col[n], value[n]: see QSF_T_SPARSE */
    m->out_start = (const uint32_t *)(const void *)p;
    m->out_col = m->out_start + t->rows + 1;
    m->out_value = (const uint16_t *)(const void *)(m->out_col + t->cols);
}

/* The places in a sparse tensor are used as indices: they must be in range before the kernels see them. */
static bool outliers_in_range(const qsf_tensor *t, uint32_t cols)
{
    qsf_matrix m;
    slot_outliers(&m, t);
    if (m.out_start[0] != 0 || m.out_start[t->rows] != t->cols) return false;
    for (uint32_t r = 0; r < t->rows; r++)
        if (m.out_start[r] > m.out_start[r + 1] || m.out_start[r + 1] > t->cols) return false;
    for (uint32_t i = 0; i < t->cols; i++)
        if (m.out_col[i] >= cols) return false;
    return true;
}

static qsf_status slot_add(const qsf_source *s, qsf_weights *w, const qsf_tensor *t, qsf_error *err)
{
    if (t->kind < QSF_N_KINDS && t->rows == 1) {
        w->v[t->kind] = t->data;
    } else if (t->kind < QSF_N_KINDS) {
        qsf_matrix *m = &w->m[t->kind];
        m->t = *t;
        m->form = t->packing == 1 ? qsf_form_of_type(t->type) : -1;
        m->blocks = t->block ? (uint32_t)qsf_ceil_div(t->cols, t->block) : 0;
    } else if (t->kind >= QSF_K_OUTLIERS && t->kind < QSF_K_OUTLIERS + QSF_N_KINDS) {
        qsf_matrix *m = &w->m[t->kind - QSF_K_OUTLIERS];
        if (!m->t.data || m->t.rows != t->rows || t->type != QSF_T_SPARSE || !outliers_in_range(t, m->t.cols))
            return qsf_fail(err, QSF_E_CORRUPT, "%s: the outliers of %s do not fit their tensor", s->path, qsf_kind_name(t->kind - QSF_K_OUTLIERS));
        slot_outliers(m, t);
    }
    return QSF_OK;
}

/* Brings the unit's bytes, read to where unit_memory said, into their final form in the slot. */
static qsf_status slot_form(qsf_loader *l, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const qsf_source *s = l->source;
    const qsf_unit *u = &s->units[slot->unit];
    const bool moves = unit_moves(s, u), packed = u->compression != QSF_COMPRESS_NONE;
    const uint8_t *stored = slot->stage >= 0 ? l->stored[slot->stage] : slot->mem;
    const bool crc = l->check_every || !l->checked[slot->unit];
    uint8_t *raw = packed ? (moves ? l->raw : slot->mem) : NULL;
    slot_place places[QSF_MAX_UNIT_TENSORS];
    qsf_tensor tensors[QSF_MAX_UNIT_TENSORS], *ggml[QSF_MAX_UNIT_TENSORS];
    uint32_t n_ggml = 0;
    uint64_t total;
    qsf_status st;

    if ((st = qsf_unit_check_timed(s, slot->unit, stored, raw, crc, &slot->took.unit, err))) return st;
    l->checked[slot->unit] = true;
    if ((st = unit_layout(s, slot->unit, places, &total, err))) return st;
    assert(total <= slot->cap);
    const uint8_t *from = packed ? raw : stored;
    memset(&slot->w, 0, sizeof slot->w);
    for (uint32_t i = 0; i < u->n_tensors; i++) {
        qsf_tensor *t = &tensors[i];
        const slot_place *p = &places[i];
        uint8_t *to = slot->mem + p->at;
        *t = s->tensors[u->first_tensor + i];
        t->data = from + s->places[u->first_tensor + i];
        if (p->vector) {
            qsf_dequant_rows(t, 0, 1, (float *)(void *)to);
            t->type = QSF_T_F32;
            t->block = 1;
        } else if (p->tile) {
            qsf_pack_tiles(t, to);
            t->packing = 1;
        } else if (moves) {
            memcpy(to, t->data, (size_t)t->bytes);
        }
        t->data = to;
        if (p->ggml) ggml[n_ggml++] = t;
        else t->bytes = p->bytes;
    }
    qsf_ggml_to_tiles(ggml, n_ggml, strips, pool);
    for (uint32_t i = 0; i < u->n_tensors; i++)
        if ((st = slot_add(s, &slot->w, &tensors[i], err))) return st;
    return QSF_OK;
}

static qsf_status slot_prepare(qsf_loader *l, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const uint64_t begin = qsf_now(l->source->platform);
    const qsf_status st = slot_form(l, slot, strips, pool, err);
    slot->took.prepare = qsf_now(l->source->platform) - begin;
    return st;
}

/* ---- reading ---- */

/* Ends the reads that are over; wait: all. */
static qsf_status slot_reads(const qsf_loader *l, qsf_slot *slot, bool wait, qsf_error *err)
{
    const qsf_source *s = l->source;
    for (uint32_t i = 0; i < slot->n_reads; i++) {
        if (!slot->reads[i]) continue;
        const qsf_status st = wait ? s->io->read_wait(s->io->user, slot->reads[i]) : s->io->read_poll(s->io->user, slot->reads[i]);
        if (st == QSF_PENDING) return st;
        slot->reads[i] = NULL;
        if (st) {
            const qsf_extent *x = &s->extents[s->units[slot->unit].first_extent + i];
            if (st == QSF_E_CORRUPT) return qsf_fail(err, st, "%s: the file was changed while it was in use; open it again", s->path);
            return qsf_fail(err, st, "%s: reading %llu bytes at %llu failed", s->path, (unsigned long long)x->len, (unsigned long long)x->at);
        }
    }
    return QSF_OK;
}

/* Ends what runs, whatever comes of it. */
static void slot_stop(const qsf_loader *l, qsf_slot *slot)
{
    const qsf_platform *io = l->source->io;
    for (uint32_t i = 0; i < slot->n_reads; i++) {
        if (!slot->reads[i]) continue;
        if (io->read_wait) io->read_wait(io->user, slot->reads[i]);
        else while (io->read_poll(io->user, slot->reads[i]) == QSF_PENDING) ;
        slot->reads[i] = NULL;
    }
}

uint64_t qsf_loader_reads_over(qsf_loader *l, uint64_t begun)
{
    const uint64_t now = qsf_now(l->source->platform), ns = now - QSF_MAX(begun, l->read_until);
    l->read_until = now;
    return ns;
}

void qsf_loader_count(qsf_loader *l, const qsf_load_times *took)
{
    l->took.read += took->read;
    l->took.prepare += took->prepare;
    l->took.unit.check += took->unit.check;
    l->took.unit.unpack += took->unit.unpack;
}

uint8_t *qsf_loader_strips(const qsf_loader *l, bool thread) { return thread ? l->strips + (l->strips_cap - l->strip_cap) : l->strips; }

/* What the thread does with a slot. */
static qsf_status slot_job(void *arg, uint32_t index, qsf_error *err)
{
    qsf_loader *l = arg;
    qsf_slot *slot = &l->slots[index];
    const qsf_status st = slot_reads(l, slot, true, err);
    slot->took.read = qsf_loader_reads_over(l, slot->begun);
    if (!st) return slot_prepare(l, slot, qsf_loader_strips(l, true), NULL, err);
    slot_stop(l, slot);
    return st;
}

/* Units that stay are prepared by the caller with all threads: nothing else can be computed until then.  Not those that need the staging
 * buffers, which are the thread's. */
static void slot_hand_over(qsf_loader *l, uint32_t index)
{
    qsf_slot *slot = &l->slots[index];
    if (!l->worker || (slot->pinned && slot->stage < 0)) return;
    slot->job.fn = slot_job;
    slot->job.arg = l;
    slot->job.what = index;
    qsf_worker_give(l->worker, &slot->job);
}

static qsf_status slot_start(qsf_loader *l, uint32_t index, uint32_t unit, int32_t stage, qsf_error *err)
{
    const qsf_source *s = l->source;
    const qsf_unit *u = &s->units[unit];
    qsf_slot *slot = &l->slots[index];
    uint8_t *to = stage >= 0 ? l->stored[stage] : slot->mem;
    if (slot->state == QSF_SLOT_READY) l->slot_of[slot->unit] = -1;
    slot->state = QSF_SLOT_READING;
    slot->unit = unit;
    slot->n_reads = 0;
    slot->stage = stage;
    slot->took = (qsf_load_times){ 0 };
    slot->begun = qsf_now(s->platform);
    slot->batch = l->batch;
    l->slot_of[unit] = (int32_t)index;
    if (stage >= 0) l->staging[stage] = (int32_t)index;
    for (uint32_t i = 0; i < u->n_extents; i++) {
        const qsf_extent *x = &s->extents[u->first_extent + i];
        slot->reads[i] = NULL;
        const qsf_status st = s->io->read_start(s->io->user, s->files[x->file], x->at, to + x->to, (size_t)x->len, &slot->reads[i]);
        slot->n_reads = i + 1;
        if (st) return qsf_fail(err, st, "%s: cannot read %llu bytes at %llu", s->path, (unsigned long long)x->len, (unsigned long long)x->at);
        l->bytes_read += x->len;
    }
    slot_hand_over(l, index);
    return QSF_OK;
}

static void slot_unstage(qsf_loader *l, qsf_slot *slot)
{
    if (slot->stage >= 0) l->staging[slot->stage] = -1;
    slot->stage = -1;
}

/* Ends what runs in a slot and forgets its unit. */
static void slot_drop(qsf_loader *l, uint32_t index)
{
    qsf_slot *slot = &l->slots[index];
    if (slot->state == QSF_SLOT_EMPTY) return;
    if (slot->job.given) (void)qsf_worker_take(l->worker, &slot->job, true, NULL);
    else if (slot->state == QSF_SLOT_READING) slot_stop(l, slot);
    l->slot_of[slot->unit] = -1;
    slot_unstage(l, slot);
    slot->state = QSF_SLOT_EMPTY;
}

/* How many layers after layer `from` unit u comes, going round. */
static uint32_t layers_ahead(const qsf_loader *l, uint32_t u, int32_t from)
{
    const uint32_t n = l->source->hp.n_layers;
    return (u + n - (uint32_t)from) % n;
}

/* The slot unit should go to: its own, an empty one, else that of the layer whose turn is furthest away, as long as that is later than
 * the unit's own; -1 where there is none. */
static int32_t slot_choose(const qsf_loader *l, uint32_t unit, int32_t keep)
{
    int32_t best = -1;
    uint32_t best_ahead = 0;
    for (uint32_t i = 0; i < l->n_slots; i++) {
        const qsf_slot *slot = &l->slots[i];
        if (slot->pinned) {
            if (slot->unit == unit) return (int32_t)i;
            continue;
        }
        if (slot->state == QSF_SLOT_READING || (slot->state == QSF_SLOT_READY && (int32_t)slot->unit == keep)) continue;
        if (unit >= l->source->hp.n_layers) continue;
        uint32_t ahead = UINT32_MAX;
        if (slot->state == QSF_SLOT_READY) {
            ahead = layers_ahead(l, slot->unit, keep < 0 ? (int32_t)unit : keep);
            if (keep >= 0 && ahead <= layers_ahead(l, unit, keep)) continue;
        }
        if (best < 0 || ahead > best_ahead) {
            best = (int32_t)i;
            best_ahead = ahead;
        }
    }
    return best;
}

enum { LOADER_AHEAD = 2 };        /* layers whose bytes are on the way at once: while one is prepared the other still travels */

bool qsf_layer_runs(const qsf_source *s, float quality, uint32_t layer)
{
    return quality >= 1 || layer < 2 || layer + 2 >= s->hp.n_layers || s->units[layer].importance >= 1 - quality;
}

uint32_t qsf_layers_run(const qsf_source *s, float quality, uint32_t n)
{
    uint32_t run = 0;
    for (uint32_t i = 0; i < n; i++) run += qsf_layer_runs(s, quality, i);
    return run;
}

bool qsf_loader_skips(const qsf_loader *l, uint32_t layer)
{
    return (l->left_out && l->left_out[layer]) || !qsf_layer_runs(l->source, l->quality, layer);
}

bool qsf_loader_knows(const qsf_loader *l)
{
    for (uint32_t i = 0; i < l->source->hp.n_layers; i++)
        if (l->source->units[i].importance != 1) return true;
    return false;
}

qsf_status qsf_loader_start(qsf_loader *l, uint32_t unit, int32_t keep, qsf_error *err)
{
    if (l->slot_of[unit] >= 0) return QSF_OK;
    const qsf_unit *u = &l->source->units[unit];
    int32_t stage = -1;
    if (unit_moves(l->source, u) || u->compression != QSF_COMPRESS_NONE) {
        for (uint32_t i = 0; i < l->n_stages && stage < 0; i++)
            if (l->staging[i] < 0) stage = (int32_t)i;
        if (stage < 0) return QSF_OK;                   /* all are taken: later */
    }
    if (l->worker && qsf_worker_room(l->worker) <= QSF_LOADER_WINDOWS) return QSF_OK;
    const int32_t index = slot_choose(l, unit, keep);
    if (index < 0) return QSF_OK;
    const uint64_t begin = qsf_now(l->source->platform);
    const qsf_status st = slot_start(l, (uint32_t)index, unit, stage, err);
    l->ns_wait += qsf_now(l->source->platform) - begin;        /* a custom file is read here */
    if (st) slot_drop(l, (uint32_t)index);
    return st;
}

/* As the thread does it, on the caller's. */
static qsf_status slot_own(qsf_loader *l, qsf_slot *slot, bool wait, qsf_error *err)
{
    if (wait && !l->source->io->read_wait) return qsf_fail(err, QSF_E_UNSUPPORTED, "this host cannot wait for a read");
    const uint64_t begin = wait ? qsf_now(l->source->platform) : 0;
    qsf_status st = slot_reads(l, slot, wait, err);
    if (wait) slot->took.read += qsf_now(l->source->platform) - begin;
    if (st) return st;
    st = slot_prepare(l, slot, qsf_loader_strips(l, false), l->pool, err);
    l->ns_own += slot->took.prepare;
    return st;
}

/* Moves a reading slot on; wait: until it is ready. */
static qsf_status slot_poll(qsf_loader *l, uint32_t index, bool wait, qsf_error *err)
{
    qsf_slot *slot = &l->slots[index];
    const qsf_status st = slot->job.given ? qsf_worker_take(l->worker, &slot->job, wait, err) : slot_own(l, slot, wait, err);
    if (st == QSF_PENDING || (wait && st == QSF_E_UNSUPPORTED && !l->source->io->read_wait)) return st;
    qsf_loader_count(l, &slot->took);
    if (st) {
        slot_drop(l, index);
        return st;
    }
    slot_unstage(l, slot);
    slot->state = QSF_SLOT_READY;
    return QSF_OK;
}

/* Frees the staging buffers of units that the thread has done.  One that failed is dropped: its error shows when it is read again. */
static void loader_collect(qsf_loader *l)
{
    for (uint32_t i = 0; l->worker && i < l->n_slots; i++)
        if (l->slots[i].job.given) (void)slot_poll(l, i, false, NULL);
}

void qsf_loader_prefetch(qsf_loader *l, uint32_t layer)
{
    const uint32_t n = l->source->hp.n_layers;
    uint32_t reading = 0;
    loader_collect(l);
    for (uint32_t i = 1; i < n && reading < LOADER_AHEAD; i++) {
        const uint32_t next = (layer + i) % n;
        if (qsf_loader_skips(l, next)) continue;
        if (l->slot_of[next] < 0) (void)qsf_loader_start(l, next, (int32_t)layer, NULL);      /* a failure shows when the layer is needed */
        if (l->slot_of[next] < 0) return;
        reading += l->slots[l->slot_of[next]].state == QSF_SLOT_READING;
    }
}

static qsf_status loader_advance(qsf_loader *l, uint32_t unit, bool wait, qsf_error *err)
{
    while (l->slot_of[unit] < 0) {
        const qsf_status st = qsf_loader_start(l, unit, -1, err);
        if (st) return st;
        if (l->slot_of[unit] >= 0) break;
        /* Every slot, or the staging buffer, is busy with another unit: that one first.  Where its reads are
         * over there may be room, and nothing to wait for; that they failed is none of this batch's where one
         * before it began them. */
        uint32_t i = 0;
        while (i < l->n_slots && l->slots[i].state != QSF_SLOT_READING) i++;
        assert(i < l->n_slots);
        const bool before = l->slots[i].batch != l->batch;
        const qsf_status other = slot_poll(l, i, wait, err);
        if (other && !(before && l->slots[i].state == QSF_SLOT_EMPTY)) return other;
    }
    qsf_slot *slot = &l->slots[l->slot_of[unit]];
    if (slot->state == QSF_SLOT_READY) return QSF_OK;
    const bool ahead = slot->batch != l->batch;
    const qsf_status st = slot_poll(l, (uint32_t)l->slot_of[unit], wait, err);
    if (!st || l->slot_of[unit] >= 0 || !ahead) return st;
    /* A batch before this one read it ahead.  That it failed then is none of this one's: the read is made again. */
    if (err) *err = (qsf_error){ 0 };
    const qsf_status again = qsf_loader_start(l, unit, -1, err);
    return again ? again : QSF_PENDING;
}

qsf_status qsf_loader_get(qsf_loader *l, uint32_t unit, const qsf_weights **w, qsf_error *err)
{
    const qsf_status st = loader_advance(l, unit, false, err);
    *w = st ? NULL : &l->slots[l->slot_of[unit]].w;
    return st;
}

qsf_status qsf_loader_wait(qsf_loader *l, uint32_t unit, qsf_error *err)
{
    qsf_status st;
    const uint64_t begin = qsf_now(l->source->platform), before = l->ns_wait + l->ns_own;
    while ((st = loader_advance(l, unit, true, err)) == QSF_PENDING) ;
    l->ns_wait += qsf_now(l->source->platform) - begin - (l->ns_wait + l->ns_own - before);
    return st;
}

void qsf_loader_waited(qsf_loader *l, uint64_t ns)
{
    l->ns_wait += ns;
    if (!l->worker) l->took.read += ns;         /* a thread measures its reads */
}

/* ---- life ---- */

bool qsf_loader_threaded(const qsf_source *s)
{
    return qsf_host_threads(s->platform) && s->io->read_wait && s->io->reads_cross_threads;
}

/* Sizes that depend on the file alone. */
static void loader_measure(const qsf_source *s, uint32_t *max_extents, uint64_t *strip_cap)
{
    *max_extents = 1;
    *strip_cap = 0;
    for (uint32_t u = 0; u < s->n_units; u++) *max_extents = QSF_MAX(*max_extents, s->units[u].n_extents);
    for (uint32_t i = 0; i < s->n_tensors; i++)
        if (qsf_ggml_tile_type(&s->tensors[i]) >= 0) *strip_cap = QSF_MAX(*strip_cap, qsf_ggml_strip_bytes(&s->tensors[i]));
}

uint64_t qsf_loader_tables(const qsf_source *s, uint32_t n_threads)
{
    uint32_t max_extents;
    uint64_t strip_cap;
    loader_measure(s, &max_extents, &strip_cap);
    return (s->n_units + 1) * (sizeof(qsf_slot) + max_extents * sizeof(qsf_read *)) + s->n_units * (sizeof(int32_t) + 1) + (n_threads + 1) * strip_cap +
           qsf_worker_bytes();
}

qsf_status qsf_loader_init(qsf_loader *l, const qsf_source *s, const qsf_platform *p, const uint64_t *caps, const int32_t *pins, uint32_t n_slots,
                           uint64_t stored_cap, uint32_t n_stages, uint64_t raw_cap, qsf_pool *pool, qsf_error *err)
{
    *l = (qsf_loader){ .source = s, .mem = p, .pool = pool, .n_slots = n_slots, .stored_cap = stored_cap, .n_stages = n_stages, .raw_cap = raw_cap, .quality = 1 };
    for (uint32_t i = 0; i < QSF_STAGES; i++) l->staging[i] = -1;
    loader_measure(s, &l->max_extents, &l->strip_cap);
    l->strips_cap = l->strip_cap * ((pool ? qsf_pool_size(pool) : 1) + 1);
    if (!(l->slots = qsf_alloc_array(p, n_slots, sizeof(qsf_slot), "layer slots", err))) return QSF_E_MEMORY;
    if (!(l->slot_of = qsf_alloc_array(p, s->n_units, sizeof(int32_t), "unit table", err))) return QSF_E_MEMORY;
    for (uint32_t u = 0; u < s->n_units; u++) l->slot_of[u] = -1;
    if (l->strips_cap && !(l->strips = qsf_alloc(p, l->strips_cap, "strips", err))) return QSF_E_MEMORY;
    if (!(l->checked = qsf_alloc(p, s->n_units, "unit table", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; stored_cap && i < n_stages; i++)
        if (!(l->stored[i] = qsf_alloc(p, stored_cap, "staging buffer", err))) return QSF_E_MEMORY;
    if (raw_cap && !(l->raw = qsf_alloc(p, raw_cap, "staging buffer", err))) return QSF_E_MEMORY;
    for (uint32_t i = 0; i < n_slots; i++) {
        qsf_slot *slot = &l->slots[i];
        slot->stage = -1;
        slot->pinned = pins[i] >= 0;
        slot->unit = slot->pinned ? (uint32_t)pins[i] : 0;
        if (!(slot->reads = qsf_alloc_array(p, l->max_extents, sizeof(qsf_read *), "reads", err))) return QSF_E_MEMORY;
        if (!(slot->mem = qsf_alloc(p, caps[i], "weights", err))) return QSF_E_MEMORY;
        slot->cap = caps[i];
    }
    return QSF_OK;
}

qsf_status qsf_loader_start_thread(qsf_loader *l, qsf_error *err)
{
    return qsf_loader_threaded(l->source) ? qsf_worker_new(l->source->platform, l->mem, &l->worker, err) : QSF_OK;
}

void qsf_loader_done(qsf_loader *l)
{
    if (!l->source) return;
    const qsf_platform *p = l->mem;
    for (uint32_t i = 0; l->slots && i < l->n_slots; i++) {
        qsf_slot *slot = &l->slots[i];
        slot_drop(l, i);
        qsf_dealloc(p, slot->mem, slot->cap);
        qsf_dealloc(p, slot->reads, l->max_extents * sizeof(qsf_read *));
    }
    qsf_worker_free(l->worker);
    qsf_dealloc(p, l->strips, l->strips_cap);
    for (uint32_t i = 0; i < QSF_STAGES; i++) qsf_dealloc(p, l->stored[i], l->stored_cap);
    qsf_dealloc(p, l->checked, l->source->n_units);
    qsf_dealloc(p, l->raw, l->raw_cap);
    qsf_dealloc(p, l->slot_of, l->source->n_units * sizeof(int32_t));
    qsf_dealloc(p, l->slots, l->n_slots * sizeof(qsf_slot));
    *l = (qsf_loader){ 0 };
}

uint8_t *qsf_loader_writable(const qsf_loader *l, uint32_t unit, const void *weights)
{
    const qsf_slot *slot = &l->slots[l->slot_of[unit]];
    return slot->mem + ((const uint8_t *)weights - slot->mem);
}
