/* The table of slots, and how a requested range is loaded into one.
 * SPDX-License-Identifier: MIT */
#include "weights/fetch.h"

#include "base/pieces.h"
#include "tensor/ggml_tiles.h"
#include "weights/evict_cyclic.h"
#include "weights/experts.h"
#include "weights/slot_read.h"

static uint32_t slot_unit(const qsf_fetch *f, const qsf_slot *slot)
{
    return qsf_source_unit(f->source, slot->id);
}

/* ---- making weights of a unit ---- */

static qsf_status unit_make(qsf_fetch *f, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const uint32_t unit = slot_unit(f, slot);
    const bool crc = f->check_every || !f->units.checked[unit],
        first = !f->shared && slot->end < f->source->units[unit].stored;
    const qsf_unit_room room = { .mem = slot->mem, .cap = slot->cap, .raw = f->raw, .strips = strips,
                                 .stored = slot->stage >= 0 ? f->stored[slot->stage] : slot->mem,
                                 .pool = pool, .first = first, .shared = f->shared,
                                 .lut = f->lut && slot->id.kind == QSF_UNIT_LAYER };
    const qsf_status st = qsf_weights_make(f->source, unit, &room, crc, slot->w, &slot->took.unit, err);
    if (!st && !first) f->units.checked[unit] = 1;
    return st;
}

static uint8_t *fetch_strips(const qsf_fetch *f, bool thread)
{
    return thread && f->strips ? f->strips + (f->strips_cap - f->strip_cap) : f->strips;
}

static qsf_status slot_make(qsf_fetch *f, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const uint64_t begin = slot->made = qsf_now(f->source->platform);
    const qsf_status st = slot->shelf->make(f, slot, strips, pool, err);
    slot->took.prepare = qsf_now(f->source->platform) - begin;
    return st;
}

/* ---- the thread ---- */

/* What the thread does with a slot.  Reads take from when those of its last job were over. */
static qsf_status slot_job(void *arg, uint32_t index, qsf_error *err)
{
    qsf_fetch *f = arg;
    qsf_slot *slot = &f->slots[index];
    const qsf_status st = qsf_slot_reads(f, slot, true, err);
    const uint64_t now = qsf_now(f->source->platform);
    slot->took.read = now - QSF_MAX(slot->begun, f->read_until);
    f->read_until = now;
    if (!st) return slot_make(f, slot, fetch_strips(f, true), NULL, err);
    qsf_slot_stop(f, slot);
    return st;
}

/* ---- records, on the caller's thread ---- */

static bool fetch_records(const qsf_fetch *f)
{
#if defined(QSF_NO_RECORD)
    (void)f;
    return false;
#else
    return f->record != NULL;
#endif
}

/* What was waited for since `begin`. */
static void record_wait(const qsf_fetch *f, const char *name, uint64_t begin)
{
    const qsf_record x = { .size = sizeof x, .type = QSF_RECORD_WAIT, .name = name, .layer = -1,
                           .begin_ns = begin, .ns = qsf_now(f->source->platform) - begin };
    f->record(f->record_user, &x);
}

/* The reading of a slot that is ready, and its making, by the thread or not. */
static void record_slot(const qsf_fetch *f, const qsf_slot *slot, bool thread)
{
    char name[48];
    qsf_record x = { .size = sizeof x, .type = QSF_RECORD_READ, .begin_ns = slot->begun,
                     .ns = slot->made - slot->begun, .layer = -1 };
    x.name = qsf_slot_name(f, slot, name);
    if (slot->id.kind == QSF_UNIT_LAYER) x.layer = (int32_t)slot->id.number;
    for (uint32_t i = qsf_slot_extents(f, slot); i-- > 0;) {
        const qsf_extent e = qsf_slot_extent(f, slot, i);
        x.bytes += e.len;
        if (e.len) x.at = e.at;
    }
    f->record(f->record_user, &x);
    x.type = QSF_RECORD_PREPARE;
    x.begin_ns = slot->made;
    x.ns = slot->took.prepare;
    x.thread = thread ? f->record_thread : 0;
    f->record(f->record_user, &x);
}

