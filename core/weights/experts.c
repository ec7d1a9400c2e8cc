/* Slots for experts, and which of them is evicted.
 * SPDX-License-Identifier: MIT */
#include "weights/experts.h"

#include "base/pieces.h"
#include "base/reserve.h"
#include "model/experts_alone.h"
#include "tensor/ggml_tiles.h"
#include "weights/slot_read.h"

/* ---- where an expert lies ---- */

/* Its rows of a matrix of all. */
typedef struct slot_part {
    qsf_tensor t;
    uint64_t   from, to;        /* place in the unit, and in the slot */
} slot_part;

/* i: of the layer's matrices of experts.  to: where the one before ends in the slot; moved on. */
static slot_part part_at(const qsf_source *s, uint32_t layer, uint32_t e, uint32_t i, uint64_t *to)
{
    const qsf_unit *u = &s->units[layer];
    const uint32_t n = u->first_tensor + u->n_tensors - u->n_expert_tensors + i,
        n_experts = s->layers[layer].n_experts;
    slot_part p = { .to = *to };
    p.t = qsf_expert_rows(&s->tensors[n], n_experts, e, &p.from);
    p.from += s->places[n];
    *to += qsf_round_up(QSF_MAX(qsf_ggml_tiled_bytes(&p.t), p.t.bytes), 64);
    return p;
}

static qsf_extent expert_extent(const qsf_fetch *f, const qsf_slot *slot, uint32_t i)
{
    const qsf_source *s = f->source;
    const qsf_unit *u = &s->units[slot->id.number];
    slot_part p = { .from = 0 };
    uint64_t to = 0;
    if (i >= u->n_expert_tensors) return (qsf_extent){ .len = 0 };
    for (uint32_t j = 0; j <= i; j++) p = part_at(s, slot->id.number, slot->expert, j, &to);
    for (uint32_t j = 0; j < u->n_extents; j++) {
        const qsf_extent *x = &s->extents[u->first_extent + j];
        if (p.from >= x->to && p.from - x->to < x->len)
            return (qsf_extent){ x->file, x->at + (p.from - x->to), p.t.bytes, p.to };
    }
    assert(false);
    return (qsf_extent){ .len = 0 };
}

bool qsf_experts_possible(const qsf_source *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) {
        if (s->layers[i].n_experts && !s->units[i].n_expert_tensors) return false;
        any |= s->units[i].n_expert_tensors > 0;
    }
    return any;
}

uint32_t qsf_experts_all(const qsf_source *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->hp.n_layers; i++) n += s->layers[i].n_experts;
    return n;
}

uint64_t qsf_experts_slot(const qsf_source *s)
{
    uint64_t most = 0;
    for (uint32_t layer = 0; layer < s->hp.n_layers; layer++)
        for (uint32_t e = 0; e < s->layers[layer].n_experts; e++) {     /* some may share more tiles */
            uint64_t to = 0;
            for (uint32_t i = 0; i < s->units[layer].n_expert_tensors; i++)
                (void)part_at(s, layer, e, i, &to);
            most = QSF_MAX(most, to);
        }
    return qsf_reserve_room(most);
}

/* ---- from bytes to weights ---- */

/* Of files that have a checksum for it. */
static qsf_status expert_check(const qsf_fetch *f, const qsf_slot *slot, qsf_error *err)
{
    char name[48];
    const qsf_source *s = f->source;
    const qsf_unit *u = &s->units[slot->id.number];
    uint8_t *checked = &slot->shelf->checked[slot->id.number * slot->shelf->per_layer + slot->expert];
    uint32_t crc = 0;
    uint64_t to = 0, bytes = 0;
    if (!u->expert_crcs || (*checked && !f->check_every)) return QSF_OK;
    for (uint32_t i = 0; i < u->n_expert_tensors; i++) {
        const slot_part p = part_at(s, slot->id.number, slot->expert, i, &to);
        crc = s->crc32(crc, slot->mem + p.to, (size_t)p.t.bytes);
        bytes += p.t.bytes;
    }
    *checked = crc == u->expert_crcs[slot->expert];
    if (*checked) return QSF_OK;
    return qsf_fail(err, QSF_E_CORRUPT, "%s: the checksum of %s is wrong: its %llu bytes are damaged; fetch "
                    "or convert the file again", s->path, qsf_slot_name(f, slot, name),
                    (unsigned long long)bytes);
}

