/* One unit of a model file, read whole and checked.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/host.h"
#include "model/source_read.h"

qsf_status qsf_conv_unit_load(const qsf_source *s, uint32_t unit, uint8_t **mem, qsf_error *err)
{
    const qsf_unit *u = &s->units[unit];
    const bool packed = u->compression != QSF_COMPRESS_NONE;
    uint8_t *raw = NULL, *stored = qsf_alloc(s->platform, u->stored, "a unit", err);
    qsf_status st = stored ? QSF_OK : QSF_E_MEMORY;
    if (!st && packed && !(raw = qsf_alloc(s->platform, u->raw, "an unpacked unit", err))) st = QSF_E_MEMORY;
    for (uint32_t i = 0; !st && i < u->n_extents; i++) {
        const qsf_extent *x = &s->extents[u->first_extent + i];
        st = qsf_source_read(s, x->file, x->at, stored + x->to, x->len, "weights", err);
    }
    if (!st) st = qsf_unit_check(s, unit, stored, raw, err);
    if (packed) qsf_dealloc(s->platform, stored, u->stored);
    *mem = packed ? raw : stored;
    return st;
}