/* Units that stay are made by the caller with all threads: nothing else can be computed until then.
 * Not those that need the staging buffers, which are the thread's. */
static void slot_hand_over(qsf_fetch *f, uint32_t index)
{
    qsf_slot *slot = &f->slots[index];
    if (!f->worker || !slot->shelf->threaded || (slot->pinned && slot->stage < 0)) return;
    slot->job.fn = slot_job;
    slot->job.arg = f;
    slot->job.what = index;
    qsf_worker_give(f->worker, &slot->job);
}

/* ---- slots ---- */

static void slot_ask(const qsf_fetch *f, qsf_slot *slot)
{
    slot->requested = true;
    slot->requested_in = f->batch;
}

/* It no longer is the slot of its unit, and its bytes are in no staging buffer. */
static void slot_forget(qsf_fetch *f, qsf_slot *slot)
{
    if (slot->w && slot->state != QSF_SLOT_EMPTY) f->slot_of[slot_unit(f, slot)] = -1;
    if (slot->shelf->slot_of && slot->state != QSF_SLOT_EMPTY)
        slot->shelf->slot_of[slot->id.number * slot->shelf->per_layer + slot->expert] = -1;
    if (slot->stage >= 0) f->staging[slot->stage] = -1;
    slot->stage = -1;
    slot->state = QSF_SLOT_EMPTY;
}

/* Ends what runs in a slot and forgets what it holds. */
static void slot_drop(qsf_fetch *f, uint32_t index)
{
    qsf_slot *slot = &f->slots[index];
    if (slot->job.given) (void)qsf_worker_take(f->worker, &slot->job, true, NULL);
    else if (slot->state != QSF_SLOT_EMPTY) qsf_slot_stop(f, slot);
    slot_forget(f, slot);
}

/* The slot takes what is wanted.  CRCs are of whole chunks: a part is widened to them. */
static void slot_take(qsf_fetch *f, uint32_t index, const qsf_want *want, int32_t stage)
{
    const qsf_source *s = f->source;
    qsf_slot *slot = &f->slots[index];
    slot_forget(f, slot);
    slot->state = QSF_SLOT_READING;
    slot->id = want->id;
    slot->begin = want->begin;
    slot->end = want->end;
    slot->stage = stage;
    slot->took = (qsf_fetch_times){ 0 };
    slot->begun = qsf_now(s->platform);
    slot->begun_in = f->batch;
    slot_ask(f, slot);
    if (stage >= 0) f->staging[stage] = (int32_t)index;
    const uint32_t unit = slot_unit(f, slot);
    if (slot->w) {
        f->slot_of[unit] = (int32_t)index;
        if (f->shared) slot->end = qsf_unit_shared(s, unit).stored;
        else if (f->first && qsf_unit_refines(s, unit)) slot->end -= s->units[unit].rest;
        return;
    }
    if (slot->shelf->slot_of) {
        slot->expert = want->expert;
        slot->shelf->slot_of[want->id.number * slot->shelf->per_layer + want->expert] = (int32_t)index;
        slot->shelf->n_read++;
        return;
    }
    if (s->units[unit].has_crc) {
        slot->begin = want->begin / s->crc_chunk * s->crc_chunk;
        slot->end = QSF_MIN(qsf_round_up(want->end, s->crc_chunk), s->units[unit].payload);
    }
    slot->tile = want->tile ? *want->tile : (qsf_tensor){ 0 };
    if (want->tile) slot->tile.data = qsf_slot_at(slot, want->begin);
    assert(slot->begin < slot->end && slot->end - slot->begin <= slot->cap);
}

static qsf_status slot_start(qsf_fetch *f, uint32_t index, qsf_error *err)
{
    qsf_slot *slot = &f->slots[index];
    for (uint32_t i = 0; i < qsf_slot_extents(f, slot); i++) {
        const uint64_t len = qsf_slot_extent(f, slot, i).len;
        f->bytes_read += len;
        slot->shelf->bytes_read += len;
    }
    const qsf_status st = qsf_slot_start_reads(f, slot, err);
    if (!st) slot_hand_over(f, index);
    return st;
}

