/* Layers of a model that are run here, while others run the rest.
 * SPDX-License-Identifier: MIT */
#include "model/part.h"
#include "model/roles.h"

bool qsf_part_needs(const qsf_source *s, uint32_t unit)
{
    const qsf_unit_kind kind = qsf_unit_id_at(s->hp.n_layers, unit).kind;
    if (kind == QSF_UNIT_LAYER) return qsf_part_has(s, unit);
    return kind == QSF_UNIT_FINAL ? qsf_part_ends(s) : qsf_part_embeds(s);
}

/* Tensors that turn tokens into rows and are not used after that.  Any other tensor in the unit may
 * also be used by layers: such a model has state outside of its rows. */
static bool part_is_embedding(uint32_t kind)
{
    switch (qsf_kind_base(kind)) {
    case QSF_K_TOKEN_EMBD: case QSF_K_POS_EMBD: case QSF_K_TOKEN_TYPES:
    case QSF_K_TOKEN_NORM: case QSF_K_TOKEN_NORM_BIAS:
        return true;
    default:
        return false;
    }
}

static qsf_status part_can_be_apart(const qsf_source *s, uint32_t first, uint32_t end, qsf_error *err)
{
    const qsf_unit *u = &s->units[qsf_unit_embd(s)];
    for (uint32_t i = u->first_tensor; i < u->first_tensor + u->n_tensors; i++)
        if (!part_is_embedding(s->tensors[i].kind))
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers of %s cannot be split: they need %s besides "
                            "the hidden states; run all of them together", s->path, s->hp.arch,
                            qsf_kind_name(s->tensors[i].kind));
    if (s->hp.mix_first)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layers of %s cannot be split: they need the first one's "
                        "values besides the hidden states; run all of them together", s->path,
                        s->hp.arch);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t from = qsf_layer_of(&s->hp, i).kv_from;
        if (from && from - 1 < first)
            return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: layer %u reads the keys and values of layer %u; cut "
                            "the model before that one", s->path, (unsigned)i, (unsigned)from - 1);
    }
    return QSF_OK;
}

qsf_status qsf_part_set(qsf_source *s, uint32_t first, uint32_t end, qsf_error *err)
{
    const uint32_t n = s->hp.n_layers;
    if (!end) end = n;
    if (!first && end == n) return QSF_OK;
    if (first >= end || end > n)
        return qsf_fail(err, QSF_E_ARGUMENT, "%s: layers %u to %u; it has layers 0 to %u, of which a part "
                        "needs at least one", s->path, (unsigned)first, (unsigned)end - 1, (unsigned)n - 1);
    if (s->n_units == 0) return QSF_OK;
    const qsf_status st = part_can_be_apart(s, first, end, err);
    if (st) return st;
    s->n_before = first;
    s->n_after = n - end;
    return QSF_OK;
}

qsf_status qsf_part_refuse(const qsf_source *s, const char *what, qsf_error *err)
{
    if (qsf_part_whole(s)) return QSF_OK;
    if (qsf_part_shared(s))
        return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: only share %u of %u of its layers is open here, but %s "
                        "needs all", s->path, (unsigned)s->share, (unsigned)s->n_shares, what);
    return qsf_fail(err, QSF_E_UNSUPPORTED, "%s: only layers %u to %u are open here, but %s needs all",
                    s->path, (unsigned)s->n_before, (unsigned)qsf_part_end(s) - 1, what);
}
