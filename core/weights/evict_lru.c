/* Parts: least recently used.
 * SPDX-License-Identifier: MIT */
#include "weights/evict_lru.h"

/* The slot with the smallest rank is evicted first. */
static uint64_t lru_rank(const qsf_slot *slot)
{
    if (slot->state == QSF_SLOT_EMPTY) return 0;
    return slot->requested ? UINT64_MAX / 2 + slot->used : slot->used;
}

static int32_t lru_choose(const qsf_fetch *f, const qsf_shelf *shelf, const qsf_want *want)
{
    int32_t best = -1;
    for (uint32_t i = shelf->first; i < shelf->first + shelf->n; i++) {
        const qsf_slot *slot = &f->slots[i];
        if (slot->state == QSF_SLOT_READING) continue;
        const bool needed = slot->state == QSF_SLOT_READY && slot->requested
            && slot->requested_in == f->batch;
        if (want->ahead && needed) continue;
        if (best < 0 || lru_rank(slot) < lru_rank(&f->slots[best])) best = (int32_t)i;
    }
    return best;
}

static void lru_used(qsf_shelf *shelf, qsf_slot *slot) { slot->used = ++shelf->clock; }

const qsf_evict qsf_evict_lru = { "least recently used", lru_choose, lru_used };
