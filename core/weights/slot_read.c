/* Starts and ends the reads of a slot.
 * SPDX-License-Identifier: MIT */
#include "weights/slot_read.h"

static const qsf_unit *unit_of_slot(const qsf_fetch *f, const qsf_slot *slot)
{
    return &f->source->units[qsf_source_unit(f->source, slot->id)];
}

const char *qsf_slot_name(const qsf_fetch *f, const qsf_slot *slot, char buf[48])
{
    char unit[32];
    const char *name = qsf_unit_name(f->source, qsf_source_unit(f->source, slot->id), unit);
    if (slot->shelf->slot_of) qsf_format(buf, 48, "%s, expert %u", name, (unsigned)slot->expert);
    else qsf_format(buf, 48, "%s", name);
    return buf;
}

qsf_extent qsf_slot_extent(const qsf_fetch *f, const qsf_slot *slot, uint32_t i)
{
    if (slot->shelf->extent) return slot->shelf->extent(f, slot, i);
    qsf_extent x = f->source->extents[unit_of_slot(f, slot)->first_extent + i];
    const uint64_t begin = QSF_MAX(x.to, slot->begin), end = QSF_MIN(x.to + x.len, slot->end);
    x.at += begin - x.to;
    x.len = begin < end ? end - begin : 0;
    x.to = begin - slot->begin;
    return x;
}

uint32_t qsf_slot_extents(const qsf_fetch *f, const qsf_slot *slot)
{
    const qsf_unit *u = unit_of_slot(f, slot);
    return slot->shelf->extent ? u->n_expert_tensors : u->n_extents;
}

static qsf_status reads_go_on(const qsf_fetch *f, qsf_slot *slot, qsf_error *err)
{
    char name[48];
    const qsf_source *s = f->source;
    uint8_t *to = slot->stage >= 0 ? f->stored[slot->stage] : slot->mem;
    for (; slot->next < qsf_slot_extents(f, slot); slot->next++) {
        const qsf_extent x = qsf_slot_extent(f, slot, slot->next);
        qsf_read **read = &slot->reads[slot->next % f->max_reads];
        if (*read) break;
        if (!x.len) continue;
        const qsf_status st = s->io->read_start(s->io->user, s->files[x.file], x.at, to + x.to, (size_t)x.len,
                                                read);
        if (!st) continue;
        *read = NULL;
        return qsf_fail(err, st, "%s: %s: cannot read %llu bytes at %llu", s->paths[x.file],
                        qsf_slot_name(f, slot, name), (unsigned long long)x.len, (unsigned long long)x.at);
    }
    return QSF_OK;
}

qsf_status qsf_slot_start_reads(const qsf_fetch *f, qsf_slot *slot, qsf_error *err)
{
    slot->next = 0;
    return reads_go_on(f, slot, err);
}

/* i: of its reads. */
static qsf_status read_failed(const qsf_fetch *f, const qsf_slot *slot, uint32_t i, qsf_status st,
                              qsf_error *err)
{
    char name[48];
    const qsf_source *s = f->source;
    const qsf_extent x = qsf_slot_extent(f, slot, i + (slot->next - 1 - i) / f->max_reads * f->max_reads);
    if (st == QSF_E_CORRUPT)
        return qsf_fail(err, st, "%s: the file was changed while it was in use; open it again",
                        s->paths[x.file]);
    return qsf_fail(err, st, "%s: %s: reading %llu bytes at %llu failed", s->paths[x.file],
                    qsf_slot_name(f, slot, name), (unsigned long long)x.len, (unsigned long long)x.at);
}

qsf_status qsf_slot_reads(const qsf_fetch *f, qsf_slot *slot, bool wait, qsf_error *err)
{
    const qsf_platform *io = f->source->io;
    for (;;) {
        for (uint32_t i = 0; i < f->max_reads; i++) {
            if (!slot->reads[i]) continue;
            const qsf_status st = (wait ? io->read_wait : io->read_poll)(io->user, slot->reads[i]);
            if (st == QSF_PENDING) return st;
            slot->reads[i] = NULL;
            if (st) return read_failed(f, slot, i, st, err);
        }
        if (slot->next == qsf_slot_extents(f, slot)) return QSF_OK;
        const qsf_status st = reads_go_on(f, slot, err);
        if (st) return st;
    }
}

void qsf_slot_stop(const qsf_fetch *f, qsf_slot *slot)
{
    const qsf_platform *io = f->source->io;
    for (uint32_t i = 0; i < f->max_reads; i++) {
        if (!slot->reads[i]) continue;
        if (io->read_wait) io->read_wait(io->user, slot->reads[i]);
        else while (io->read_poll(io->user, slot->reads[i]) == QSF_PENDING) ;
        slot->reads[i] = NULL;
    }
}
