/* Blocks of GGUF's codebook types into tiles and back.
 * SPDX-License-Identifier: MIT
 *
 * A block is a row of fields of 1, 2 or 4 bytes, and a tile is the fields of 16 blocks side by
 * side: what stands at byte n of a block as a field of f bytes stands at 16 n + f r in the
 * tile, for row r.  Fields are what a kernel reads of a row at once. */
#include "tensor/iq_tiles.h"

/* Fields of one size, one after another. */
typedef struct iq_run { uint8_t size, count; } iq_run;
enum { IQ_RUNS = 5 };

static const iq_run *runs_of(uint32_t type)
{
    static const iq_run runs[QSF_T_GGML_END - QSF_T_GGML][IQ_RUNS] = {
        [QSF_T_IQ2_XXS - QSF_T_GGML] = { { 2, 1 }, { 4, 16 } },     /* d; indices and signs in turn */
        [QSF_T_IQ2_XS - QSF_T_GGML]  = { { 2, 1 }, { 4, 16 }, { 1, 8 } },   /* d; two indices; scales */
        /* d; indices and signs; high bits and scales */
        [QSF_T_IQ2_S - QSF_T_GGML]   = { { 2, 1 }, { 4, 16 }, { 1, 16 } },
        [QSF_T_IQ3_XXS - QSF_T_GGML] = { { 2, 1 }, { 4, 24 } },    /* d; indices and signs */
        /* d; indices; high bits; signs; scales */
        [QSF_T_IQ3_S - QSF_T_GGML]   = { { 2, 1 }, { 4, 16 }, { 1, 8 }, { 4, 8 }, { 1, 4 } },
        [QSF_T_IQ1_S - QSF_T_GGML]   = { { 2, 1 }, { 4, 8 }, { 2, 8 } },    /* d; indices; high bits */
        [QSF_T_IQ1_M - QSF_T_GGML]   = { { 4, 8 }, { 2, 12 } },     /* indices; high bits and scales */
    };
    return type >= QSF_T_GGML && type < QSF_T_GGML_END && runs[type - QSF_T_GGML][0].size
        ? runs[type - QSF_T_GGML] : NULL;
}

bool qsf_iq_type(uint32_t type) { return runs_of(type) != NULL; }

/* Copies with a constant length. */
static inline void field_copy(uint8_t *restrict to, const uint8_t *restrict from, uint32_t size)
{
    switch (size) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    default: memcpy(to, from, 4);
    }
}

void qsf_iq_to_tile(uint32_t type, const uint8_t *from, size_t stride, uint8_t *tile)
{
    const iq_run *run = runs_of(type);
    for (uint32_t k = 0; k < IQ_RUNS && run[k].size; k++)
        for (uint32_t i = 0; i < run[k].count; i++, from += run[k].size)
            for (uint32_t r = 0; r < QSF_TILE_ROWS; r++, tile += run[k].size)
                field_copy(tile, from + r * stride, run[k].size);
}

void qsf_iq_from_tile(uint32_t type, const uint8_t *tile, uint32_t r, uint8_t *block)
{
    const iq_run *run = runs_of(type);
    for (uint32_t k = 0; k < IQ_RUNS && run[k].size; k++)
        for (uint32_t i = 0; i < run[k].count; i++, block += run[k].size, tile += QSF_TILE_ROWS * run[k].size)
            field_copy(block, tile + r * run[k].size, run[k].size);
}
