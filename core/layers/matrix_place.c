/* Finds embedding and head among a file's tensors.
 * SPDX-License-Identifier: MIT */
#include "layers/matrix_place.h"
#include "weights/stream.h"

static qsf_matrix_place place_of(const qsf_source *s, qsf_unit_id id, uint32_t kind)
{
    const uint32_t unit = qsf_source_unit(s, id);
    const int found = qsf_unit_find(s, unit, kind);
    assert(found >= 0);
    const uint32_t i = s->units[unit].first_tensor + (uint32_t)found;
    const qsf_tensor *t = &s->tensors[i];
    const uint32_t rows = t->packing == 1 ? QSF_TILE_ROWS : 1;
    return (qsf_matrix_place){ t, id, s->places[i], rows, t->bytes / qsf_ceil_div(t->rows, rows) };
}

qsf_matrix_place qsf_place_embedding(const qsf_source *s)
{
    return place_of(s, qsf_id_embd(), QSF_K_TOKEN_EMBD);
}

qsf_matrix_place qsf_place_table(const qsf_source *s)
{
    return place_of(s, qsf_id_embd(), QSF_K_LAYER_TABLE);
}

qsf_matrix_place qsf_place_head(const qsf_source *s)
{
    return s->hp.tied ? qsf_place_embedding(s) : place_of(s, qsf_id_final(), QSF_K_OUTPUT);
}

/* Outliers of a matrix would have to be there whole, a scale would be a stream of its own. */
static bool unit_has_outliers(const qsf_source *s, uint32_t unit)
{
    for (uint32_t i = 0; i < s->units[unit].n_tensors; i++)
        if (s->tensors[s->units[unit].first_tensor + i].kind >= QSF_K_OUTLIERS) return true;
    return false;
}

bool qsf_place_can_stream(const qsf_source *s, const qsf_matrix_place *p)
{
    return p->t->packing <= 1 && !unit_has_outliers(s, qsf_source_unit(s, p->unit)) &&
           qsf_stream_possible(s, p->unit, p->at, p->at + p->t->bytes);
}
