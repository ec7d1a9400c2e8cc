/* Tiles of GGUF's codebook types (IQ1, IQ2, IQ3): the way of ggml_tiles.h for one tile.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_IQ_TILES_H
#define QSF_IQ_TILES_H

#include "tensor/types.h"

bool qsf_iq_type(uint32_t type);
/* 16 rows' blocks, `stride` bytes apart, to a tile, and row r of a tile to a block. */
void qsf_iq_to_tile(uint32_t type, const uint8_t *from, size_t stride, uint8_t *tile);
void qsf_iq_from_tile(uint32_t type, const uint8_t *tile, uint32_t r, uint8_t *block);

#endif