/* ---- fetching ---- */

static bool slot_has(const qsf_slot *slot, const qsf_want *want)
{
    if (slot->state == QSF_SLOT_EMPTY || want->begin < slot->begin || want->end > slot->end) return false;
    return slot->tile.data == (want->tile ? qsf_slot_at(slot, want->begin) : NULL);
}

/* The slot that has the wanted range or will have it, -1: none. */
static int32_t slot_find(const qsf_fetch *f, const qsf_shelf *shelf, const qsf_want *want)
{
    if (shelf == &f->units) return f->slot_of[qsf_source_unit(f->source, want->id)];
    if (shelf->slot_of) return shelf->slot_of[want->id.number * shelf->per_layer + want->expert];
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++)
        if (slot_has(&f->slots[i], want)) return (int32_t)i;
    return -1;
}

/* The staging buffer for a unit, -1: it needs none; false: all are taken. */
static bool stage_choose(const qsf_fetch *f, const qsf_want *want, int32_t *stage)
{
    *stage = -1;
    if (!qsf_unit_staged(f->source, qsf_source_unit(f->source, want->id))) return true;
    for (uint32_t i = 0; i < f->n_stages; i++)
        if (f->staging[i] < 0) {
            *stage = (int32_t)i;
            return true;
        }
    return false;
}

qsf_status qsf_fetch_start(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, qsf_error *err)
{
    int32_t stage = -1, index = slot_find(f, shelf, want);
    if (index >= 0) {
        slot_ask(f, &f->slots[index]);
        return QSF_OK;
    }
    if (shelf == &f->units) {
        if (!stage_choose(f, want, &stage)) return QSF_OK;
    }
    /* Parts of the head may be given to the thread at any time. */
    const uint32_t reserved = shelf == &f->units || want->ahead ? QSF_PARTS_AHEAD : 0;
    if ((shelf == &f->units || shelf->slot_of) && f->worker && qsf_worker_room(f->worker) <= reserved)
        return QSF_OK;
    if ((index = shelf->evict->choose(f, shelf, want)) < 0) return QSF_OK;
    const uint64_t begin = qsf_now(f->source->platform);
    slot_take(f, (uint32_t)index, want, stage);
    const qsf_status st = slot_start(f, (uint32_t)index, err);
    f->ns_wait += qsf_now(f->source->platform) - begin;         /* a custom file is read here */
    if (st) slot_drop(f, (uint32_t)index);
    return st;
}

/* As the thread does it, on the caller's. */
static qsf_status slot_own(qsf_fetch *f, qsf_slot *slot, bool wait, qsf_error *err)
{
    if (wait && !f->source->io->read_wait)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "this host cannot wait for a read");
    const uint64_t begin = wait ? qsf_now(f->source->platform) : 0;
    qsf_status st = qsf_slot_reads(f, slot, wait, err);
    if (wait) slot->took.read += qsf_now(f->source->platform) - begin;
    if (wait && fetch_records(f)) record_wait(f, "read", begin);
    if (st) return st;
    st = slot_make(f, slot, fetch_strips(f, false), f->pool, err);
    f->ns_own += slot->took.prepare;
    return st;
}

/* Moves a reading slot on; wait: until it is ready. */
static qsf_status slot_poll(qsf_fetch *f, uint32_t index, bool wait, qsf_error *err)
{
    qsf_slot *slot = &f->slots[index];
    const bool thread = slot->job.given, waits = thread && wait && fetch_records(f);
    const uint64_t begin = waits ? qsf_now(f->source->platform) : 0;
    const qsf_status st = thread ? qsf_worker_take(f->worker, &slot->job, wait, err)
                                 : slot_own(f, slot, wait, err);
    if (waits) record_wait(f, "read", begin);
    if (st == QSF_PENDING || (wait && st == QSF_E_UNSUPPORTED && !f->source->io->read_wait)) return st;
    f->took.read += slot->took.read;
    f->took.prepare += slot->took.prepare;
    f->took.unit.check += slot->took.unit.check;
    f->took.unit.unpack += slot->took.unit.unpack;
    if (st) {
        slot_drop(f, index);
        return st;
    }
    if (slot->stage >= 0) f->staging[slot->stage] = -1;
    slot->stage = -1;
    slot->state = QSF_SLOT_READY;
    if (fetch_records(f)) record_slot(f, slot, thread);
    return QSF_OK;
}

