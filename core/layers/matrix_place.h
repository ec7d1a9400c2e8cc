/* Where embedding and head are in a file, and which of them can be read in parts.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_MATRIX_PLACE_H
#define QSF_MATRIX_PLACE_H

#include "model/source.h"

typedef struct qsf_matrix_place {
    const qsf_tensor *t;      /* its shape and type */
    qsf_unit_id unit;
    uint64_t at;              /* in the unit */
    /* A strip: rows that belong together in memory (those of a row of tiles, or one) and their
     * bytes. */
    uint32_t strip_rows;
    uint64_t strip_bytes;
} qsf_matrix_place;

qsf_matrix_place qsf_place_embedding(const qsf_source *s);
/* Of tokens' rows for layers, if the model has them. */
qsf_matrix_place qsf_place_table(const qsf_source *s);
qsf_matrix_place qsf_place_head(const qsf_source *s);         /* the embedding's if they are tied */
bool qsf_place_can_stream(const qsf_source *s, const qsf_matrix_place *p);

/* Rows of a part that takes at most `bytes`: a multiple of 16.  Bytes of n rows. */
uint32_t qsf_place_rows(const qsf_matrix_place *p, uint64_t bytes);
uint64_t qsf_place_bytes(const qsf_matrix_place *p, uint32_t n);
/* Part i, of that many rows each, as the file has it; *begin is where. */
qsf_tensor qsf_place_part(const qsf_matrix_place *p, uint32_t rows, uint32_t i, uint64_t *begin);
/* Whether GGUF's parts are brought into tiles. */
bool qsf_place_tiles(const qsf_source *s, const qsf_matrix_place *p);

#endif
