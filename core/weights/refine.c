/* Adds low bits to slots that were made from high bits.
 * SPDX-License-Identifier: MIT
 *
 * Only if every unit keeps its slot: then nothing else needs a slot or a staging buffer after all
 * first pieces have arrived, and that is when refining begins.  A slot stays ready meanwhile; only
 * its staging buffer and its read of the second extent show that it is being refined. */
#include "weights/refine.h"
#include "weights/slot_read.h"

#include "model/qsf_file.h"

bool qsf_refine_possible(const qsf_fetch *f)
{
    uint32_t pinned = 0;
    for (uint32_t i = f->units.first; i < f->units.first + f->units.n; i++) pinned += f->slots[i].pinned;
    return pinned == f->source->n_units && pinned == f->n_slots;
}

static bool slot_lacks(const qsf_fetch *f, const qsf_slot *slot)
{
    return slot->end < f->source->units[qsf_source_unit(f->source, slot->id)].stored;
}

static qsf_status refine_start(qsf_fetch *f, uint32_t index, uint32_t stage, qsf_error *err)
{
    char name[32];
    const qsf_source *s = f->source;
    qsf_slot *slot = &f->slots[index];
    const uint32_t unit = qsf_source_unit(s, slot->id);
    const qsf_extent *x = &s->extents[s->units[unit].first_extent + 1];
    const qsf_status st = s->io->read_start(s->io->user, s->files[x->file], x->at, f->stored[stage],
                                            (size_t)x->len, &slot->reads[1]);
    if (st) {
        slot->reads[1] = NULL;
        return qsf_fail(err, st, "%s: %s: cannot read %llu bytes at %llu", s->paths[x->file],
                        qsf_unit_name(s, unit, name), (unsigned long long)x->len, (unsigned long long)x->at);
    }
    f->bytes_read += x->len;
    f->staging[stage] = (int32_t)index;
    slot->stage = (int32_t)stage;
    return QSF_OK;
}

static qsf_status refine_end(qsf_fetch *f, qsf_slot *slot, bool wait, qsf_error *err)
{
    const uint32_t unit = qsf_source_unit(f->source, slot->id);
    qsf_status st = qsf_slot_reads(f, slot, wait, err);
    if (st == QSF_PENDING) return st;
    if (!st) st = qsf_unit_refine(f->source, unit, f->stored[slot->stage], slot->mem, err);
    f->staging[slot->stage] = -1;
    slot->stage = -1;
    if (st) return st;
    slot->end = f->source->units[unit].stored;
    f->units.checked[unit] = 1;
    return QSF_OK;
}

static int32_t refine_stage(const qsf_fetch *f)
{
    for (uint32_t i = 0; i < f->n_stages; i++)
        if (f->staging[i] < 0) return (int32_t)i;
    return -1;
}

qsf_status qsf_refine_step(qsf_fetch *f, bool wait, qsf_error *err)
{
    bool whole = true;
    if (!f->first) return QSF_OK;
    for (uint32_t i = 0; i < f->units.n; i++)
        if (f->slots[i].state != QSF_SLOT_READY) return QSF_PENDING;
    for (uint32_t i = 0; i < f->units.n; i++) {
        qsf_slot *slot = &f->slots[i];
        qsf_status st = QSF_OK;
        if (!slot_lacks(f, slot)) continue;
        const int32_t stage = slot->stage < 0 ? refine_stage(f) : -1;
        if (stage >= 0) st = refine_start(f, i, (uint32_t)stage, err);
        if (!st && slot->stage >= 0) st = refine_end(f, slot, wait, err);
        if (st && st != QSF_PENDING) return st;
        whole &= !slot_lacks(f, slot);
    }
    f->first = !whole;
    return whole ? QSF_OK : QSF_PENDING;
}