/* A slot that failed is dropped: its error shows when it is read again. */
void qsf_fetch_collect(qsf_fetch *f, qsf_shelf *shelf)
{
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++) {
        const qsf_slot *slot = &f->slots[i];
        const bool left = !slot->w && slot->state == QSF_SLOT_READING && slot->requested_in != f->batch;
        if (slot->job.given || left) (void)slot_poll(f, i, false, NULL);
    }
}

/* Every slot, or the staging buffer, is busy with something else: that one is finished first.  When
 * its reads are over, there may be room and nothing to wait for.  Their failure does not concern
 * this batch if an earlier batch began them. */
static qsf_status fetch_other(qsf_fetch *f, const qsf_shelf *shelf, bool wait, qsf_error *err)
{
    uint32_t i = shelf->first;
    while (i < shelf->first + shelf->n && f->slots[i].state != QSF_SLOT_READING) i++;
    assert(i < shelf->first + shelf->n);
    const bool before = f->slots[i].begun_in != f->batch;
    const qsf_status st = slot_poll(f, i, wait, err);
    if (!before || f->slots[i].state != QSF_SLOT_EMPTY) return st;
    if (err) *err = (qsf_error){ 0 };
    return QSF_OK;
}

static qsf_status fetch_advance(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, bool wait,
                                int32_t *index, qsf_error *err)
{
    qsf_status st = QSF_OK;
    while ((*index = slot_find(f, shelf, want)) < 0) {
        if ((st = qsf_fetch_start(f, shelf, want, err))) return st;
        if (slot_find(f, shelf, want) < 0 && (st = fetch_other(f, shelf, wait, err))) return st;
    }
    qsf_slot *slot = &f->slots[*index];
    slot_ask(f, slot);
    if (slot->state == QSF_SLOT_READY) return QSF_OK;
    const bool before = slot->begun_in != f->batch;
    st = slot_poll(f, (uint32_t)*index, wait, err);
    if (!st || slot->state != QSF_SLOT_EMPTY || !before) return st;
    /* A batch before this one read it ahead.  That it failed then is none of this one's: the read
     * is made again. */
    if (err) *err = (qsf_error){ 0 };
    st = qsf_fetch_start(f, shelf, want, err);
    return st ? st : QSF_PENDING;
}

/* Waits for it, and counts that. */
static qsf_status fetch_wait(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, int32_t *index,
                             qsf_error *err)
{
    qsf_status st;
    const uint64_t begin = qsf_now(f->source->platform), counted = f->ns_wait + f->ns_own;
    while ((st = fetch_advance(f, shelf, want, true, index, err)) == QSF_PENDING) ;
    f->ns_wait += qsf_now(f->source->platform) - begin - (f->ns_wait + f->ns_own - counted);
    return st;
}

qsf_status qsf_fetch_get(qsf_fetch *f, qsf_shelf *shelf, const qsf_want *want, bool wait,
                         const qsf_slot **slot, qsf_error *err)
{
    int32_t index;
    assert(!want->ahead);
    const qsf_status st = wait ? fetch_wait(f, shelf, want, &index, err)
                               : fetch_advance(f, shelf, want, false, &index, err);
    *slot = NULL;
    if (st) return st;
    *slot = &f->slots[index];
    f->slots[index].requested = false;
    if (shelf->evict->used) shelf->evict->used(shelf, &f->slots[index]);
    return QSF_OK;
}

qsf_want qsf_want_unit(const qsf_source *s, qsf_unit_id id)
{
    return (qsf_want){ .id = id, .end = s->units[qsf_source_unit(s, id)].stored };
}