static qsf_status expert_make(qsf_fetch *f, qsf_slot *slot, uint8_t *strips, qsf_pool *pool, qsf_error *err)
{
    const qsf_source *s = f->source;
    qsf_tensor t[3], *tiles[3];
    uint8_t *data[3];
    uint32_t n = 0;
    uint64_t to = 0;
    const uint64_t begin = qsf_now(s->platform);
    const qsf_status st = expert_check(f, slot, err);
    slot->took.unit.check = qsf_now(s->platform) - begin;
    if (st) return st;
    for (uint32_t i = 0; i < s->units[slot->id.number].n_expert_tensors; i++) {
        const slot_part p = part_at(s, slot->id.number, slot->expert, i, &to);
        if (qsf_ggml_tile_type(&p.t) < 0) continue;
        t[n] = p.t;
        tiles[n] = &t[n];
        t[n].data = data[n] = slot->mem + p.to;
        n++;
    }
    if (n) qsf_ggml_to_tiles(tiles, data, n, strips, pool);
    return QSF_OK;
}

void qsf_expert_place(const qsf_experts *x, uint32_t layer, uint32_t e, qsf_matrix *m)
{
    const int32_t index = x->shelf.slot_of[layer * x->shelf.per_layer + e];
    uint64_t to = 0;
    assert(index >= 0 && x->fetch->slots[index].state == QSF_SLOT_READY);
    for (uint32_t i = 0;; i++) {
        const slot_part p = part_at(x->fetch->source, layer, e, i, &to);
        if (p.t.kind != m->t.kind) continue;
        m->t.data = x->fetch->slots[index].mem + p.to;
        m->t.rows = p.t.rows;
        return;
    }
}

/* ---- eviction ---- */

static const float *use_of(const qsf_experts *x, uint32_t layer, uint32_t e)
{
    return &x->use[layer * x->shelf.per_layer + e];
}

/* In how many tokens an expert is expected to be used again, seen from layer `now`: until its
 * layer's turn, plus the number of turns for which it usually is not chosen. */
static float expected_in(const qsf_experts *x, const qsf_slot *slot, uint32_t now)
{
    const uint32_t n = x->fetch->source->hp.n_layers, layer = slot->id.number;
    const float turn = (float)((layer + n - now - 1) % n + 1) / (float)n,
        use = QSF_MAX(*use_of(x, layer, slot->expert), 1e-4f);
    return turn + (1 - use) / use;
}

/* Takes an empty slot, else that of the expert that is expected last.  Experts that the current
 * walk still needs are evicted only if there is nothing else, its last expert first, and never for
 * reading ahead. */
static int32_t experts_choose(const qsf_fetch *f, const qsf_shelf *shelf, const qsf_want *want)
{
    const qsf_experts *x = (const qsf_experts *)(const void *)((const uint8_t *)shelf
                                                              - offsetof(qsf_experts, shelf));
    int32_t best = -1, wanted = -1;
    float best_in = -1;
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++) {
        const qsf_slot *slot = &f->slots[i];
        if (slot->state == QSF_SLOT_EMPTY) return (int32_t)i;
        if (slot->state == QSF_SLOT_READING) continue;
        if (slot->requested && slot->requested_in == f->batch) {
            if (wanted < 0 || slot->expert > f->slots[wanted].expert) wanted = (int32_t)i;
            continue;
        }
        const float in = expected_in(x, slot, want->id.number);
        if (in <= best_in) continue;
        best = (int32_t)i;
        best_in = in;
    }
    return best >= 0 || want->ahead ? best : wanted;
}

/* It is still wanted until its wave is over. */
static void experts_used(qsf_shelf *shelf, qsf_slot *slot)
{
    (void)shelf;
    slot->requested = true;
}

static const qsf_evict evict_expected = { "expected last", experts_choose, experts_used };

/* ---- a walk ---- */

static qsf_want want_expert(const qsf_experts *x, uint32_t layer, uint32_t e, bool ahead)
{
    (void)x;
    return (qsf_want){ .id = qsf_id_layer(layer), .expert = e, .ahead = ahead };
}

static qsf_slot *expert_slot(const qsf_experts *x, uint32_t layer, uint32_t e)
{
    const int32_t i = x->shelf.slot_of[layer * x->shelf.per_layer + e];
    return i < 0 ? NULL : &x->fetch->slots[i];
}

void qsf_experts_begin(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk)
{
    enum { ROWS = 16 };         /* that a new share weighs as much as what was before */
    const float weight = (float)walk->rows / (float)(walk->rows + ROWS);
    float *use = x->use + layer * x->shelf.per_layer;
    for (uint32_t e = 0; e < x->shelf.per_layer; e++) use[e] -= use[e] * weight;
    for (uint32_t i = 0; i < walk->n; i++) {
        qsf_slot *slot = expert_slot(x, layer, walk->list[i]);
        use[walk->list[i]] += weight * (float)(walk->first[i + 1] - walk->first[i]) / (float)walk->rows;
        x->n_used++;
        if (!slot) continue;
        x->n_found++;
        slot->requested = true;
        slot->requested_in = x->fetch->batch;
    }
    qsf_experts_ahead(x, layer, walk);
}

