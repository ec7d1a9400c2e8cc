/* Adapters that do not stay in memory: a slot for each, with what it has of one unit, and with the
 * file's bytes of the next one, which travel while this one is computed.
 * SPDX-License-Identifier: MIT */
#include "layers/lora_stream.h"

static size_t slots_of(const qsf_lora *l) { return (size_t)l->n_seqs * QSF_LORA_MOST; }

qsf_lora_slot *qsf_lora_slot_of(const qsf_lora *l, const qsf_adapter *a)
{
    for (size_t i = 0; l->slots && i < slots_of(l); i++) if (l->slots[i].adapter == a) return &l->slots[i];
    return NULL;
}

/* ---- allocating and freeing slots ---- */

static bool slot_used(const qsf_lora *l, const qsf_lora_slot *slot)
{
    for (uint32_t s = 0; s < l->n_seqs; s++)
        for (uint32_t u = 0; u < l->sets[s].n; u++)
            if (l->sets[s].use[u].adapter == slot->adapter) return true;
    return false;
}

static void slot_empty(const qsf_lora *l, qsf_lora_slot *slot)
{
    assert(!slot->read);
    qsf_dealloc(l->platform, slot->mem, slot->cap);
    qsf_dealloc(l->platform, slot->raw, slot->raw_cap);
    *slot = (qsf_lora_slot){ .adapter = NULL };
}

void qsf_lora_slots_sweep(qsf_lora *l)
{
    for (size_t i = 0; l->slots && i < slots_of(l); i++)
        if (l->slots[i].adapter && !slot_used(l, &l->slots[i])) slot_empty(l, &l->slots[i]);
}

void qsf_lora_slots_done(qsf_lora *l)
{
    qsf_lora_slots_sweep(l);
    qsf_dealloc(l->platform, l->slots, slots_of(l) * sizeof *l->slots);
}

qsf_status qsf_lora_slots_take(qsf_lora *l, const qsf_lora_set *set, qsf_error *err)
{
    for (uint32_t u = 0; u < set->n; u++) {
        const qsf_adapter *a = set->use[u].adapter;
        if (!a->streamed || qsf_lora_slot_of(l, a)) continue;
        if (!l->slots &&
            !(l->slots = qsf_alloc_array(l->platform, slots_of(l), sizeof *l->slots, "adapters", err)))
            return QSF_E_MEMORY;
        qsf_lora_slot *slot = qsf_lora_slot_of(l, NULL);
        assert(slot);
        *slot = (qsf_lora_slot){ .adapter = a, .unit = -1, .ahead_unit = -1, .cap = a->unit_most,
                                 .raw_cap = a->ahead_most };
        slot->mem = qsf_alloc(l->platform, slot->cap, "an adapter", err);
        slot->raw = slot->mem ? qsf_alloc(l->platform, slot->raw_cap, "an adapter", err) : NULL;
        if (slot->raw) continue;
        slot_empty(l, slot);
        return QSF_E_MEMORY;
    }
    return QSF_OK;
}

/* ---- reading ---- */

/* The end of the read that is under way. */
static void slot_wait(qsf_lora_slot *slot)
{
    const qsf_platform *io = slot->read ? slot->adapter->file.g.s->io : NULL;
    if (io && io->read_wait(io->user, slot->read)) slot->ahead_unit = -1;
    slot->read = NULL;
}

void qsf_lora_settle(const qsf_lora *l, const qsf_adapter *a)
{
    qsf_lora_slot *slot = qsf_lora_slot_of(l, a);
    if (slot) slot_wait(slot);
}

static bool slot_streams(const qsf_adapter *a, uint32_t unit)
{
    return a->first[unit] < a->first[unit + 1] && !a->mem[unit];
}

/* After a failed read ahead, the bytes are read again, which reports the error. */
static qsf_status slot_fetch(qsf_lora_slot *slot, uint32_t unit, qsf_error *err)
{
    slot_wait(slot);            /* ahead_unit may be none then */
    slot->unit = -1;
    const qsf_lora_bytes *there = slot->ahead_unit == unit ? &slot->ahead : NULL;
    const qsf_status st = qsf_adapter_read_unit(slot->adapter, unit, there, slot->mem, err);
    if (!st) slot->unit = unit;
    slot->ahead_unit = -1;
    return st;
}

qsf_status qsf_lora_fetch(qsf_lora *l, uint32_t unit, qsf_error *err)
{
    for (uint32_t i = 0; i < l->n_spans; i++)
        for (uint32_t u = 0; u < l->spans[i].set->n; u++) {
            const qsf_adapter *a = l->spans[i].set->use[u].adapter;
            qsf_lora_slot *slot = a->streamed && slot_streams(a, unit) ? qsf_lora_slot_of(l, a) : NULL;
            if (!slot || slot->unit == unit) continue;
            const qsf_status st = slot_fetch(slot, unit, err);
            if (st) return st;
            l->bytes_read += a->unit_bytes[unit];
        }
    return QSF_OK;
}

/* Layers, then the head, then the next batch's first layer. */
static uint32_t unit_after(uint32_t unit, uint32_t n_layers, bool head)
{
    return unit + 1 < n_layers ? unit + 1 : unit + 1 == n_layers && head ? n_layers + 1 : 0;
}

static void slot_ahead(qsf_lora_slot *slot, uint32_t unit)
{
    const qsf_source *s = slot->adapter->file.g.s;
    qsf_lora_bytes *b = &slot->ahead;
    if (slot->unit == unit || slot->ahead_unit == unit) return;
    slot_wait(slot);
    slot->ahead_unit = -1;
    if (!qsf_adapter_unit_bytes(slot->adapter, unit, b) || b->len > slot->raw_cap) return;
    b->bytes = slot->raw;
    if (s->io->read_start(s->io->user, s->files[b->file], b->at, slot->raw, (size_t)b->len, &slot->read))
        slot->read = NULL;
    else slot->ahead_unit = unit;
}

void qsf_lora_ahead(qsf_lora *l, uint32_t unit, uint32_t n_layers, bool head)
{
    for (uint32_t i = 0; i < l->n_spans; i++)
        for (uint32_t u = 0; u < l->spans[i].set->n; u++) {
            const qsf_adapter *a = l->spans[i].set->use[u].adapter;
            uint32_t next = unit_after(unit, n_layers, head);
            if (!a->streamed) continue;
            while (next != unit && !slot_streams(a, next)) next = unit_after(next, n_layers, head);
            if (next != unit) slot_ahead(qsf_lora_slot_of(l, a), next);
        }
}
