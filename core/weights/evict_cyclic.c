/* Layers are used in order: the one that was computed last is needed again last.  (Least recently
 * used would be the worst rule: with 30 layers in 29 slots it evicts each one just before its
 * turn.)
 * SPDX-License-Identifier: MIT */
#include "weights/evict_cyclic.h"

/* How many layers after layer `from` layer u comes, going round. */
static uint32_t layers_ahead(const qsf_fetch *f, uint32_t u, uint32_t from)
{
    const uint32_t n = f->source->hp.n_layers;
    return (u + n - from) % n;
}

static bool is_unit(const qsf_slot *slot, qsf_unit_id id)
{
    return slot->id.kind == id.kind && slot->id.number == id.number;
}

/* The unit's own slot, an empty one, or that of the layer whose turn is furthest away; when reading
 * ahead, only if that turn is later than the wanted layer's own. */
static int32_t cyclic_choose(const qsf_fetch *f, const qsf_shelf *shelf, const qsf_want *want)
{
    const uint32_t from = want->ahead ? want->now : want->id.number;
    int32_t best = -1;
    uint32_t best_ahead = 0;
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++) {
        const qsf_slot *slot = &f->slots[i];
        if (slot->pinned && is_unit(slot, want->id)) return (int32_t)i;
        if (slot->pinned || want->id.kind != QSF_UNIT_LAYER || slot->state == QSF_SLOT_READING) continue;
        uint32_t ahead = UINT32_MAX;
        if (slot->state == QSF_SLOT_READY) {
            if (want->ahead && slot->id.number == want->now) continue;
            ahead = layers_ahead(f, slot->id.number, from);
            if (want->ahead && ahead <= layers_ahead(f, want->id.number, from)) continue;
        }
        if (best < 0 || ahead > best_ahead) {
            best = (int32_t)i;
            best_ahead = ahead;
        }
    }
    return best;
}

const qsf_evict qsf_evict_cyclic = { "cyclic", cyclic_choose, NULL };