qsf_status qsf_fetch_unit(qsf_fetch *f, qsf_unit_id id, bool wait, const qsf_weights **w, qsf_error *err)
{
    const qsf_slot *slot;
    const qsf_want want = qsf_want_unit(f->source, id);
    const qsf_status st = qsf_fetch_get(f, &f->units, &want, wait, &slot, err);
    *w = slot ? slot->w : NULL;
    return st;
}

uint8_t *qsf_fetch_writable(const qsf_fetch *f, const void *weights)
{
    for (uint32_t i = 0; i < f->n_slots; i++) {
        const qsf_slot *slot = &f->slots[i];
        const uintptr_t at = (uintptr_t)weights - (uintptr_t)slot->mem;
        if (slot->state == QSF_SLOT_READY && at < slot->cap) return slot->mem + at;
    }
    return NULL;
}

void qsf_fetch_waited(qsf_fetch *f, uint64_t ns)
{
    f->ns_wait += ns;
    if (fetch_records(f)) record_wait(f, "read", qsf_now(f->source->platform) - ns);
    if (!f->worker) f->took.read += ns;         /* a thread measures its reads */
}

/* ---- life ---- */

bool qsf_fetch_threaded(const qsf_source *s)
{
    return qsf_host_threads(s->platform) && s->io->read_wait && s->io->reads_cross_threads;
}

/* Sizes that depend on the file alone. */
static void fetch_measure(const qsf_source *s, uint32_t *max_reads, uint64_t *strip_cap)
{
    *max_reads = s->most.n_experts ? 3 : 1;
    *strip_cap = 0;
    for (uint32_t u = 0; u < s->n_units; u++) *max_reads = QSF_MAX(*max_reads, s->units[u].n_extents);
    *max_reads = QSF_MIN(*max_reads, QSF_READS_AT_ONCE);
    for (uint32_t i = 0; i < s->n_tensors; i++)
        if (qsf_ggml_tile_type(&s->tensors[i]) >= 0)
            *strip_cap = QSF_MAX(*strip_cap, qsf_ggml_strip_bytes(&s->tensors[i]));
}

enum { FETCH_TABLES = 6, FETCH_PIECES = FETCH_TABLES + QSF_STAGES + 1 };

/* Tables, then staging. */
static void fetch_pieces(qsf_fetch *f, qsf_piece list[FETCH_PIECES])
{
    const uint32_t n_units = f->source ? f->source->n_units : 0;
    list[0] = QSF_PIECE(f->slots, f->max_slots, "slots");
    list[1] = QSF_PIECE(f->reads, (uint64_t)f->max_slots * f->max_reads, "reads");
    list[2] = QSF_PIECE(f->weights, f->n_weights, "slots");
    list[3] = QSF_PIECE(f->slot_of, n_units, "unit table");
    list[4] = QSF_PIECE(f->units.checked, n_units, "unit table");
    list[5] = QSF_PIECE(f->strips, f->strips_cap, "strips");
    for (uint32_t i = 0; i < QSF_STAGES; i++) {
        const uint64_t cap = i < f->n_stages ? f->stored_cap : 0;
        list[FETCH_TABLES + i] = QSF_PIECE(f->stored[i], cap, "staging buffer");
    }
    list[FETCH_TABLES + QSF_STAGES] = QSF_PIECE(f->raw, f->raw_cap, "staging buffer");
}

/* How long the tables are. */
static void fetch_size(qsf_fetch *f, const qsf_source *s, uint32_t n_slots, uint32_t n_experts,
                       uint32_t n_threads)
{
    f->source = s;
    f->max_slots = n_slots + QSF_PART_SLOTS + n_experts;
    f->n_weights = n_slots;
    fetch_measure(s, &f->max_reads, &f->strip_cap);
    f->strips_cap = f->strip_cap * (n_threads + 1);
}

uint64_t qsf_fetch_tables(const qsf_source *s, uint32_t n_slots, uint32_t n_threads)
{
    qsf_fetch f = { 0 };
    qsf_piece list[FETCH_PIECES];
    fetch_size(&f, s, n_slots, 0, n_threads);
    fetch_pieces(&f, list);
    return qsf_pieces_bytes(list, FETCH_TABLES) + qsf_worker_bytes();
}

