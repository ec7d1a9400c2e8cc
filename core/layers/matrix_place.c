/* Finds embedding and head among a file's tensors.
 * SPDX-License-Identifier: MIT */
#include "layers/matrix_place.h"
#include "tensor/ggml_tiles.h"
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

uint32_t qsf_place_rows(const qsf_matrix_place *p, uint64_t bytes)
{
    const uint64_t sixteen = p->strip_bytes * QSF_TILE_ROWS / p->strip_rows;
    const uint64_t all = qsf_round_up(p->t->rows, QSF_TILE_ROWS);
    return (uint32_t)QSF_MIN(QSF_MAX(bytes / sixteen, 1) * QSF_TILE_ROWS, all);
}
uint64_t qsf_place_bytes(const qsf_matrix_place *p, uint32_t rows)
{
    return p->strip_bytes * rows / p->strip_rows;
}

qsf_tensor qsf_place_part(const qsf_matrix_place *p, uint32_t rows, uint32_t i, uint64_t *begin)
{
    qsf_tensor t = *p->t;
    t.rows = QSF_MIN(rows, t.rows - i * rows);
    t.bytes = p->strip_bytes * qsf_ceil_div(t.rows, p->strip_rows);
    *begin = p->at + i * qsf_place_bytes(p, rows);
    return t;
}

/* One that begins at a checked chunk has no room to fill the last strip. */
bool qsf_place_tiles(const qsf_source *s, const qsf_matrix_place *p)
{
    if (qsf_ggml_tile_type(p->t) < 0) return false;
    return p->t->rows % QSF_TILE_ROWS == 0 || !s->units[qsf_source_unit(s, p->unit)].has_crc;
}