void qsf_experts_ahead(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk)
{
    enum { AHEAD = 8 };         /* on the way at once */
    uint32_t reading = 0;
    qsf_fetch_collect(x->fetch, &x->shelf);
    for (uint32_t i = walk->begin; i < walk->n && reading < AHEAD; i++) {
        const qsf_want want = want_expert(x, layer, walk->list[i], true);
        if (!expert_slot(x, layer, walk->list[i]))
            (void)qsf_fetch_start(x->fetch, &x->shelf, &want, NULL);    /* a failure shows later */
        const qsf_slot *slot = expert_slot(x, layer, walk->list[i]);
        if (!slot) return;
        reading += slot->state == QSF_SLOT_READING;
    }
}

qsf_status qsf_experts_get(qsf_experts *x, uint32_t layer, qsf_expert_walk *walk, bool wait, qsf_error *err)
{
    for (walk->end = walk->begin; walk->end < walk->n; walk->end++) {
        const qsf_slot *slot = expert_slot(x, layer, walk->list[walk->end]);
        const bool first = walk->end == walk->begin;
        if (!first && (!slot || walk->first[walk->end + 1] - walk->first[walk->begin] > walk->most)) break;
        const qsf_want want = want_expert(x, layer, walk->list[walk->end], false);
        const qsf_status st = qsf_fetch_get(x->fetch, &x->shelf, &want, wait && first, &slot, err);
        if (st == QSF_PENDING && !first) break;
        if (st) return st;
    }
    qsf_experts_ahead(x, layer, &(qsf_expert_walk){ .list = walk->list, .n = walk->n, .begin = walk->end });
    return QSF_OK;
}

void qsf_experts_leave(qsf_experts *x, uint32_t layer, const qsf_expert_walk *walk)
{
    for (uint32_t i = walk->begin; i < walk->end; i++) {
        qsf_slot *slot = expert_slot(x, layer, walk->list[i]);
        if (slot) slot->requested = false;
    }
}

/* ---- life ---- */

/* Whether the merged matrices of experts are stored as tiles, as in QSF files. */
static bool experts_tiled(const qsf_source *s)
{
    for (uint32_t i = 0; i < s->n_tensors; i++)
        if (qsf_kind_is_experts(s->tensors[i].kind) && s->tensors[i].packing == 1) return true;
    return false;
}

enum { EXPERTS_PIECES = 3 };

static void experts_pieces(qsf_experts *x, const qsf_source *s, qsf_piece list[EXPERTS_PIECES])
{
    const uint64_t n = (uint64_t)s->hp.n_layers * s->most.n_experts;
    list[0] = QSF_PIECE(x->shelf.slot_of, n, "experts");
    list[1] = QSF_PIECE(x->use, n, "experts");
    list[2] = QSF_PIECE(x->shelf.checked, n, "experts");
}

uint64_t qsf_experts_bytes(const qsf_source *s)
{
    qsf_experts x;
    qsf_piece list[EXPERTS_PIECES];
    experts_pieces(&x, s, list);
    return qsf_pieces_bytes(list, EXPERTS_PIECES) + EXPERTS_PIECES * QSF_RESERVE_PAGE;
}

qsf_status qsf_experts_init(qsf_experts *x, qsf_fetch *f, const qsf_fetch_plan *plan, qsf_error *err)
{
    qsf_piece list[EXPERTS_PIECES];
    if (!plan->n_experts) return QSF_OK;
    *x = (qsf_experts){ .fetch = f, .own_tiles = !experts_tiled(f->source) };
    x->shelf = (qsf_shelf){ .evict = &evict_expected, .make = expert_make, .threaded = true,
                            .extent = expert_extent, .per_layer = f->source->most.n_experts };
    experts_pieces(x, f->source, list);
    const qsf_status st = qsf_pieces_alloc(f->mem, list, EXPERTS_PIECES, err);
    if (st) return st;
    memset(x->shelf.slot_of, 0xff, list[0].n * list[0].size);
    return qsf_fetch_add_shelf(f, &x->shelf, plan->n_experts, plan->expert_cap, err);
}

void qsf_experts_done(qsf_experts *x)
{
    qsf_piece list[EXPERTS_PIECES];
    if (!x->fetch) return;
    if (x->shelf.slot_of) qsf_fetch_drop(x->fetch, &x->shelf);
    experts_pieces(x, x->fetch->source, list);
    qsf_pieces_free(x->fetch->mem, list, EXPERTS_PIECES);
    /* The slots stay with the fetch, empty. */
    x->shelf.slot_of = NULL;
    x->fetch = NULL;
}