uint64_t qsf_fetch_expert_table(const qsf_source *s)
{
    uint32_t max_reads;
    uint64_t strip;
    fetch_measure(s, &max_reads, &strip);
    return sizeof(qsf_slot) + max_reads * sizeof(qsf_read *);
}

uint64_t qsf_fetch_staging(const qsf_fetch_plan *plan)
{
    qsf_fetch f = { .stored_cap = plan->stored, .raw_cap = plan->raw, .n_stages = plan->n_stages };
    qsf_piece list[FETCH_PIECES];
    fetch_pieces(&f, list);
    return qsf_pieces_bytes(list + FETCH_TABLES, FETCH_PIECES - FETCH_TABLES);
}

static qsf_status slot_init(qsf_fetch *f, qsf_shelf *shelf, uint64_t cap, qsf_error *err)
{
    assert(f->n_slots < f->max_slots);
    qsf_slot *slot = &f->slots[f->n_slots];
    slot->shelf = shelf;
    slot->stage = -1;
    slot->reads = f->reads + (size_t)f->n_slots * f->max_reads;
    if (!(slot->mem = qsf_alloc(f->mem, cap, "weights", err))) return QSF_E_MEMORY;
    slot->cap = cap;
    f->n_slots++;
    return QSF_OK;
}

qsf_status qsf_fetch_add_shelf(qsf_fetch *f, qsf_shelf *shelf, uint32_t n, uint64_t cap, qsf_error *err)
{
    shelf->first = f->n_slots;
    for (shelf->n = 0; shelf->n < n; shelf->n++) {
        const qsf_status st = slot_init(f, shelf, cap, err);
        if (st) return st;
    }
    return QSF_OK;
}

void qsf_fetch_drop(qsf_fetch *f, const qsf_shelf *shelf)
{
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++) slot_drop(f, i);
}

qsf_status qsf_fetch_init(qsf_fetch *f, const qsf_source *s, const qsf_platform *p,
                          const qsf_fetch_plan *plan, qsf_pool *pool, qsf_error *err)
{
    qsf_status st;
    qsf_piece list[FETCH_PIECES];
    *f = (qsf_fetch){ .mem = p, .pool = pool, .stored_cap = plan->stored, .n_stages = plan->n_stages,
                      .raw_cap = plan->raw, .quality = 1, .shared = plan->n_experts > 0 };
    f->units = (qsf_shelf){ .evict = &qsf_evict_cyclic, .make = unit_make, .threaded = true,
                            .n = plan->n_slots };
    for (uint32_t i = 0; i < QSF_STAGES; i++) f->staging[i] = -1;
    fetch_size(f, s, plan->n_slots, plan->n_experts, pool ? qsf_pool_size(pool) : 1);
    fetch_pieces(f, list);
    if ((st = qsf_pieces_alloc(p, list, FETCH_PIECES, err))) return st;
    for (uint32_t u = 0; u < s->n_units; u++) f->slot_of[u] = -1;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        if ((st = slot_init(f, &f->units, plan->caps[i], err))) return st;
        f->slots[i].w = &f->weights[i];
        f->slots[i].pinned = plan->pins[i].pinned;
        if (plan->pins[i].pinned) f->slots[i].id = qsf_pin_unit(plan->pins[i]);
    }
    return QSF_OK;
}

qsf_status qsf_fetch_start_thread(qsf_fetch *f, qsf_error *err)
{
    if (!qsf_fetch_threaded(f->source)) return QSF_OK;
    return qsf_worker_new(f->source->platform, f->mem, &f->worker, err);
}

void qsf_fetch_done(qsf_fetch *f)
{
    if (!f->source) return;
    const qsf_platform *p = f->mem;
    for (uint32_t i = 0; i < f->n_slots; i++) {
        slot_drop(f, i);
        qsf_dealloc(p, f->slots[i].mem, f->slots[i].cap);
    }
    qsf_worker_free(f->worker);
    qsf_piece list[FETCH_PIECES];
    fetch_pieces(f, list);
    qsf_pieces_free(p, list, FETCH_PIECES);
    *f = (qsf_fetch){ 0 };
}
