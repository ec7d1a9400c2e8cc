/* Units by name, and the tensors in them.
 * SPDX-License-Identifier: MIT */
#include "model/source.h"

const char *qsf_unit_name(const qsf_source *s, uint32_t unit, char buf[32])
{
    const qsf_unit_id id = qsf_unit_id_at(s->hp.n_layers, unit);
    if (id.kind == QSF_UNIT_EMBEDDING) return "embedding";
    if (id.kind == QSF_UNIT_FINAL) return "final section";
    qsf_format(buf, 32, "layer %u", (unsigned)id.number);
    return buf;
}

qsf_unit qsf_unit_shared(const qsf_source *s, uint32_t unit)
{
    qsf_unit u = s->units[unit];
    if (!u.n_expert_tensors) return u;
    u.n_tensors -= u.n_expert_tensors;
    u.stored = u.raw = s->places[u.first_tensor + u.n_tensors];
    u.crc = u.shared_crc;
    return u;
}

int qsf_unit_find(const qsf_source *s, uint32_t unit, uint32_t kind)
{
    const qsf_unit *u = &s->units[unit];
    for (uint32_t i = 0; i < u->n_tensors; i++)
        if (s->tensors[u->first_tensor + i].kind == kind) return (int)i;
    return -1;
}
